"""A writer of another engine beside ours, on a table of the columns w and n (both long): rival.py COMMAND URL [ARGUMENT...]

    append URL WRITER FROM TO     appends one row a commit, n = FROM..TO-1; prints "ready", waits
                                  for the end of its input, and prints "ack WRITER N" after each
    each WRITER URL...            appends the row (WRITER, 0) to each table
    rows URL...                   prints "URL W N" for each row of each table

The store's settings come from the environment (AWS_...). Any delta-rs that is imported will do."""

import os
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

# 0.25 needs this said when versions are not ordered by a lock table; later ones ignore it.
OPTIONS = {"aws_conditional_put": "etag"}


def options(url):
    return OPTIONS if "://" in url else None


def append(url, writer, first, last):
    w = int(writer)
    DeltaTable(url, storage_options=options(url))
    print("ready", flush=True)
    sys.stdin.read()  # all writers begin when it is closed
    for n in range(int(first), int(last)):
        row = pa.table({"w": pa.array([w], pa.int64()), "n": pa.array([n], pa.int64())})
        write_deltalake(url, row, mode="append", storage_options=options(url),
                        commit_properties=CommitProperties(max_commit_retries=100000))
        print("ack %d %d" % (w, n), flush=True)


def each(writer, *urls):
    row = pa.table({"w": pa.array([int(writer)], pa.int64()), "n": pa.array([0], pa.int64())})
    for url in urls:
        write_deltalake(url, row, mode="append", storage_options=options(url))


def rows(*urls):
    for url in urls:
        t = DeltaTable(url, storage_options=options(url)).to_pyarrow_table()
        for w, n in zip(t["w"].to_pylist(), t["n"].to_pylist()):
            print(url, w, n)


if __name__ == "__main__":
    {"append": append, "each": each, "rows": rows}[sys.argv[1]](*sys.argv[2:])
    # Not the usual exit: threads of deltalake that still run then abort the process now and then.
    sys.stdout.flush()
    os._exit(0)
