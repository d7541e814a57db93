"""Makes a Delta table as a Spark job fills it from a topic: sparklike.py TABLE COMMITS [struct], records on standard input.

The records are the rows of `ledgerlake read` of the log alone. Each commit has the next ones of every partition, in no
order; the columns are those of Spark's Kafka source, under names of the job's own, or in a struct of them. Each commit records
its batch as txnAppId and txnVersion do, under a name that looks like a position of ours."""

import base64
import datetime
import json
import random
import sys

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

table, commits, in_struct = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["struct"]
rows = [json.loads(line) for line in sys.stdin]
rows.sort(key=lambda r: r["_offset"])
place = [("kafka_offset", pa.int64()), ("kafka_partition", pa.int32()), ("at", pa.timestamp("us", "UTC"))]
data = [("key", pa.binary()), ("value", pa.binary())]
schema = pa.schema([("kafka", pa.struct([("topic", pa.string())] + place))] + data if in_struct else place + data)


def row(r):
    where = {"kafka_offset": r["_offset"], "kafka_partition": r["_partition"], "at": datetime.datetime.fromisoformat(r["_timestamp"].replace("Z", "+00:00"))}
    what = {"key": base64.b64decode(r["_key"]), "value": base64.b64decode(r["_value"])}
    return {"kafka": {"topic": "events"} | where} | what if in_struct else where | what


size = -(-len(rows) // commits)
for i in range(commits):
    part = rows[i * size:(i + 1) * size]
    random.Random(i).shuffle(part)
    write_deltalake(table, pa.Table.from_pylist([row(r) for r in part], schema=schema), mode="append",
                    commit_properties=CommitProperties(app_transactions=[Transaction("orders-job-1", i)]))
