"""Looks with DuckDB whether a table of the soak has each record of a partition once, with its values: verify.py TABLE PARTITION COUNT

COUNT is how many records the partition got. Prints what is wrong, nothing when all is right.
"""

import importlib
import os
import sys

import duckdb

table, p, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
c = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False, "memory_limit": "2GB", "threads": "2"})
package = importlib.import_module("duckdb_extension_delta")
c.execute("LOAD '%s'" % os.path.join(os.path.dirname(package.__file__), "extensions", "v" + duckdb.__version__, "delta.duckdb_extension"))
c.execute("SET TimeZone = 'UTC'")
# Count, both ends, the sum and the sum of squares of the offsets tell lost, doubled and swapped ones; the rest is a row's own content.
row = c.execute(
    """SELECT count(*), min(_offset), max(_offset), sum(_offset), sum(_offset::HUGEINT * _offset),
         count(*) FILTER (WHERE p = _partition AND n = _offset
           AND epoch_ms("at") = epoch_ms(TIMESTAMP '2026-01-01') + n
           AND method = (['GET', 'POST', 'PUT', 'DELETE'])[n % 4 + 1] AND status = 200 + n % 7
           AND url = 'https://shop.example.org/products/articles/' || (n * 37 + p) % 1009
           AND "user" = 'user-' || (n * 7919 + p) % 50021
           AND amount = ((n * 13) % 100000) / 4.0 AND meta.region = 'eu-' || n % 8
           AND meta.agent = 'Mozilla/5.0 (X11; Linux x86_64)' AND ok)
       FROM delta_scan(?) WHERE _partition = ?""",
    [table, p],
).fetchone()
want = (n, 0, n - 1, n * (n - 1) // 2, (n - 1) * n * (2 * n - 1) // 6, n) if n else (0, None, None, None, None, 0)
if row != want:
    print("partition %d: count, first, last, sum, sum of squares, right ones are %s, want %s" % (p, row, want))
