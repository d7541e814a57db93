"""Reprocess a topic with Spark: history and tail over ledgerlake's Kafka port, into a Delta table.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,io.delta:delta-spark_2.13:4.4.0 \
        reprocess.py SERVER TOPIC TABLE CHECKPOINT

Offset 0 is there whatever the retention of the log, so it is the query that one would write for the live stream. It does what
there is now and ends. Offsets and rows are one Delta commit, told apart by the checkpoint's id: killed at any moment and
run again, the table has each record once. Without availableNow it follows.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json


def main(server, topic, table, checkpoint):
    spark = SparkSession.builder.getOrCreate()
    records = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", server).option("subscribe", topic)
               .option("startingOffsets", "earliest").option("failOnDataLoss", "true").option("maxOffsetsPerTrigger", "100000").load())
    value = from_json(col("value").cast("string"), "n LONG, amount DOUBLE")
    rows = (records.select(col("partition").alias("_partition"), col("offset").alias("_offset"), value.alias("v"))
            .where("v.amount > 0").selectExpr("_partition", "_offset", "v.n", "v.amount", "v.amount * 2 AS total"))
    (rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(table)
     .awaitTermination())


main(*sys.argv[1:])
