"""Moves a Kafka topic into a Delta table with confluent-kafka, pyarrow and delta-rs, as a careful script would: messages
are gathered, read as JSON with the table's schema, and appended together with the positions of their partitions.

delta_rs_loop.py BROKER TOPIC TABLE APP SECONDS ENDS [web]
  SECONDS  of messages a commit
  ENDS     JSON, partition to the last offset to take
  web      the message shape whose date and kafka columns are set by the reader
"""
import io, json, sys, time

import confluent_kafka
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

broker, topic, path, app, seconds, ends = sys.argv[1:7]
seconds, ends, web = float(seconds), {int(p): end for p, end in json.loads(ends).items()}, sys.argv[7:] == ["web"]
table = DeltaTable(path)
schema = pa.schema(table.schema().to_arrow())
options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
consumer = confluent_kafka.Consumer({
    "bootstrap.servers": broker, "group.id": "delta-rs-loop", "enable.auto.commit": False, "fetch.max.bytes": 64 << 20,
})
consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in ends])


def with_metadata(rows, messages):
    """The columns that kafka-delta-ingest's transforms would set."""
    kafka = pa.StructArray.from_arrays(
        [pa.array([m.offset() for m in messages], pa.int64()), pa.array([topic] * len(messages)),
         pa.array([m.partition() for m in messages], pa.int32())],
        fields=list(schema.field("meta").type.field("kafka").type))
    stamp = pc.struct_field(rows["meta"].combine_chunks(), ["producer", "timestamp"])
    fields = list(schema.field("meta").type)
    producer = pa.StructArray.from_arrays([stamp], fields=list(fields[0].type))
    meta = pa.StructArray.from_arrays([producer, kafka], fields=fields)
    date = pc.utf8_slice_codeunits(stamp, 0, 10)
    # One chunk a column: batches would else be cut at different places, and delta-rs panics on structs that begin at an offset.
    columns = {name: rows[name].combine_chunks() for name in schema.names}
    columns.update(meta=meta, date=date)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def flush(messages, at):
    rows = pa.json.read_json(io.BytesIO(b"\n".join(m.value() for m in messages)), parse_options=options)
    rows = with_metadata(rows, messages) if web else rows.select(schema.names)
    positions = [Transaction(f"{app}-{p}", offset) for p, offset in at.items()]
    write_deltalake(table, rows, mode="append", commit_properties=CommitProperties(app_transactions=positions))


at, messages, begun = {}, [], time.monotonic()
while any(at.get(p, -1) < end for p, end in ends.items()) or messages:
    for m in consumer.consume(10000, 0.2):
        if m.error():
            raise SystemExit(str(m.error()))
        if m.offset() <= ends[m.partition()]:
            messages.append(m)
            at[m.partition()] = m.offset()
    done = all(at.get(p, -1) >= end for p, end in ends.items())
    if messages and (done or time.monotonic() - begun >= seconds):
        flush(messages, at)
        messages, begun = [], time.monotonic()
