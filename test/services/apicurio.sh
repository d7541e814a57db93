#!/usr/bin/env bash
# A real schema registry for tests, Apicurio, which speaks the API of Confluent's too; on 127.0.0.1 only.
#
#   apicurio.sh prepare          fetch the program (109 MB) into .cache/apicurio
#   apicurio.sh start DIR PORT   returns when it answers; its schemas are kept in DIR
#   apicurio.sh kill DIR         end it with SIGKILL; no error when it does not run
#
# Its API of Confluent's form is below http://127.0.0.1:PORT/apis/ccompat/v7. Needs Java 17, and Maven for the first
# start: 3.0 is the last release for Java 17 (3.3 wants 21).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=3.0.9
home=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")/apicurio/$version
jar=$home/apicurio-registry-app-$version-runner.jar
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

fail() { echo "apicurio.sh: $*" >&2; exit 1; }

prepare() {
  [ ! -e "$jar" ] || return 0
  command -v mvn >/dev/null || fail "the registry is not there and Maven (mvn) is not installed"
  mkdir -p "$(dirname "$home")"
  (
    flock 9
    [ ! -e "$jar" ] || exit 0
    rm -rf "$home.part"
    mkdir -p "$home.part"
    mvn -B -q -ntp org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
      -Dartifact=io.apicurio:apicurio-registry-app:$version:tar.gz:all -DoutputDirectory="$home.part" >&2 9>&-
    tar xzf "$home.part"/*.tar.gz -C "$home.part"
    rm "$home.part"/*.tar.gz
    mv "$home.part" "$home"
  ) 9>"$(dirname "$home")/lock" || fail "Maven could not fetch the registry"
}

# True when the registry of DIR lives; sets pid. The command line names DIR, so that a process which got the same number
# later is never taken for ours.
running() {
  pid=
  [ -s "$1/pid" ] || return 1
  read -r pid <"$1/pid"
  grep -qsz -F "jdbc:h2:file:$1/db" "/proc/$pid/cmdline"
}

start() { # DIR PORT
  local dir _
  dir=$(realpath -m "$1")
  running "$dir" && return 0
  [ -e "$jar" ] || fail "the registry is not installed: run 'test/services/apicurio.sh prepare'"
  mkdir -p "$dir"
  (
    cd "$home"
    setsid "$java" -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$2" \
      -Dapicurio.datasource.url="jdbc:h2:file:$dir/db" -jar "$jar" </dev/null >"$dir/registry.log" 2>&1 &
    echo $! >"$dir/pid"
  )
  for _ in $(seq 3000); do
    curl -sf -m 10 -o /dev/null "http://127.0.0.1:$2/apis/ccompat/v7/subjects" && return 0
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { tail -n 20 "$dir/registry.log" >&2; fail "the registry ended while it started"; }
    sleep 0.1
  done
  tail -n 20 "$dir/registry.log" >&2
  fail "the registry gave no answer within 300 s"
}

end() { # DIR
  local dir _
  dir=$(realpath -m "$1")
  running "$dir" || return 0
  kill -KILL "$pid" 2>/dev/null || true
  for _ in $(seq 200); do running "$dir" || break; sleep 0.05; done
  rm -f "$dir/pid"
}

case ${1:-} in
  prepare) prepare ;;
  start) [ $# = 3 ] || fail "usage: start DIR PORT"; start "$2" "$3" ;;
  kill) end "${2:?DIR}" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
