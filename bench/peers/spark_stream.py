"""Moves a Kafka topic into a Delta table with Spark Structured Streaming, from the earliest offset up to the latest at the
start (availableNow), exactly once by Spark's own checkpoint.

spark_stream.py BROKER TOPIC TABLE CHECKPOINT [web]
"""
import sys

from pyspark.sql import SparkSession, functions as F

broker, topic, path, checkpoint = sys.argv[1:5]
spark = SparkSession.builder.getOrCreate()
schema = spark.read.format("delta").load(path).schema
rows = (
    spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker).option("subscribe", topic)
    .option("startingOffsets", "earliest").load()
)
rows = rows.select(F.from_json(F.col("value").cast("string"), schema).alias("row"), "offset", "topic", "partition")
if sys.argv[5:] == ["web"]:
    kafka = F.struct(F.col("offset"), F.col("topic"), F.col("partition"))
    rows = rows.select(
        F.struct(F.col("row.meta.producer").alias("producer"), kafka.alias("kafka")).alias("meta"),
        *[F.col("row." + c).alias(c) for c in schema.names if c not in ("meta", "date")],
        F.substring("row.meta.producer.timestamp", 1, 10).alias("date"),
    ).select(schema.names)
else:
    rows = rows.select("row.*")
query = rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(path)
query.awaitTermination()
