"""librdkafka as an application uses it: reads topics of a group to their ends, commits, and prints a line a message:
partition, offset, timestamp, key, headers, value. Keys, values and headers are in base64; - stands for null.

consume ADDRESS GROUP TOPIC [MOST]    goes on where the group stands; MOST: ends after so many messages
produce ADDRESS TOPIC                 tries to write, and prints what it is told
"""
import base64
import sys

from confluent_kafka import Consumer, KafkaError, Producer


def b64(b):
    if b is None:
        return "-"
    return base64.b64encode(b).decode()


def consume(address, group, topic, most="0"):
    c = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
                  "enable.partition.eof": True})
    parts = {p for p in c.list_topics(topic, 60).topics[topic].partitions}
    done, count = set(), 0
    c.subscribe([topic])
    while done != parts and (most == "0" or count < int(most)):
        m = c.poll(120)
        if m is None:
            sys.exit("nothing came in 120 s")
        if m.error():
            if m.error().code() != KafkaError._PARTITION_EOF:
                sys.exit(str(m.error()))
            done.add(m.partition())
            continue
        done.discard(m.partition())
        count += 1
        headers = ";".join(k + "=" + b64(v) for k, v in m.headers() or [])
        print(m.partition(), m.offset(), m.timestamp()[1], b64(m.key()), headers or "-", b64(m.value()))
    if count > 0:
        c.commit(asynchronous=False)
    c.close()


def produce(address, topic):
    p = Producer({"bootstrap.servers": address, "enable.idempotence": False, "message.timeout.ms": 60000})
    p.produce(topic, b"x", on_delivery=lambda e, m: print(e.name() if e else "written"))
    p.flush()


if __name__ == "__main__":
    {"consume": consume, "produce": produce}[sys.argv[1]](*sys.argv[2:])
