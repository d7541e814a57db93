"""A local Spark session with Delta, offline, on loopback only. spark.sh prepares what it needs."""

import glob
import os
import tempfile


def session():
    from pyspark.sql import SparkSession

    jars = sorted(glob.glob(os.path.join(os.environ["LEDGERLAKE_CACHE"], "delta-jars", "*.jar")))
    if not jars:
        raise SystemExit("sparksession.py: no Delta jars; run test/services/spark.sh prepare")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(),
        # Small tables: the default of 200 tasks a shuffle would cost more than the work.
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    builder = SparkSession.builder.master("local[2]").appName("ledgerlake-test")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
