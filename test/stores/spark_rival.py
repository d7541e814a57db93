"""Spark as a writer beside ours, as rival.py is for delta-rs: spark_rival.py COMMAND PATH [ARGUMENT...]

    append PATH WRITER FROM TO    one row a commit, n = FROM..TO-1; "ready", waits for the end of its input, "ack WRITER N"
    rows PATH...                  prints "PATH W N" for each row of each table"""

import sys

from sparksession import session


def frame(spark, w, n):
    return spark.sql("select cast(%d as bigint) w, cast(%d as bigint) n" % (w, n))


def append(spark, path, writer, first, last):
    spark.read.format("delta").load(path).count()  # the slow first use comes before the race
    print("ready", flush=True)
    sys.stdin.read()
    for n in range(int(first), int(last)):
        frame(spark, int(writer), n).coalesce(1).write.format("delta").mode("append").save(path)
        print("ack %s %d" % (writer, n), flush=True)


def rows(spark, *paths):
    for path in paths:
        for r in spark.read.format("delta").load(path).collect():
            print(path, r.w, r.n)


if __name__ == "__main__":
    {"append": append, "rows": rows}[sys.argv[1]](session(), *sys.argv[2:])
