"""A sink of a reprocess job: load.py DATABASE puts what it gets into a SQLite table, by place; load.py DATABASE show prints it.

Each process collects rows, and writes them when it is asked to acknowledge. A row that comes again replaces itself."""

import json
import sqlite3
import sys

db = sqlite3.connect(sys.argv[1], timeout=60)
db.execute("CREATE TABLE IF NOT EXISTS events (partition INTEGER, offset INTEGER, row TEXT, PRIMARY KEY (partition, offset))")
if sys.argv[2:] == ["show"]:
    for (row,) in db.execute("SELECT row FROM events ORDER BY partition, offset"):
        print(row, end="")
    sys.exit()
rows, last = [], {}
for line in sys.stdin:
    record = json.loads(line)
    if record != {"_flush": True}:
        rows.append((record["_partition"], record["_offset"], line))
        last[record["_partition"]] = record["_offset"]
        continue
    with db:
        db.executemany("INSERT OR REPLACE INTO events VALUES (?, ?, ?)", rows)
    rows.clear()
    for partition, offset in last.items():
        print(json.dumps({"_partition": partition, "_offset": offset}), flush=True)
