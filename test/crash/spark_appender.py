"""Appends rows (p = -2, o = 0, 1, ...) to a Delta table with Spark, one a commit, until the file STOP is there.

    spark_appender.py TABLE STOP ACKS

Writes each o that was acknowledged into the file ACKS, a line each.
"""

import os
import sys
import time

from sparksession import session

table, stop, acks = sys.argv[1:]
spark = session()
n = 0
with open(acks, "w") as out:
    while not os.path.exists(stop):
        row = spark.sql("select cast(-2 as int) p, cast(%d as bigint) o" % n).coalesce(1)
        row.write.format("delta").mode("append").save(table)
        print(n, file=out, flush=True)
        n += 1
        time.sleep(0.3)
