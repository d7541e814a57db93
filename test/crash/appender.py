"""Appends rows (p = -1, o = 0, 1, ...) to a Delta table with delta-rs, one a commit, until the file STOP is there.

    appender.py TABLE STOP

Prints each o that was acknowledged.
"""

import os
import sys
import time

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

table, stop = sys.argv[1:]
n = 0
while not os.path.exists(stop):
    row = pa.table({"p": pa.array([-1], pa.int32()), "o": pa.array([n], pa.int64())})
    write_deltalake(table, row, mode="append", commit_properties=CommitProperties(max_commit_retries=1000))
    print(n, flush=True)
    n += 1
    time.sleep(0.3)
