#!/usr/bin/env bash
# A real Apache Pulsar for tests: broker, one bookie and the metadata store in one process, on 127.0.0.1 only.
#
#   pulsar.sh prepare              fetch the jars (234 MB) and make a class archive (halves each later start)
#   pulsar.sh start DIR PORT WEB   start it; returns when it serves. PORT is the broker's, WEB the admin API's
#   pulsar.sh stop DIR             end it cleanly; no error when it does not run
#   pulsar.sh kill DIR             end it with SIGKILL: a crash
#   pulsar.sh java CLASS ARG...    run a class with the jars on its path, or a source file CLASS.java
#   pulsar.sh offloader DIR        make DIR/test.nar of PulsarOffloader.java: DIR is then an offloadersDirectory
#   pulsar.sh jcloud DIR           make DIR/jcloud.nar of Pulsar's own offloader for object stores (75 MB)
#
# Needs Java 17 and Maven (Maven only for the first start). LEDGERLAKE_CACHE says where the jars go;
# the default is .cache at the top of the repository. DIR holds everything else. PULSAR_CONFIG has lines of
# key=value that win over those below; PULSAR_ENTRIES is the number of entries at which a ledger is sealed. PULSAR_TOKEN
# is the token of a broker that asks for one. PULSAR_JIT=full lets the JVMs compile as they like: starts are slower then.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")/pulsar
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
jit=-XX:TieredStopAtLevel=1
[ "${PULSAR_JIT:-}" != full ] || jit=-XX:+TieredCompilation
# One folder of jars for each content of the pom: a changed pom never meets old jars.
lib=$cache/$(sha256sum "$here/pulsar-pom.xml" | cut -c1-12)

fail() { echo "pulsar.sh: $*" >&2; exit 1; }

fetch_jars() {
  [ ! -d "$lib" ] || return 0
  command -v mvn >/dev/null || fail "the Pulsar jars are not there and Maven (mvn) is not installed"
  mkdir -p "$cache"
  (
    flock 9
    [ ! -d "$lib" ] || exit 0
    rm -rf "$lib.part"
    mvn -B -q -ntp -f "$here/pulsar-pom.xml" dependency:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$lib.part" >&2 9>&-
    mv "$lib.part" "$lib"
  ) 9>"$cache/lock" || fail "Maven could not fetch the Pulsar jars"
}

# Sets opens to what Pulsar and BookKeeper need to reach inside the JDK.
set_opens() {
  local p
  opens=()
  for p in java.base/java.{io,nio,lang,util.zip} java.base/jdk.internal.{misc,platform} java.base/sun.net \
    java.management/sun.management jdk.management/com.sun.management.internal; do
    opens+=(--add-opens "$p=ALL-UNNAMED")
  done
}

# True when the process of DIR lives; sets pid. Its first argument is compared, so that a process which got the
# same number later is never taken for ours.
running() {
  pid=
  [ -s "$1/pid" ] || return 1
  read -r pid <"$1/pid"
  local args=()
  { mapfile -d '' -t -n 2 args <"/proc/$pid/cmdline"; } 2>/dev/null || return 1
  [ "${args[1]:-}" = "-Dpulsar.service.dir=$1" ]
}

free_port() {
  local p
  for p in $(shuf -i 20000-30000 -n 50); do
    (: <>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
  done
}

write_config() { # DIR PORT WEB
  cat >"$1/standalone.conf" <<END
clusterName=standalone
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
brokerServicePort=$2
webServicePort=$3
# Empty: the starter takes it for ZooKeeper's host:port. --metadata-url is the real one.
metadataStoreUrl=
configurationMetadataStoreUrl=
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerMinLedgerRolloverTimeMinutes=0
managedLedgerMaxLedgerRolloverTimeMinutes=240
managedLedgerMaxEntriesPerLedger=${PULSAR_ENTRIES:-50000}
managedLedgerCacheSizeMB=64
# The broker's time and running index in front of every entry, and on to the clients.
brokerEntryMetadataInterceptors=org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor,org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor
exposingBrokerEntryMetadataToClientEnabled=true
transactionCoordinatorEnabled=true
systemTopicEnabled=true
topicLevelPoliciesEnabled=true
allowAutoTopicCreation=true
allowAutoTopicCreationType=non-partitioned
brokerDeleteInactiveTopicsEnabled=false
brokerDeleteInactivePartitionedTopicMetadataEnabled=false
backlogQuotaDefaultLimitGB=-1
loadBalancerEnabled=false
loadBalancerAutoBundleSplitEnabled=false
defaultNumberOfNamespaceBundles=1
subscriptionExpirationTimeMinutes=0
webSocketServiceEnabled=false
functionsWorkerEnabled=false
numHttpServerThreads=8
numIOThreads=2
numOrderedExecutorThreads=2
exposePublisherStats=false
# Of the bookie: its frame must hold an entry of maxMessageSize (5 MiB) and what the broker adds to it. The
# default does not, and one such entry makes the broker open new ledgers without end.
nettyMaxFrameSizeBytes=5253120
# Without it the starter takes a random port, and the port is part of a bookie's identity.
allowEphemeralPorts=true
allowLoopback=true
listeningInterface=lo
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
journalSyncData=false
journalMaxGroupWaitMSec=1
journalMaxSizeMB=64
gcWaitTime=60000
flushInterval=10000
dbStorage_writeCacheMaxSizeMb=64
dbStorage_readAheadCacheMaxSizeMb=64
dbStorage_rocksDB_blockCacheSize=16777216
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.98
${PULSAR_CONFIG:-}
END
  write_log "$1/log4j2.properties" warn
}

write_log() { # FILE LEVEL: messages go to standard error
  cat >"$1.$$" <<END
status = error
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n%throwable
rootLogger.level = $2
rootLogger.appenderRef.err.ref = err
END
  mv "$1.$$" "$1"
}

await() { # DIR WEB
  local _ login=()
  [ -z "${PULSAR_TOKEN:-}" ] || login=(-H "Authorization: Bearer $PULSAR_TOKEN")
  for _ in $(seq 1200); do
    # The health check sends a message through a topic and reads it back; the namespace is made last.
    if curl -fs -m 10 -o /dev/null ${login[@]+"${login[@]}"} "http://127.0.0.1:$2/admin/v2/brokers/health" &&
       curl -fs -m 10 -o /dev/null ${login[@]+"${login[@]}"} "http://127.0.0.1:$2/admin/v2/namespaces/public/default"; then
      return 0
    fi
    kill -0 "$(cat "$1/pid")" 2>/dev/null || { tail -n 15 "$1/broker.log" >&2; fail "Pulsar in $1 ended while it started"; }
    sleep 0.2
  done
  tail -n 15 "$1/broker.log" >&2
  fail "Pulsar in $1 did not serve within 240 s"
}

start() { # DIR PORT WEB [JVM OPTION...]
  local dir port=$2 web=$3 jars opens drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadata
  dir=$(realpath -m "$1"); shift 3
  if ! running "$dir"; then
    fetch_jars
    set_opens
    mkdir -p "$dir/data"
    write_config "$dir" "$port" "$web"
    [ -s "$dir/bookie.port" ] || free_port >"$dir/bookie.port"
    [ ! -s "$lib/classes.jsa" ] || set -- "$@" "-XX:SharedArchiveFile=$lib/classes.jsa"
    jars=("$lib"/*.jar)
    (
      cd "$dir"
      exec setsid "$java" "-Dpulsar.service.dir=$dir" -Xms128m -Xmx768m -XX:MaxDirectMemorySize=768m \
        -XX:+UseSerialGC "$jit" -XX:-UsePerfData -XX:+ExitOnOutOfMemoryError \
        -Xshare:auto -Xlog:disable -Xlog:all=error:stderr "$@" "${opens[@]}" \
        -Dio.netty.tryReflectionSetAccessible=true -Dio.netty.leakDetectionLevel=disabled \
        -Djava.net.preferIPv4Stack=true -Djava.awt.headless=true \
        -Dlog4j2.is.webapp=false -Dlog4j.shutdownHookEnabled=false "-Dlog4j.configurationFile=$dir/log4j2.properties" \
        "-Dbookkeeper.metadata.bookie.drivers=${drivers}BookieDriver" \
        "-Dbookkeeper.metadata.client.drivers=${drivers}ClientDriver" \
        -cp "$(IFS=:; echo "${jars[*]}")" org.apache.pulsar.PulsarStandaloneStarter \
        --config "$dir/standalone.conf" --metadata-url "rocksdb://$dir/data/metadata" \
        --bookkeeper-dir "$dir/data/bookkeeper" --bookkeeper-port "$(cat "$dir/bookie.port")" \
        --advertised-address 127.0.0.1 --no-functions-worker --no-stream-storage
    ) </dev/null >>"$dir/broker.log" 2>&1 &
    echo $! >"$dir/pid"
  fi
  await "$dir" "$web"
}

end() { # DIR SIGNAL
  local dir _
  dir=$(realpath -m "$1")
  running "$dir" || return 0
  kill "-$2" "$pid" 2>/dev/null || true
  for _ in $(seq 1800); do
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
  start "$tmp/node" "${PULSAR_PREPARE_PORT:-28766}" "${PULSAR_PREPARE_WEB:-28767}" "-XX:ArchiveClassesAtExit=$tmp/classes.jsa"
  end "$tmp/node" TERM
  if [ -s "$tmp/classes.jsa" ]; then
    mv "$tmp/classes.jsa" "$lib/classes.jsa"
  else
    echo "pulsar.sh: no class archive was written; starts are slower, nothing else changes" >&2
  fi
}

run_java() { # CLASS ARG...
  fetch_jars
  local opens
  set_opens
  write_log "$cache/tool-log4j2.properties" error
  exec "$java" "-Dlog4j.configurationFile=$cache/tool-log4j2.properties" -Xmx512m -XX:+UseSerialGC "$jit" -Xlog:disable "${opens[@]}" -cp "$lib/*" "$@"
}

# A nar is a zip: classes, and a file that names the factory.
make_offloader() { # DIR
  fetch_jars
  local dir
  dir=$(realpath -m "$1")
  rm -rf "$dir/classes"
  mkdir -p "$dir/classes/META-INF/services" "$dir/classes/META-INF/bundled-dependencies"
  "${java}c" -proc:none -cp "$lib/*" -d "$dir/classes" "$here/PulsarOffloader.java"
  printf 'name: test\ndescription: writes what offloaders write\noffloaderFactoryClass: PulsarOffloader$Factory\n' \
    >"$dir/classes/META-INF/services/pulsar-offloader.yaml"
  (cd "$dir/classes" && "${java%java}jar" -cfM "$dir/test.nar" .)
  rm -rf "$dir/classes"
}

# Pulsar's own offloader for object stores: a nar that is in the registry as a jar, with a factory of ours in front.
make_jcloud() { # DIR
  fetch_jars
  local dir jar
  dir=$(realpath -m "$1")
  jar=$cache/tiered-storage-jcloud-2.10.0.jar
  if [ ! -s "$jar" ]; then
    command -v mvn >/dev/null || fail "Pulsar's offloader is not there and Maven (mvn) is not installed"
    # Not every mirror has the parent of its pom, of which nothing is needed: in a repository of our own, an empty one stands for it.
    local part=$cache/part.$$ repository=$cache/part.$$/m2
    mkdir -p "$part"
    printf '<project><modelVersion>4.0.0</modelVersion><groupId>org.apache.pulsar</groupId><artifactId>tiered-storage-parent</artifactId>%s</project>' \
      '<version>2.10.0</version><packaging>pom</packaging>' >"$part/parent.xml"
    { mvn -B -q -ntp org.apache.maven.plugins:maven-install-plugin:3.1.1:install-file -Dfile="$part/parent.xml" \
        -DpomFile="$part/parent.xml" -Dpackaging=pom -DlocalRepositoryPath="$repository" &&
      mvn -B -q -ntp -Dmaven.repo.local="$repository" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dmdep.useBaseVersion=true \
        -Dartifact=org.apache.pulsar:tiered-storage-jcloud:2.10.0:jar -DoutputDirectory="$part"; } >&2 || fail "Maven could not fetch Pulsar's offloader"
    mv "$part"/*.jar "$jar"
    rm -rf "$part"
  fi
  rm -rf "$dir/classes"
  mkdir -p "$dir/classes/META-INF/services"
  (cd "$dir" && "${java%java}jar" -xf "$jar" META-INF/bundled-dependencies/jclouds-shaded-2.10.0.jar)
  "${java}c" -proc:none -cp "$lib/*:$jar:$dir/META-INF/bundled-dependencies/*" -d "$dir/classes" "$here/PulsarJcloud.java"
  printf 'name: jcloud\ndescription: of Pulsar 2.10.0\noffloaderFactoryClass: PulsarJcloud\n' >"$dir/classes/META-INF/services/pulsar-offloader.yaml"
  cp "$jar" "$dir/jcloud.nar"
  (cd "$dir/classes" && "${java%java}jar" -uf "$dir/jcloud.nar" .)
  rm -rf "$dir/classes" "$dir/META-INF"
}

case ${1:-} in
  prepare) prepare ;;
  start) [ $# = 4 ] || fail "usage: start DIR PORT WEB"; start "$2" "$3" "$4" ;;
  stop) end "${2:?DIR}" TERM ;;
  kill) end "${2:?DIR}" KILL ;;
  java) shift; run_java "$@" ;;
  offloader) make_offloader "${2:?DIR}" ;;
  jcloud) make_jcloud "${2:?DIR}" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
