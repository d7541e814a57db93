"""Writes a table as kafka-delta-ingest does: a table that somebody made with payload columns only, appends that carry the
last offset of each partition as txn actions "<app>-<partition>", a checkpoint on the way.

    olddaemon.py create TABLE SCHEMA.json [PARTITION_COLUMN]
    olddaemon.py append TABLE APP     records on standard input: {"partition": p, "offset": o, "row": {...}}
    olddaemon.py txns TABLE APP N     prints the version that delta-rs has for <app>-0 .. <app>-(N-1)
"""

import datetime
import json
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake


def create(path, schema, *partition):
    with open(schema, encoding="utf-8") as f:
        DeltaTable.create(path, schema=Schema.from_json(f.read()), partition_by=list(partition))


def value(v, t):
    if v is None:
        return None
    if pa.types.is_timestamp(t):
        return datetime.datetime.fromisoformat(v.replace("Z", "+00:00"))
    if pa.types.is_date(t):
        return datetime.date.fromisoformat(v)
    return v


def append(path, app, batch=300):
    table = DeltaTable(path)
    schema = pa.schema(table.schema().to_arrow())
    records = [json.loads(line) for line in sys.stdin]
    for i in range(0, len(records), batch):
        part = records[i:i + batch]
        rows = [{f.name: value(r["row"].get(f.name), f.type) for f in schema} for r in part]
        last = {}
        for r in part:
            last[r["partition"]] = r["offset"]
        txns = [Transaction(app_id="%s-%d" % (app, p), version=o) for p, o in last.items()]
        write_deltalake(path, pa.Table.from_pylist(rows, schema=schema), mode="append",
                        commit_properties=CommitProperties(app_transactions=txns))
        if i // batch == 1:
            DeltaTable(path).create_checkpoint()


def txns(path, app, n):
    table = DeltaTable(path)
    print(json.dumps([table.transaction_version("%s-%d" % (app, p)) for p in range(int(n))]))


if __name__ == "__main__":
    {"create": create, "append": append, "txns": txns}[sys.argv[1]](*sys.argv[2:])
