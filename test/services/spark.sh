#!/usr/bin/env bash
# Prepares Spark with Delta for `make e2e-spark`: spark.sh prepare
# The Python packages go to .cache/venv-spark, the jars to .cache/delta-jars. Needs python3, Java 17, Maven.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
jars=$cache/delta-jars

[ "${1:-}" = prepare ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
command -v java >/dev/null || { echo "spark.sh: java is not installed" >&2; exit 1; }
"$here/venv.sh" spark >/dev/null
if [ ! -d "$jars" ]; then
  command -v mvn >/dev/null || { echo "spark.sh: Maven (mvn) is not installed" >&2; exit 1; }
  rm -rf "$jars.part" "$jars.all"
  mvn -B -q -ntp -f "$here/delta-pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars.all" >&2
  mkdir "$jars.part"
  # What pyspark does not bring itself; the rest of the closure would clash with its own versions.
  for name in delta-spark delta-storage delta-kernel-api delta-kernel-defaults delta-kernel-unitycatalog \
              unitycatalog-client unitycatalog-hadoop; do
    cp "$jars.all/$name"*.jar "$jars.part/"
  done
  rm -rf "$jars.all"
  mv "$jars.part" "$jars"
fi
echo "spark: ready"
