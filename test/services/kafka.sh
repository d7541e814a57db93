#!/usr/bin/env bash
# A real Apache Kafka for tests: one node, broker and controller in one process, on 127.0.0.1 only.
#
#   kafka.sh prepare            fetch the jars and make a class archive (halves each later start)
#   kafka.sh start DIR PORT     start a node; returns when it serves. The controller takes PORT+1000
#   kafka.sh stop DIR           end it cleanly; no error when it does not run
#   kafka.sh kill DIR           end it with SIGKILL: a crash
#   kafka.sh tool CLASS ARG...  run a Kafka command line tool, for instance kafka.tools.DumpLogSegments; classes of
#                               $CLASSPATH are found too
#   kafka.sh classpath          print where its classes are, to compile against
#
# Needs Java 17 and Maven (Maven only for the first start). LEDGERLAKE_CACHE says where the jars go;
# the default is .cache at the top of the repository. DIR holds everything else. KAFKA_JVM are options of the JVM
# instead of ours, which make a small one that starts fast.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")/kafka
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
# One folder of jars for each content of the pom: a changed pom never meets old jars.
lib=$cache/$(sha256sum "$here/kafka-pom.xml" | cut -c1-12)

fail() { echo "kafka.sh: $*" >&2; exit 1; }

fetch_jars() {
  [ ! -d "$lib" ] || return 0
  command -v mvn >/dev/null || fail "the Kafka jars are not there and Maven (mvn) is not installed"
  mkdir -p "$cache"
  (
    flock 9
    [ ! -d "$lib" ] || exit 0
    rm -rf "$lib.part"
    mvn -B -q -ntp -f "$here/kafka-pom.xml" dependency:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$lib.part" >&2 9>&-
    mv "$lib.part" "$lib"
  ) 9>"$cache/lock" || fail "Maven could not fetch the Kafka jars"
}

# Sets jvm to the command of a small JVM. The class path is sorted: the archive is bound to its text.
set_jvm() {
  local jars=("$lib"/*.jar ${CLASSPATH:+"$CLASSPATH"}) options IFS=:
  IFS=' ' read -ra options <<<"${KAFKA_JVM:--Xms64m -Xmn32m -Xmx768m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData}"
  jvm=("$java" "${options[@]}" -Xshare:auto -Xlog:disable -Xlog:all=error:stderr -Djava.awt.headless=true -cp "${jars[*]}")
  [ ! -s "$lib/classes.jsa" ] || jvm+=("-XX:SharedArchiveFile=$lib/classes.jsa")
}

# True when the node of DIR lives; sets pid. The last argument is compared, so that a process which
# got the same number later is never taken for ours.
running() {
  pid=
  [ -s "$1/pid" ] || return 1
  read -r pid <"$1/pid"
  local args=()
  { mapfile -d '' -t args <"/proc/$pid/cmdline"; } 2>/dev/null || return 1
  [ "${#args[@]}" -gt 0 ] && [ "${args[-1]}" = "$1/server.properties" ]
}

write_config() { # DIR PORT
  cat >"$1/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(($2 + 1000))
listeners=CLIENT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$(($2 + 1000))
advertised.listeners=CLIENT://127.0.0.1:$2
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
log.dirs=$1/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
# After a SIGKILL the old registration keeps the new one out until this is over: keep it short.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=300
num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.dedupe.buffer.size=4194304
metric.reporters=
${KAFKA_CONFIG:-}
END
  cat >"$1/log4j2.properties" <<'END'
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
END
}

await() { # DIR PORT
  local _
  for _ in $(seq 2400); do
    # The port opens before the node serves: the log line says when it does.
    if grep -qs 'Kafka Server started' "$1/broker.log" && (: <>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; then
      return 0
    fi
    running "$1" || kill -0 "$(cat "$1/pid")" 2>/dev/null \
      || { tail -n 15 "$1/broker.log" >&2; fail "the node in $1 ended while it started"; }
    sleep 0.1
  done
  tail -n 15 "$1/broker.log" >&2
  fail "the node in $1 did not serve within 240 s"
}

start() { # DIR PORT [JVM OPTION...]
  local dir port=$2
  dir=$(realpath -m "$1"); shift 2
  if ! running "$dir"; then
    fetch_jars
    set_jvm
    mkdir -p "$dir"
    write_config "$dir" "$port"
    if [ ! -e "$dir/data/meta.properties" ]; then
      # The cluster id is any 16 bytes in base64url.
      "${jvm[@]}" kafka.tools.StorageTool format -t bGVkZ2VybGFrZS10ZXN0cw \
        -c "$dir/server.properties" >"$dir/format.log" 2>&1 || { cat "$dir/format.log" >&2; fail "format failed"; }
    fi
    : >"$dir/broker.log"
    setsid "${jvm[@]}" "$@" -Dlog4j2.configurationFile="$dir/log4j2.properties" \
      kafka.Kafka "$dir/server.properties" </dev/null >"$dir/broker.log" 2>&1 &
    echo $! >"$dir/pid"
  fi
  await "$dir" "$port"
}

end() { # DIR SIGNAL
  local dir _
  dir=$(realpath -m "$1")
  running "$dir" || return 0
  kill "-$2" "$pid" 2>/dev/null || true
  for _ in $(seq 1200); do
    running "$dir" || { rm -f "$dir/pid"; return 0; }
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null || true
  rm -f "$dir/pid"
}

prepare() {
  fetch_jars
  [ ! -s "$lib/classes.jsa" ] || return 0
  local tmp
  tmp=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "'$0' kill '$tmp/node'; rm -rf '$tmp'" EXIT
  start "$tmp/node" "${KAFKA_PREPARE_PORT:-28765}" "-XX:ArchiveClassesAtExit=$tmp/classes.jsa"
  end "$tmp/node" TERM
  if [ -s "$tmp/classes.jsa" ]; then
    mv "$tmp/classes.jsa" "$lib/classes.jsa"
  else
    echo "kafka.sh: no class archive was written; starts are slower, nothing else changes" >&2
  fi
}

case ${1:-} in
  prepare) prepare ;;
  start) [ $# = 3 ] || fail "usage: start DIR PORT"; start "$2" "$3" ;;
  stop) end "${2:?DIR}" TERM ;;
  kill) end "${2:?DIR}" KILL ;;
  tool) shift; fetch_jars; set_jvm; exec "${jvm[@]}" "$@" ;;
  classpath) fetch_jars; echo "$lib/*" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
