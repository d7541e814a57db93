#!/usr/bin/env bash
# Prepares Spark with Delta for `make e2e-spark`: spark.sh prepare
# The Python packages go to .cache/venv-spark, the jars to .cache/delta-jars, .cache/s3a-jars and .cache/sparkkafka-jars.
# Needs python3, Java 17, Maven.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
jars=$cache/delta-jars

[ "${1:-}" = prepare ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
command -v java >/dev/null || { echo "spark.sh: java is not installed" >&2; exit 1; }
"$here/venv.sh" spark >/dev/null

copy() { # POM DIR: the jars of a POM with all that they need
  command -v mvn >/dev/null || { echo "spark.sh: Maven (mvn) is not installed" >&2; exit 1; }
  rm -rf "$2"
  mvn -B -q -ntp -f "$here/$1" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$2" >&2
}

if [ ! -d "$jars" ]; then
  copy delta-pom.xml "$jars.all"
  rm -rf "$jars.part"
  mkdir "$jars.part"
  # What pyspark does not bring itself; the rest of the closure would clash with its own versions.
  for name in delta-spark delta-storage delta-kernel-api delta-kernel-defaults delta-kernel-unitycatalog \
              unitycatalog-client unitycatalog-hadoop; do
    cp "$jars.all/$name"*.jar "$jars.part/"
  done
  rm -rf "$jars.all"
  mv "$jars.part" "$jars"
fi
if [ ! -d "$cache/s3a-jars" ]; then
  copy s3a-pom.xml "$cache/s3a-jars.part"
  rm -f "$cache/s3a-jars.part"/slf4j-api-*.jar  # pyspark has its own
  mv "$cache/s3a-jars.part" "$cache/s3a-jars"
fi
if [ ! -d "$cache/sparkkafka-jars" ]; then
  copy sparkkafka-pom.xml "$cache/sparkkafka-jars.part"
  rm -f "$cache/sparkkafka-jars.part"/{spark-tags,lz4-java}*.jar  # pyspark has its own
  mv "$cache/sparkkafka-jars.part" "$cache/sparkkafka-jars"
fi
echo "spark: ready"
