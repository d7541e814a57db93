"""Writes Delta tables with other engines, for `ledgerlake read` to read: writers.py KIND TABLE

    plain        several appends, every simple type, nulls
    checkpoint   enough commits for a checkpoint, then more
    partitioned  partition columns of several types, one of them null
    overwritten  an overwrite and a delete leave files that no longer count
    duckdb       made by delta-rs, appended to by DuckDB
"""

import datetime
import decimal
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def rows(first, n):
    """n rows with every simple type; each third value is null."""
    def some(i, v):
        return None if i % 3 == 0 else v

    ids = range(first, first + n)
    utc = datetime.timezone.utc
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "i32": pa.array([some(i, i * 7 - 50) for i in ids], pa.int32()),
        "i16": pa.array([some(i + 1, i - 20) for i in ids], pa.int16()),
        "i8": pa.array([some(i + 2, i % 100 - 50) for i in ids], pa.int8()),
        "f64": pa.array([some(i, i / 8) for i in ids], pa.float64()),
        "f32": pa.array([some(i + 1, i / 4) for i in ids], pa.float32()),
        "yes": pa.array([some(i, i % 2 == 0) for i in ids], pa.bool_()),
        "text": pa.array([some(i + 1, "caf\u00e9 \"%d\"\n" % i) for i in ids], pa.string()),
        "raw": pa.array([some(i + 2, bytes([i % 256, 0, 255])) for i in ids], pa.binary()),
        "day": pa.array([some(i, datetime.date(2000, 1, 1) + datetime.timedelta(days=i)) for i in ids], pa.date32()),
        "at": pa.array([some(i + 1, datetime.datetime(2020, 1, 1, tzinfo=utc) + datetime.timedelta(microseconds=i * 1001))
                        for i in ids], pa.timestamp("us", "UTC")),
        "price": pa.array([some(i + 2, decimal.Decimal(i) / 100) for i in ids], pa.decimal128(12, 2)),
        "list": pa.array([some(i, [i, None, i + 1][: i % 4]) for i in ids], pa.list_(pa.int64())),
        "pair": pa.array([some(i + 1, {"a": i, "b": some(i + 2, "b%d" % i)}) for i in ids],
                         pa.struct([("a", pa.int64()), ("b", pa.string())])),
    })


def plain(path):
    for i in range(3):
        write_deltalake(path, rows(i * 20, 20), mode="append")


def checkpoint(path):
    for i in range(13):
        write_deltalake(path, rows(i * 5, 5), mode="append")
        if i == 9:
            DeltaTable(path).create_checkpoint()


def partitioned(path):
    t = rows(0, 60)
    part = [None if i == 0 else "v %d/=" % i for i in (k % 4 for k in range(60))]
    t = t.append_column("part", pa.array(part, pa.string()))
    t = t.append_column("num", pa.array([k % 3 for k in range(60)], pa.int32()))
    write_deltalake(path, t, partition_by=["part", "num"])
    write_deltalake(path, t.slice(0, 10), mode="append")


def overwritten(path):
    write_deltalake(path, rows(0, 30))
    write_deltalake(path, rows(100, 30), mode="overwrite")
    write_deltalake(path, rows(200, 30), mode="append")
    DeltaTable(path).delete("id % 5 = 0")


def duckdb(path):
    from readers import duckdb_connection

    write_deltalake(path, rows(0, 20))
    c = duckdb_connection(path)
    c.execute("ATTACH '%s' AS d (TYPE delta)" % path)
    c.execute("INSERT INTO d SELECT * REPLACE (id + 1000 AS id) FROM delta_scan('%s')" % path)


KINDS = {f.__name__: f for f in (plain, checkpoint, partitioned, overwritten, duckdb)}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2])
