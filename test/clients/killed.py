"""librdkafka beside a server that is killed: killed.py produce ADDRESS TOPIC N RATE | consume ADDRESS TOPIC GROUP [N]

It prints what Kafka's VerifiableProducer and VerifiableConsumer print: an object a line for each acknowledgement and each
record. A consumer without N goes on until it is ended.
"""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer


def show(name, m):
    print(json.dumps({"name": name, "partition": m.partition(), "offset": m.offset(), "value": m.value().decode()}), flush=True)


def produce(address, topic, n, rate):
    failed = []
    p = Producer({"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 5,
                  "message.timeout.ms": 600000})

    def delivered(err, m):
        failed.append(str(err)) if err is not None else show("producer_send_success", m)

    begin = time.monotonic()
    for i in range(int(n)):
        p.produce(topic, b"2.%d" % i, b"k%d" % (i % 50), on_delivery=delivered)
        p.poll(max(0.0, begin + i / float(rate) - time.monotonic()))
    if p.flush(600) or failed:
        sys.exit("not delivered: %s" % failed[:3])


def consume(address, topic, group, n="0"):
    c = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200})
    c.subscribe([topic])
    got = 0
    while n == "0" or got < int(n):
        m = c.poll(1.0)
        if m is None:
            continue
        if m.error() is None:
            show("record_data", m)
            got += 1
        elif m.error().fatal() or m.error().code() == KafkaError.OFFSET_OUT_OF_RANGE:
            raise KafkaException(m.error())
    c.close()


{"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:])
