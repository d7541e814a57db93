"""Reads Parquet files with another engine and prints their rows in the form of readers.py, one JSON object a line.

    parquetfiles.py ipc|pyarrow|duckdb|polars FILE...

ipc reads what was written, as an Arrow stream, for the others to be compared with.
"""

import json
import sys

from readers import MARKED, plain


def rows(table):
    for batch in table.to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


def read_ipc(path):
    import pyarrow.ipc

    return rows(pyarrow.ipc.open_stream(path).read_all())


def read_pyarrow(path):
    import pyarrow.parquet

    return rows(pyarrow.parquet.ParquetFile(path, page_checksum_verification=True).read())


def read_duckdb(path):
    import duckdb

    c = duckdb.connect()
    c.execute("SET TimeZone = 'UTC'")
    table = c.execute("SELECT * FROM read_parquet(?)", [path]).arrow()
    return rows(table.read_all() if hasattr(table, "read_all") else table)


def read_polars(path):
    import polars

    return rows(polars.read_parquet(path).to_arrow())


def maps(v, field):
    """Some engines have no maps: they give lists of entries."""
    import pyarrow as pa

    if v is None:
        return None
    if pa.types.is_map(field):
        pairs = [(e["key"], e["value"]) if isinstance(e, dict) else e for e in v]
        return {k: maps(x, field.item_type) for k, x in pairs}
    if pa.types.is_struct(field):
        return {f.name: maps(v[f.name], f.type) for f in field}
    if pa.types.is_list(field):
        return [maps(x, field.value_type) for x in v]
    return v


ENGINES = {"ipc": read_ipc, "pyarrow": read_pyarrow, "duckdb": read_duckdb, "polars": read_polars}


def main():
    import pyarrow.ipc

    engine, files = sys.argv[1], sys.argv[2:]
    for path in files:
        schema = pyarrow.ipc.open_stream(path + ".ipc").schema
        for row in ENGINES[engine](path + ".ipc" if engine == "ipc" else path):
            row = {f.name: plain(maps(row[f.name], f.type)) for f in schema}
            print(MARKED.sub(r"\1", json.dumps({"file": path, "row": row}, allow_nan=False)))


if __name__ == "__main__":
    main()
