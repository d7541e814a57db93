"""Events in envelopes: envelopes.py BROKER FROM TO. CloudEvents are what their own library writes; changes are written as
Debezium's documentation has them for JSON with schemas, since Debezium is a Java service that needs a database."""
import json
import sys
from datetime import datetime, timedelta, timezone

from cloudevents.core.bindings.kafka import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": sys.argv[1]})
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    event = CloudEvent({"id": "e%d" % i, "source": "/shop", "type": "shop.order", "specversion": "1.0", "datacontenttype": "application/json",
                        "time": datetime(2026, 1, 2, tzinfo=timezone.utc) + timedelta(seconds=i)}, {"n": i, "who": "w%d" % i})
    for topic, message in ("structured", to_structured_event(event)), ("binary", to_binary_event(event)):
        producer.produce(topic, message.value, key=message.key, headers=message.headers)
    before, after = {"n": i, "who": "old"}, {"n": i, "who": "w%d" % i}
    op = "cud"[i % 3]
    change = {"before": None if op == "c" else before, "after": None if op == "d" else after, "op": op, "ts_ms": 1767312000999,
              "source": {"version": "3.0.0.Final", "connector": "postgresql", "db": "shop", "table": "orders", "ts_ms": 1767312000000 + 1000 * i, "lsn": i}}
    key = json.dumps({"n": i})
    producer.produce("changes", json.dumps({"schema": {"type": "struct", "name": "shop.orders.Envelope"}, "payload": change}), key=key)
    if op == "d":
        producer.produce("changes", None, key=key)  # Debezium's tombstone behind a delete
if producer.flush(30):
    sys.exit("not all values were acknowledged")
