"""A Kafka client of another make (librdkafka): clients.py COMMAND ADDRESS TOPIC ARG...

    produce    N CODEC [idempotent]   message i gets key k<i % 50>, value and headers; prints each acknowledgement
    consume    GROUP N                reads N messages from where the group stands, commits, prints each message
    share      GROUP N                two members of a group share the partitions; prints who read what
    transact   N                      aborts a transaction of N messages, commits another; prints the committed
    abort      N                      aborts a transaction of N messages
    committed  N                      reads N messages with read_committed and prints each
    offsets    MS                     prints the watermarks of each partition and its first offset at time MS

Each prints one JSON object a line. Every wait is bounded. CLIENT_CONF is a JSON object with more settings of the client.
"""

import base64
import json
import os
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

LIMIT = 240.0  # seconds for any command
MORE = json.loads(os.environ.get("CLIENT_CONF", "{}"))


def b64(b):
    return None if b is None else base64.b64encode(b).decode()


def show(**fields):
    print(json.dumps(fields), flush=True)


def fail(text):
    sys.exit("clients.py: " + text)


def value(i):
    return b'{"n":%d,"name":"librdkafka %d"}' % (i, i)


def shown(m):
    return dict(partition=m.partition(), offset=m.offset(), key=b64(m.key()), value=b64(m.value()),
                headers=[[k, b64(v)] for k, v in m.headers() or []], timestamp=m.timestamp()[1])


def produce(address, topic, n, codec, idempotent="no"):
    errors = []
    p = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 5, "batch.num.messages": 500,
                  "enable.idempotence": idempotent == "idempotent", "acks": "all", **MORE})

    def delivered(i, t):
        def done(err, m):
            if err is not None:
                errors.append(str(err))
            else:
                show(i=i, partition=m.partition(), offset=m.offset(), sent=t)
        return done

    for i in range(int(n)):
        t = 1700000000000 + i * 1000
        p.produce(topic, value(i), b"k%d" % (i % 50), timestamp=t, on_delivery=delivered(i, t),
                  headers=[("i", b"%d" % i), ("empty", b""), ("null", None)])
        p.poll(0)
    if p.flush(LIMIT) or errors:
        fail("not delivered: %s" % errors[:3])


def consumer(address, group, **more):
    return Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 10000, **MORE, **more})


def messages(c, n, limit=LIMIT):
    """At most n messages, or what came within the limit."""
    end = time.monotonic() + limit
    while n > 0 and time.monotonic() < end:
        m = c.poll(0.5)
        if m is None:
            continue
        if m.error():
            if m.error().code() == KafkaError._PARTITION_EOF:
                continue
            raise KafkaException(m.error())
        n -= 1
        yield m


def consume(address, topic, group, n):
    c = consumer(address, group)
    c.subscribe([topic])
    got = 0
    for m in messages(c, int(n)):
        show(**shown(m))
        got += 1
    c.commit(asynchronous=False)
    c.close()
    if got < int(n):
        fail("%d of %s messages came" % (got, n))


def share(address, topic, group, n):
    left, lock, out = [int(n)], threading.Lock(), []
    end = time.monotonic() + LIMIT
    failures = []
    both = threading.Barrier(2)

    def member(name):
        try:
            c = consumer(address, group)
            seen = threading.Event()
            c.subscribe([topic], on_assign=lambda c, parts: seen.set() if parts else None)
            ready = False
            while time.monotonic() < end and left[0] > 0:
                # Nobody reads until each has a share, else the first might read all.
                if not ready:
                    m = c.poll(0.1)
                    if m is not None and not m.error():
                        c.seek(TopicPartition(topic, m.partition(), m.offset()))
                    if len(c.assignment()) in range(1, partitions):
                        both.wait(LIMIT)
                        ready = True
                    continue
                m = c.poll(0.2)
                if m is None:
                    continue
                if m.error():
                    raise KafkaException(m.error())
                with lock:
                    out.append((name, m.partition(), m.offset()))
                    left[0] -= 1
            c.close()
        except Exception as e:  # shown by the main thread
            failures.append("%s: %r" % (name, e))
            left[0] = 0
            both.abort()

    probe = consumer(address, group + "-probe")
    partitions = len(probe.list_topics(topic, LIMIT).topics[topic].partitions)
    probe.close()
    threads = [threading.Thread(target=member, args=("m%d" % i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(LIMIT + 20)
    if failures or left[0] > 0:
        fail("%s, %d messages did not come" % (failures, left[0]))
    for name, partition, offset in out:
        show(member=name, partition=partition, offset=offset)


def transact(address, topic, n, commit=True):
    n = int(n)

    def fresh(name):
        p = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 5, **MORE})
        p.init_transactions(LIMIT)
        p.begin_transaction()
        return p

    def send(p, first, keep=False):
        def done(i):
            def delivered(err, m):
                if err is None and keep:
                    show(i=i, partition=m.partition(), offset=m.offset())
            return delivered
        for i in range(first, first + n):
            p.produce(topic, value(i), b"k%d" % (i % 50), on_delivery=done(i))
            p.poll(0)
        if p.flush(LIMIT):
            fail("a transaction's messages are not delivered")

    p = fresh("transact-1")
    send(p, 0)
    p.abort_transaction(LIMIT)
    if commit:
        p.begin_transaction()
        send(p, n, keep=True)
        p.commit_transaction(LIMIT)


def abort(address, topic, n):
    transact(address, topic, n, commit=False)


def committed(address, topic, n):
    c = consumer(address, "committed-%d" % time.time_ns(), **{"isolation.level": "read_committed", "enable.partition.eof": True})
    c.subscribe([topic])
    got = 0
    for m in messages(c, int(n), 45):
        show(**shown(m))
        got += 1
    for m in messages(c, 1, 2):
        fail("a message more than committed: %s" % shown(m))
    c.close()
    if got < int(n):
        fail("%d of %s committed messages came" % (got, n))


def offsets(address, topic, ms):
    c = consumer(address, "offsets")
    for p in sorted(c.list_topics(topic, 20).topics[topic].partitions):
        low, high = c.get_watermark_offsets(TopicPartition(topic, p), 20)
        at = c.offsets_for_times([TopicPartition(topic, p, int(ms))], 20)[0]
        show(partition=p, low=low, high=high, at=at.offset, error=str(at.error) if at.error else "")
    c.close()


COMMANDS = {f.__name__: f for f in (produce, consume, share, transact, abort, committed, offsets)}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
