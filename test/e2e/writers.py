"""Writes Delta tables with other engines, for `ledgerlake read` to read: writers.py KIND TABLE

    plain        several appends, every simple type, nulls
    checkpoint   enough commits for a checkpoint, then more
    partitioned  partition columns of several types, one of them null
    overwritten  an overwrite and a delete leave files that no longer count
    duckdb       made by delta-rs, appended to by DuckDB
    random       changed at random by what delta-rs can do: writers.py random TABLE SEED
"""

import datetime
import decimal
import itertools
import random as randomness
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


def random(path, seed):
    rng = randomness.Random(int(seed))
    partition = rng.choice([None, ["part"], ["part", "num"]])

    ids = itertools.count(0, 40)

    def some():
        n = rng.randrange(1, 40)
        t = rows(next(ids), n)
        # No empty text: delta-rs gives it back as such, the protocol and everybody else say null.
        t = t.append_column("part", pa.array([rng.choice([None, "v /=", "%41", "caf\u00e9"]) for _ in range(n)], pa.string()))
        return t.append_column("num", pa.array([rng.choice([None, -1, 7]) for _ in range(n)], pa.int32()))

    def with_num(t, n):
        return t.set_column(t.schema.get_field_index("num"), "num", pa.array([n] * len(t), pa.int32()))

    settings = {"delta.checkpointInterval": str(rng.choice([2, 100])), "delta.dataSkippingNumIndexedCols": str(rng.choice([-1, 0, 3]))}
    write_deltalake(path, some(), partition_by=partition, configuration=settings)
    table = lambda: DeltaTable(path)
    steps = [
        lambda: write_deltalake(path, some(), mode="append"),
        lambda: write_deltalake(path, some(), mode="append"),
        lambda: write_deltalake(path, with_num(some(), 7), mode="overwrite", predicate="num = 7"),
        lambda: table().delete("id % 3 = 0"),
        lambda: table().delete("part is null"),
        lambda: table().update(predicate="id % 4 = 1", updates={"text": "'changed'"}),
        lambda: table().merge(some().select(["id", "i32"]), "t.id = s.id", source_alias="s", target_alias="t").when_not_matched_insert(
            {"id": "s.id", "i32": "s.i32"}).execute(),
        lambda: table().optimize.compact(),
        lambda: table().optimize.z_order(["id"]),
        lambda: table().create_checkpoint(),
        lambda: table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False),
        lambda: table().restore(table().version() - 1) if table().version() else None,
    ]
    for _ in range(rng.randrange(3, 12)):
        rng.choice(steps)()


KINDS = {f.__name__: f for f in (plain, checkpoint, partitioned, overwritten, duckdb, random)}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
