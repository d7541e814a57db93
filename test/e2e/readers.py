"""Reads a Delta table with another engine and prints its rows, one JSON object a line.

    readers.py duckdb|deltars|polars TABLE [CONDITION]

Values have the form of `ledgerlake read`: binary as base64, timestamps as RFC 3339 in UTC, dates as
YYYY-MM-DD, NaN and the infinities as strings, maps as objects. So two engines' rows compare as JSON.
"""

import base64
import datetime
import decimal
import importlib
import json
import math
import os
import re
import sys


# Python's encoder cannot write a decimal with all its digits: it goes through as a marked string.
DECIMAL = "\x00decimal:"
MARKED = re.compile(r'"\\u0000decimal:([-0-9.]+)"')


def timestamp(v):
    zone = ""
    if v.tzinfo is not None:
        v, zone = v.astimezone(datetime.timezone.utc).replace(tzinfo=None), "Z"
    text = v.isoformat()  # four digits of the year, which strftime does not give
    return (text.rstrip("0") if v.microsecond else text) + zone


def plain(v):
    if v is None or isinstance(v, (bool, int, str)):
        return v
    if isinstance(v, float):
        if math.isnan(v):
            return "NaN"
        if math.isinf(v):
            return "Infinity" if v > 0 else "-Infinity"
        return v
    if isinstance(v, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(v)).decode()
    if isinstance(v, datetime.datetime):
        return timestamp(v)
    if isinstance(v, datetime.date):
        return v.isoformat()
    if isinstance(v, decimal.Decimal):
        return DECIMAL + format(v, "f")
    if isinstance(v, dict):
        return {k if isinstance(k, str) else json.dumps(plain(k)): plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        if v and all(isinstance(x, tuple) and len(x) == 2 for x in v):  # a map, as pyarrow gives it
            return plain(dict(v))
        return [plain(x) for x in v]
    raise TypeError("no JSON form for %r" % type(v))


def storage():
    """The S3 settings of the environment, as delta-rs and polars take them."""
    names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ALLOW_HTTP")
    return {n: os.environ[n] for n in names if n in os.environ}


def options(path):
    return storage() if path.startswith("s3://") else None


def duckdb_connection(path):
    import duckdb

    # The extensions come as packages; nothing is fetched at run time.
    c = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    for name in ["delta"] + (["httpfs"] if options(path) else []):
        package = importlib.import_module("duckdb_extension_" + name)
        c.execute("LOAD '%s'" % os.path.join(os.path.dirname(package.__file__), "extensions", "v" + duckdb.__version__,
                                             name + ".duckdb_extension"))
    if options(path):
        c.execute("""CREATE SECRET (TYPE s3, KEY_ID '%s', SECRET '%s', REGION '%s', ENDPOINT '%s', URL_STYLE 'path', USE_SSL false)"""
                  % (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["AWS_REGION"],
                     os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")))
    c.execute("SET TimeZone = 'UTC'")
    return c


def read_duckdb(path, where="true"):
    c = duckdb_connection(path)
    c.execute("SELECT * FROM delta_scan(?) WHERE " + where, [path])
    names = [d[0] for d in c.description]
    while True:
        rows = c.fetchmany(4096)
        if not rows:
            return
        for row in rows:
            yield dict(zip(names, row))


def read_deltars(path, where="true"):
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    t = DeltaTable(path, storage_options=options(path))
    reader = QueryBuilder().register("t", t).execute("SELECT * FROM t WHERE " + where)
    for batch in pa.RecordBatchReader.from_stream(reader):
        yield from batch.to_pylist()


def read_polars(path):
    import polars

    yield from polars.scan_delta(path, storage_options=options(path)).collect().iter_rows(named=True)


ENGINES = {"duckdb": read_duckdb, "deltars": read_deltars, "polars": read_polars}


def main():
    engine, path, *condition = sys.argv[1:]
    out = sys.stdout
    for row in ENGINES[engine](path, *condition):
        text = json.dumps({k: plain(v) for k, v in row.items()}, allow_nan=False)
        out.write(MARKED.sub(r"\1", text) + "\n")


if __name__ == "__main__":
    main()
