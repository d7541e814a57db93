"""A local Spark session with Delta, offline, on loopback only. spark.sh prepares what it needs.

With AWS_ENDPOINT_URL in the environment it reaches that S3 server by s3a:// paths; with kafka=True it has Spark's
Kafka source."""

import glob
import os
import tempfile


def jars(folder):
    found = sorted(glob.glob(os.path.join(os.environ["LEDGERLAKE_CACHE"], folder, "*.jar")))
    if not found:
        raise SystemExit("sparksession.py: no %s; run test/services/spark.sh prepare" % folder)
    return found


def s3_settings():
    return {
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_REGION"],
        "spark.hadoop.fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def session(kafka=False):
    from pyspark.sql import SparkSession

    on_s3 = "AWS_ENDPOINT_URL" in os.environ
    settings = {
        "spark.jars": ",".join(jars("delta-jars") + (jars("s3a-jars") if on_s3 else []) + (jars("sparkkafka-jars") if kafka else [])),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(),
        # Small tables: the default of 200 tasks a shuffle would cost more than the work.
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.adaptive.enabled": "false",
        # Each query runs once: what compilers make of it would never pay.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.showConsoleProgress": "false",
    }
    if on_s3:
        settings.update(s3_settings())
    builder = SparkSession.builder.master("local[2]").appName("ledgerlake-test")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
