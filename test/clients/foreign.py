"""The same errands by Python clients that know Kafka: foreign.py aiokafka|kafka-python ADDRESS TOPIC HISTORY

It sends records, a transaction that it commits and one that it aborts; reads the whole topic in a group from the earliest
offset, HISTORY records more than it sent; goes on in that group; and reads from an offset that it names. Each record is
printed as a JSON object with the step that it belongs to.
"""

import asyncio
import json
import sys

PLAIN, TRANSACTION, LATE = 200, 20, 10


def show(step, partition, offset, value):
    print(json.dumps({"step": step, "partition": partition, "offset": offset, "value": (value or b"").decode()}))


async def aio(address, topic, history):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def send(producer, step, what, n):
        acks = [await producer.send(topic, f"aiokafka {what} {i}".encode(), key=b"k%d" % (i % 5)) for i in range(n)]
        for i, ack in enumerate(acks):
            at = await ack
            show(step, at.partition, at.offset, f"aiokafka {what} {i}".encode())

    plain = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True, compression_type="gzip")
    await plain.start()
    await send(plain, "sent", "plain", PLAIN)
    transactional = AIOKafkaProducer(bootstrap_servers=address, transactional_id="aiokafka")
    await transactional.start()
    async with transactional.transaction():
        await send(transactional, "sent", "committed", TRANSACTION)
    await transactional.begin_transaction()
    await send(transactional, "aborted", "aborted", TRANSACTION)
    await transactional.abort_transaction()
    await transactional.stop()

    async def read(step, n):
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, group_id="aiokafka", auto_offset_reset="earliest",
                                    isolation_level="read_committed", enable_auto_commit=False)
        await consumer.start()
        for _ in range(n):
            m = await consumer.getone()
            show(step, m.partition, m.offset, m.value)
        await consumer.commit()
        await consumer.stop()

    await read("read", history + PLAIN + TRANSACTION)
    await send(plain, "late", "late", LATE)
    await plain.stop()
    await read("resumed", LATE)
    seeker = AIOKafkaConsumer(bootstrap_servers=address)
    await seeker.start()
    seeker.assign([TopicPartition(topic, 1)])
    seeker.seek(TopicPartition(topic, 1), 7)
    m = await seeker.getone()
    show("seek", m.partition, m.offset, m.value)
    await seeker.stop()


def kafka_python(address, topic, history):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    def send(producer, step, what, n):
        acks = [producer.send(topic, f"kafka-python {what} {i}".encode(), key=b"k%d" % (i % 5)) for i in range(n)]
        producer.flush()
        for i, ack in enumerate(acks):
            at = ack.get(timeout=300)
            show(step, at.partition, at.offset, f"kafka-python {what} {i}".encode())

    plain = KafkaProducer(bootstrap_servers=address, acks="all", compression_type="gzip")
    send(plain, "sent", "plain", PLAIN)
    transactional = KafkaProducer(bootstrap_servers=address, transactional_id="kafka-python")
    transactional.init_transactions()
    transactional.begin_transaction()
    send(transactional, "sent", "committed", TRANSACTION)
    transactional.commit_transaction()
    transactional.begin_transaction()
    send(transactional, "aborted", "aborted", TRANSACTION)
    transactional.abort_transaction()
    transactional.close()

    def read(step, n):
        consumer = KafkaConsumer(topic, bootstrap_servers=address, group_id="kafka-python", auto_offset_reset="earliest",
                                 isolation_level="read_committed", enable_auto_commit=False)
        for _ in range(n):
            m = next(consumer)
            show(step, m.partition, m.offset, m.value)
        consumer.commit()
        consumer.close()

    read("read", history + PLAIN + TRANSACTION)
    send(plain, "late", "late", LATE)
    plain.close()
    read("resumed", LATE)
    seeker = KafkaConsumer(bootstrap_servers=address)
    seeker.assign([TopicPartition(topic, 1)])
    seeker.seek(TopicPartition(topic, 1), 7)
    m = next(seeker)
    show("seek", m.partition, m.offset, m.value)
    seeker.close()


client, address, topic, history = sys.argv[1:]
if client == "aiokafka":
    asyncio.run(aio(address, topic, int(history)))
elif client == "kafka-python":
    kafka_python(address, topic, int(history))
else:
    sys.exit(f"foreign.py: no client {client} is known")
