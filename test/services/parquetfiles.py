"""Fills a folder with Parquet files of every writer that is installed: python parquetfiles.py FOLDER [SEED].

TestReadForeignFiles of internal/parquet reads them. Columns of all types, with nulls, lists, maps and structs, in the
page versions, encodings and codecs that each writer has.
"""
import datetime
import decimal
import itertools
import os
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

folder, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
print("seed", seed)
rng = random.Random(seed)
os.makedirs(folder, exist_ok=True)


def column(make, n, nulls):
    return [None if rng.random() < nulls else make() for _ in range(n)]


def word():
    return "".join(rng.choice("abcdef\u00e9\u4e2d") for _ in range(rng.choice([0, 1, 3, 12, 40, 700])))


def table(n, nulls):
    day = datetime.date(1970, 1, 1)
    at = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    few = [word() for _ in range(5)]
    make = {
        "flag": (pa.bool_(), lambda: rng.random() < 0.5),
        "tiny": (pa.int8(), lambda: rng.randrange(-128, 128)),
        "small": (pa.int16(), lambda: rng.randrange(-(1 << 15), 1 << 15)),
        "number": (pa.int32(), lambda: rng.randrange(-(1 << 31), 1 << 31)),
        "long": (pa.int64(), lambda: rng.randrange(-(1 << 63), 1 << 63)),
        "float": (pa.float32(), rng.random),
        "double": (pa.float64(), rng.random),
        "date": (pa.date32(), lambda: day + datetime.timedelta(days=rng.randrange(-30000, 30000))),
        "time": (pa.timestamp("us", "UTC"), lambda: at + datetime.timedelta(microseconds=rng.randrange(1 << 50))),
        "narrow": (pa.decimal128(7, 2), lambda: decimal.Decimal(rng.randrange(-9999999, 9999999)).scaleb(-2)),
        "wide": (pa.decimal128(38, 10), lambda: decimal.Decimal(rng.randrange(-(10**20), 10**20)).scaleb(-10)),
        "text": (pa.string(), word),
        "word": (pa.string(), lambda: rng.choice(few)),
        "bytes": (pa.binary(), lambda: rng.randbytes(rng.choice([0, 2, 30, 300]))),
        "list": (pa.list_(pa.int64()), lambda: column(lambda: rng.randrange(100), rng.randrange(5), nulls)),
        "lists": (pa.list_(pa.list_(pa.string())), lambda: column(lambda: column(word, rng.randrange(4), nulls), rng.randrange(4), nulls)),
        "struct": (
            pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.float64()))]))]),
            lambda: {"a": rng.randrange(9), "b": rng.choice([None, {"c": word(), "d": column(rng.random, rng.randrange(3), nulls)}])},
        ),
        "map": (pa.map_(pa.string(), pa.struct([("x", pa.int64())])), lambda: [(str(i), rng.choice([None, {"x": i}])) for i in range(rng.randrange(4))]),
    }
    return pa.table({name: pa.array(column(f, n, nulls), typ) for name, (typ, f) in make.items()})


def arrow_files():
    encodings = {"long": "DELTA_BINARY_PACKED", "number": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "word": "DELTA_LENGTH_BYTE_ARRAY",
                 "double": "BYTE_STREAM_SPLIT", "float": "BYTE_STREAM_SPLIT", "wide": "BYTE_STREAM_SPLIT", "flag": "RLE"}
    for i, (version, codec, how, checksums) in enumerate(itertools.product(["1.0", "2.0"], ["snappy", "zstd", "none"], ["dictionary", "plain", "encodings"], [False, True])):
        t = table(rng.choice([1, 50, 3000]), rng.choice([0, 0.01, 0.3, 1]))
        pq.write_table(t, f"{folder}/arrow-{i}.parquet", data_page_version=version, compression=codec, use_dictionary=how == "dictionary",
                       column_encoding=encodings if how == "encodings" else None, data_page_size=rng.choice([200, 1 << 20]),
                       row_group_size=rng.choice([100, 1 << 20]), write_page_checksum=checksums, store_schema=rng.random() < 0.5)


def duckdb_files():
    import duckdb

    for i, (version, codec) in enumerate(itertools.product(["V1", "V2"], ["snappy", "zstd", "uncompressed"])):
        for n, nulls in ((3000, 0.2), (40, 0), (200, 1)):
            t = table(n, nulls)
            pq.write_table(t, f"{folder}/duckdb-{i}-{n}.twin")  # the Go library cannot read its differences of integers
            duckdb.connect().execute(f"COPY t TO '{folder}/duckdb-{i}-{n}.parquet' (FORMAT parquet, PARQUET_VERSION {version}, COMPRESSION {codec})")


def polars_files():
    import polars

    for i, (codec, n) in enumerate(itertools.product(["snappy", "zstd", "uncompressed"], [1, 100, 5000])):
        t = table(n, rng.choice([0, 0.1])).drop_columns(["map"])
        polars.from_arrow(t).write_parquet(f"{folder}/polars-{i}.parquet", compression=codec, data_page_size=rng.choice([500, 1 << 20]))


def delta_files():
    import deltalake

    for i, n in enumerate([1, 500, 4000]):
        at = f"{folder}/delta-{i}"
        deltalake.write_deltalake(at, table(n, 0.1))
        for j, path in enumerate(deltalake.DeltaTable(at).file_uris()):
            os.replace(path.removeprefix("file://"), f"{folder}/delta-{i}-{j}.parquet")


arrow_files()
for other in (duckdb_files, polars_files, delta_files):
    try:
        other()
    except ImportError as e:
        print("left out:", e)
