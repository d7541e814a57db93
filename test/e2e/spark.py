"""Spark on a Delta table: spark.py COMMAND TABLE [ARGUMENT...]

    read      prints the rows, in the form of readers.py
    write     makes a table of every simple type by appends, an update and a checkpoint, then prints it
    vectors   makes a table whose rows were deleted, updated and merged by deletion vectors, then prints it
    mapped    makes a table with column mapping, columns renamed and dropped, and vectors, then prints it
    widened   makes a table whose columns, a partition column and nested ones among them, got wider types, then prints it
    generated   makes a table of generated columns with some rows
    regenerated adds rows to it, fails unless all generated values are right, then prints it
    random    makes tables and changes them at random by what Delta Lake can do, then prints each: random FOLDER SEED N
    append    adds rows with column n = FROM..TO-1 and a name, every other column null: append TABLE FROM TO
    stream    reads the table by structured streaming, from its first version, and prints what came
    kafka     follows a topic of a Kafka port from its first offset, prints the records when there are N, in our columns' names:
              kafka ADDRESS TOPIC N READY; READY is a file that it makes when it has the first ones
    property  answers what property.py says, from a file: property FILE
    parquet   prints the rows of Parquet files, in the form of parquetfiles.py: parquet FILE...
"""

import os
import sys
import tempfile

os.environ["TZ"] = "UTC"  # Spark turns times into local ones on their way to Python

import datetime
import json

from readers import MARKED, plain
from sparksession import session


def value(v, kind):
    if v is None:
        return None
    name = kind.typeName()
    if name == "timestamp":
        return v.replace(tzinfo=datetime.timezone.utc)
    if name == "struct":
        return {f.name: value(x, f.dataType) for f, x in zip(kind.fields, v)}
    if name == "array":
        return [value(x, kind.elementType) for x in v]
    if name == "map":
        return {k: value(x, kind.valueType) for k, x in v.items()}
    return v


def show(frame):
    for row in frame.toLocalIterator():
        text = json.dumps({f.name: plain(value(x, f.dataType)) for f, x in zip(frame.schema.fields, row)}, allow_nan=False)
        print(MARKED.sub(r"\1", text))


def read(spark, path):
    show(spark.read.format("delta").load(path))


def write(spark, path):
    frame = spark.range(0, 200).selectExpr(
        "id", "cast(id * 3 as int) i32", "cast(id as smallint) i16", "cast(id % 100 as tinyint) i8",
        "if(id % 3 = 0, null, id / 8) f64", "cast(id / 4 as float) f32", "id % 2 = 0 yes",
        "if(id % 5 = 0, null, concat('t\u00e9xt \"', id, '\"')) text", "cast(concat('b', id) as binary) raw",
        "date_add(date'1999-12-31', cast(id as int)) day",
        "timestamp_micros(1600000000000000 + id * 1001) at",
        "cast(id / 100 as decimal(12, 2)) price", "if(id % 4 = 0, null, array(id, null, id + 1)) list",
        "named_struct('a', id, 'b', if(id % 2 = 0, null, concat('b', id))) pair")
    frame.where("id < 100").write.format("delta").option("delta.checkpointInterval", "3").save(path)
    for i in range(4):
        frame.where("id >= %d and id < %d" % (100 + i * 25, 125 + i * 25)).write.format("delta").mode("append").save(path)
    spark.sql("ALTER TABLE delta.`%s` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')" % path)
    spark.sql("UPDATE delta.`%s` SET i32 = -1 WHERE id %% 10 = 0" % path)
    show(spark.read.format("delta").load(path))


def vectors(spark, path):
    spark.range(0, 4000).repartition(3).selectExpr("id", "concat('t', id) text", "id % 7 part").write.format("delta").option(
        "delta.enableDeletionVectors", "true").option("delta.checkpointInterval", "3").save(path)
    table = "delta.`%s`" % path
    for query in ("DELETE FROM %s WHERE id %% 3 = 0", "DELETE FROM %s WHERE id BETWEEN 1000 AND 1500",
                  "UPDATE %s SET text = 'changed' WHERE id %% 11 = 0", "DELETE FROM %s WHERE id = 3999"):
        spark.sql(query % table)
    show(spark.read.format("delta").load(path))


def mapped(spark, path):
    table = "delta.`%s`" % path
    spark.sql("""CREATE TABLE %s (id BIGINT, old STRING, gone INT, nest STRUCT<a: INT, b: ARRAY<STRUCT<x: STRING>>>, part STRING)
        USING delta PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')""" % table)
    fill = """INSERT INTO %s SELECT id, concat('v', id), 1, named_struct('a', cast(id as int), 'b', array(named_struct('x', concat('x', id)))),
        concat('p ', id %% 3) FROM range(%d, %d)"""
    spark.sql(fill % (table, 0, 300))
    spark.sql("ALTER TABLE %s RENAME COLUMN old TO `new name`" % table)
    spark.sql("ALTER TABLE %s RENAME COLUMN nest.a TO renamed" % table)
    spark.sql("ALTER TABLE %s DROP COLUMN gone" % table)
    spark.sql("ALTER TABLE %s ADD COLUMN gone STRING" % table)
    spark.sql("DELETE FROM %s WHERE id %% 5 = 0" % table)
    spark.sql("""INSERT INTO %s SELECT id, concat('v', id), named_struct('renamed', cast(id as int), 'b', null), concat('p ', id %% 3), 'back'
        FROM range(300, 400)""" % table)
    show(spark.read.format("delta").load(path))


def widened(spark, path):
    table = "delta.`%s`" % path
    spark.sql("""CREATE TABLE %s (id BIGINT, b TINYINT, s SMALLINT, i INT, f FLOAT, d DECIMAL(6, 2), day DATE, i2 INT, l BIGINT,
        nest STRUCT<a: SMALLINT, list: ARRAY<INT>>, part INT) USING delta PARTITIONED BY (part)
        TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported', 'delta.checkpointInterval' = '3')""" % table)
    fill = """INSERT INTO %s SELECT id, cast(id %% 100 - 50 as tinyint), cast(id as smallint), cast(-id as int), cast(id / 3 as float),
        cast(id / 100 as decimal(6, 2)), date_add(date'1969-12-25', cast(id as int)), cast(id as int), id * 1000000007,
        named_struct('a', cast(id as smallint), 'list', array(cast(id as int), null)), cast(id %% 3 as int) FROM range(%d, %d)"""
    spark.sql(fill % (table, 0, 60))
    for column, kind in (("b", "INT"), ("s", "BIGINT"), ("i", "DOUBLE"), ("f", "DOUBLE"), ("d", "DECIMAL(12, 4)"), ("day", "TIMESTAMP_NTZ"),
                         ("i2", "DECIMAL(14, 3)"), ("l", "DECIMAL(24, 2)"), ("nest.a", "INT"), ("nest.list.element", "BIGINT"), ("part", "BIGINT")):
        spark.sql("ALTER TABLE %s ALTER COLUMN %s TYPE %s" % (table, column, kind))
    spark.sql("""INSERT INTO %s SELECT id, 100000, 5000000000, 1.5, 2.25, 12345.6789, timestamp_ntz'2020-02-03 04:05:06.000007', 1.125, 2.25,
        named_struct('a', 70000, 'list', array(5000000000, null)), 5000000000 FROM range(60, 70)""" % table)
    show(spark.read.format("delta").load(path))


GENERATED = (("day", "DATE", "CAST(at AS DATE)"), ("y", "INT", "YEAR(at)"), ("mo", "INT", "MONTH(at)"), ("d", "INT", "DAY(at)"), ("h", "INT", "HOUR(at)"),
             ("month", "STRING", "DATE_FORMAT(at, 'yyyy-MM')"), ("hourly", "TIMESTAMP", "DATE_TRUNC('HOUR', at)"), ("head", "STRING", "SUBSTRING(name, 1, 3)"),
             ("twice", "BIGINT", "id * 2"), ("kind", "STRING", "CASE WHEN name IS NULL THEN 'none' ELSE concat('has ', name) END"))


def generated(spark, path, first=-20):
    if first < 0:
        columns = ", ".join("%s %s GENERATED ALWAYS AS (%s)" % g for g in GENERATED)
        spark.sql("CREATE TABLE delta.`%s` (_partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key BINARY, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _value BINARY, "
                  "id BIGINT, at TIMESTAMP, name STRING, %s) USING delta PARTITIONED BY (y, h)" % (path, columns))
    spark.sql("INSERT INTO delta.`%s` (id, at, name) SELECT id, timestamp_micros(id * 86400 * 1001003), concat('spark ', id) FROM range(%d, %d)" % (path, first, first + 20))


def regenerated(spark, path):
    generated(spark, path, 1000000)
    frame = spark.read.format("delta").load(path)
    wrong = frame.where(" OR ".join("NOT (%s <=> (%s))" % (name, expression) for name, _, expression in GENERATED)).collect()
    if wrong:
        raise SystemExit("%d rows are not what their expressions say: %s" % (len(wrong), wrong[:3]))
    show(frame)


def some_rows(spark, rng, first):
    return spark.range(first, first + rng.randrange(1, 200)).selectExpr(
        "id", "cast(id * 3 as int) i", "if(id % 3 = 0, null, id / 8) f", "concat('t\u00e9xt ', id) text", "cast(concat('b', id) as binary) raw",
        "date_add(date'1999-12-31', cast(id as int)) day", "timestamp_micros(1600000000000000 + id * 1001) at", "timestamp_ntz'2020-02-03 04:05:06.000007' ntz",
        "cast(id / 100 as decimal(20, 2)) price", "if(id % 4 = 0, null, array(id, null, id + 1)) list", "map('k', id, concat('x', id), null) pairs",
        "named_struct('a', id, 'b', if(id % 2 = 0, null, array(named_struct('x', concat('b', id))))) pair", "elt(cast(id % 3 as int) + 1, 'v /=', null, '') part")


def random_table(spark, path, rng):
    settings = {"delta.checkpointInterval": rng.choice(["2", "3", "100"]), "delta.enableDeletionVectors": rng.choice(["true", "false"])}
    for key, value, of in (("delta.checkpointPolicy", "v2", 2), ("delta.columnMapping.mode", rng.choice(["name", "id"]), 3), ("delta.enableInCommitTimestamps", "true", 3),
                           ("delta.enableRowTracking", "true", 4), ("delta.checkpoint.writeStatsAsStruct", "true", 2), ("delta.checkpoint.writeStatsAsJson", "false", 3),
                           ("delta.enableChangeDataFeed", "true", 4)):
        if rng.randrange(of) == 0:
            settings[key] = value
    first = 0
    writer = some_rows(spark, rng, first).write.format("delta").options(**settings)
    (writer.partitionBy("part") if rng.randrange(2) else writer).save(path)
    table, done = "delta.`%s`" % path, []
    for _ in range(rng.randrange(3, 8)):
        first += 1000
        step = rng.choice(["append", "delete", "delete", "update", "merge", "optimize", "zorder", "purge", "restore", "checkpoint"])
        if step == "append":
            some_rows(spark, rng, first).write.format("delta").mode("append").save(path)
        elif step == "delete":
            spark.sql("DELETE FROM %s WHERE id %% %d = %d" % (table, rng.choice([3, 7, 50]), rng.randrange(3)))
        elif step == "update":
            spark.sql("UPDATE %s SET text = 'changed', i = -1 WHERE id %% 11 = %d" % (table, rng.randrange(11)))
        elif step == "merge":
            some_rows(spark, rng, first - rng.choice([0, 1000])).createOrReplaceTempView("source")
            spark.sql("MERGE INTO %s t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = 'merged' WHEN NOT MATCHED THEN INSERT *" % table)
        elif step == "optimize":
            spark.sql("OPTIMIZE " + table)
        elif step == "zorder":
            spark.sql("OPTIMIZE %s ZORDER BY (id)" % table)
        elif step == "purge":
            spark.sql("REORG TABLE %s APPLY (PURGE)" % table)
        elif step == "restore":
            spark.sql("RESTORE TABLE %s TO VERSION AS OF %d" % (table, max(0, spark.sql("DESCRIBE HISTORY %s LIMIT 1" % table).collect()[0][0] - 1)))
        else:
            spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).checkpoint()
        done.append(step)
    return settings, done


def random(spark, folder, seed, n):
    import random as randomness

    for i in range(int(n)):
        path = os.path.join(folder, str(i))
        try:
            said = random_table(spark, path, randomness.Random(int(seed) + i))
        except Exception as e:
            raise SystemExit("seed %d: %s" % (int(seed) + i, e))
        frame = spark.read.format("delta").load(path)
        for row in frame.toLocalIterator():
            out = {f.name: plain(value(x, f.dataType)) for f, x in zip(frame.schema.fields, row)}
            print(MARKED.sub(r"\1", json.dumps({"table": i, "row": out}, allow_nan=False)))
        print(json.dumps({"table": i, "said": "seed %d %s" % (int(seed) + i, said)}))


def append(spark, path, start, end):
    rows = spark.range(int(start), int(end)).selectExpr("id n", "concat('spark ', id) name")
    rows.write.format("delta").mode("append").save(path)


def stream(spark, path):
    query = (spark.readStream.format("delta").load(path).writeStream.format("memory").queryName("seen")
             .option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True).start())
    query.awaitTermination(90)
    show(spark.table("seen"))


def kafka(spark, address, topic, n, ready):
    have = 0

    def took(frame, _):
        nonlocal have
        frame.write.mode("append").format("parquet").save(folder)
        have = spark.read.parquet(folder).count()
        if have > 0 and not os.path.exists(ready):
            open(ready, "w").close()

    folder = tempfile.mkdtemp()
    records = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", topic)
               .option("startingOffsets", "earliest").option("failOnDataLoss", "true").option("maxOffsetsPerTrigger", "1500").load()
               .selectExpr("partition _partition", "offset _offset", "timestamp _timestamp", "key _key", "value _value"))
    query = records.writeStream.foreachBatch(took).option("checkpointLocation", tempfile.mkdtemp()).start()
    while have < int(n):
        if query.awaitTermination(0.2):
            raise SystemExit("the query ended by itself: %s" % query.exception())
    query.stop()
    show(spark.read.parquet(folder))


def parquet(spark, *files):
    for path in files:
        frame = spark.read.parquet("file://" + path)
        for row in frame.toLocalIterator():
            out = {f.name: plain(value(x, f.dataType)) for f, x in zip(frame.schema.fields, row)}
            print(MARKED.sub(r"\1", json.dumps({"file": path, "row": out}, allow_nan=False)))


class Engine:
    """Spark as property.py uses an engine."""

    def __init__(self, spark):
        self.spark = spark

    def frame(self, path):
        return self.spark.read.format("delta").load(path)

    def rows(self, path):
        frame = self.frame(path)
        return [{f.name: value(x, f.dataType) for f, x in zip(frame.schema.fields, row)} for row in frame.collect()]

    def ids(self, path, where):
        from pyspark.sql import functions as F

        frame = self.frame(path)
        column = F.col("`%s`" % where["column"].replace("`", "``"))
        want = where["value"]
        if where["op"] == "is null":
            frame = frame.where(column.isNull())
        else:
            kind = {"number": "long", "text": None, "boolean": None}.get(where["kind"], where["kind"])
            want = F.lit(want).cast(kind) if kind else F.lit(want)
            frame = frame.where({"=": column == want, ">=": column >= want, "<=": column <= want}[where["op"]])
        return [r[0] for r in frame.select("id").collect()]

    def select(self, path, where):
        return [r[0] for r in self.frame(path).where(where.replace('"', "`")).select("id").collect()]  # Spark's quotes of names


def property(spark, file):
    from property import answer

    with open(file) as f:
        answer(Engine(spark), json.load(f))


if __name__ == "__main__":
    {"property": property, "kafka": kafka, "random": random, "read": read, "write": write, "vectors": vectors, "mapped": mapped, "widened": widened, "generated": generated, "regenerated": regenerated, "append": append, "stream": stream, "parquet": parquet}[sys.argv[1]](session(), *sys.argv[2:])
