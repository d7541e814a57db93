#!/usr/bin/env bash
# Clients of Kafka that others wrote, for test/clients: Kafka Streams from Maven, Node.js clients from npm, Python ones from PyPI.
#
#   clients.sh prepare                              install them into .cache/clients
#   clients.sh python FILE ARG...                   run a script with aiokafka and kafka-python
#   clients.sh node FILE ARG...                     run a script with kafkajs and @platformatic/kafka
#   clients.sh streams FILE.java CLASS ARG...       compile and run a Kafka Streams job
#
# Needs Java 17 and Maven, Node.js 20 or newer, Python 3. LEDGERLAKE_CACHE says where they go; the default is .cache.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")/clients
packages=(kafkajs@2.2.4 @platformatic/kafka@1.35.0)
# What is installed belongs to these files: a changed one never meets what was there before.
jars=$cache/streams-$(sha256sum "$here/streams-pom.xml" | cut -c1-12)
node=$cache/node-$(sha256sum <<<"${packages[*]}" | cut -c1-12)

fail() { echo "clients.sh: $*" >&2; exit 1; }

prepare() {
  mkdir -p "$cache"
  "$here/venv.sh" clients >/dev/null
  (
    flock 9
    if [ ! -d "$jars" ]; then
      rm -rf "$jars.part"
      mvn -B -q -ntp -f "$here/streams-pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars.part" >&2 9>&-
      mv "$jars.part" "$jars"
    fi
    if [ ! -d "$node" ]; then
      rm -rf "$node.part"
      mkdir -p "$node.part"
      # Pure JavaScript: nothing that a package would run at its installation is needed.
      npm install --prefix "$node.part" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "${packages[@]}" >&2 9>&-
      mv "$node.part" "$node"
    fi
  ) 9>"$cache/lock" || fail "the clients could not be installed"
}

case ${1:-} in
  prepare) prepare ;;
  python) shift; exec "$("$here/venv.sh" clients)/bin/python" "$@" ;;
  node) shift; NODE_PATH=$node/node_modules exec node "$@" ;;
  streams)
    file=$2 class=$3
    shift 3
    out=$cache/classes-$(sha256sum "$file" "$here/streams-pom.xml" | sha256sum | cut -c1-12)
    if [ ! -d "$out" ]; then
      part=$(mktemp -d "$out.XXXX")
      javac -cp "$jars/*" -d "$part" "$file"
      mv -T "$part" "$out" 2>/dev/null || [ -d "$out" ] || fail "the classes of $file could not be kept"
    fi
    exec java -Xms32m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$out:$jars/*" "$class" "$@" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
