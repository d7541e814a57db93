"""A local Spark session with Delta, offline, on loopback only. spark.sh prepares what it needs.

It has Spark's Kafka source, and with AWS_ENDPOINT_URL in the environment it reaches that S3 server by s3a:// paths. Who asks
again in the same process gets another session over the same JVM, with the settings of the first."""

import glob
import os
import tempfile


def jars(folder):
    found = sorted(glob.glob(os.path.join(os.environ["LEDGERLAKE_CACHE"], folder, "*.jar")))
    if not found:
        raise SystemExit("sparksession.py: no %s; run test/services/spark.sh prepare" % folder)
    return found


def s3_settings():
    if "AWS_ENDPOINT_URL" not in os.environ:
        return {}
    return {
        "spark.hadoop.fs.s3a.impl.disable.cache": "true",  # the next job may have another server
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_REGION"],
        "spark.hadoop.fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def session():
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None:
        spark = spark.newSession()
        for key, value in s3_settings().items():
            spark.sparkContext._jsc.hadoopConfiguration().set(key.removeprefix("spark.hadoop."), value)
        return spark
    settings = {
        "spark.jars": ",".join(jars("delta-jars") + jars("s3a-jars") + jars("sparkkafka-jars")),
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
    settings.update(s3_settings())
    builder = SparkSession.builder.master("local[2]").appName("ledgerlake-test")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
