#!/usr/bin/env bash
# librdkafka's own test suite, against `ledgerlake serve`: software that we did not write says what a broker does.
# Its source is Debian's source package of the version below, fetched with apt and built in .cache/librdkafka;
# nothing of it is in this repository.
#
#   librdkafka.sh prepare          fetch and build it (5 to 18 minutes, once)
#   librdkafka.sh run [TEST...]    run the tests that librdkafka-expected.txt names, or those named here: 0012, 0018/consumer
#
# bin/ledgerlake must be built. Every test is a process of its own and is judged by the report that it writes: its state,
# and how long it took, since in this suite a test can pass without having done anything. Anything that is not as
# librdkafka-expected.txt says is a failure. LIBRDKAFKA_JOBS tests run at the same time (default 2),
# never two of one number: some subscribe to whatever is named as their own topics are.
# The source of some tests creates topics with three replicas, `serve` is one node: --any-replication makes it take them.
set -euo pipefail

version=2.14.2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(realpath "$here/../..")
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$top/.cache}")
src=$cache/librdkafka/$version

fail() { echo "librdkafka.sh: $*" >&2; exit 1; }

# Runs apt with lists of its own, which hold the sources of Debian's newest release and nothing else: the system's
# settings stay as they are. The address is the one that the system itself is set up with.
fetch_source() { # DIR
  local site keys=/usr/share/keyrings/debian-archive-keyring.gpg
  local apt=$cache/librdkafka/apt
  site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -E '/debian/?$' | sort -u | head -n 1)
  [ -n "$site" ] || fail "apt on this machine knows no Debian archive: put the source of librdkafka $version into $1"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$1"
  echo "deb-src [signed-by=$keys] $site sid main" >"$apt/sources.list"
  local options=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o APT::Sandbox::User=root)
  apt-get -q "${options[@]}" update
  (cd "$1" && apt-get -q "${options[@]}" source --download-only librdkafka)
}

# Who comes second waits for the first one's build.
prepare() {
  [ ! -e "$src/built" ] || return 0
  mkdir -p "$cache/librdkafka"
  (
    flock 9
    if [ ! -e "$src/built" ]; then build 9>&-; fi
  ) 9>"$cache/librdkafka/lock"
}

build() {
  local missing=() p
  for p in gcc g++ make jq libssl-dev zlib1g-dev libzstd-dev liblz4-dev libsasl2-dev libcurl4-openssl-dev rapidjson-dev; do
    dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
  fi
  local part=$cache/librdkafka/part
  rm -rf "$part"
  mkdir -p "$part/src"
  fetch_source "$part"
  local archive=$part/librdkafka_$version.orig.tar.gz
  [ -s "$archive" ] || fail "Debian serves $(cd "$part" && ls ./*.orig.tar.gz), not $version: change the version in this script, and run all tests again"
  tar xzf "$archive" -C "$part/src" --strip 1
  rm -rf "$src"
  mv "$part/src" "$src"
  (
    cd "$src"
    ./configure --disable-optimization
    nice make -j2 libs
    nice make -j2 -C tests build
  )
  touch "$src/built"
}

# The kafka-*.sh that the tests call are Kafka's own tools, from the jars of kafka.sh.
tools() { # DIR
  mkdir -p "$1/bin"
  local name class
  while read -r name class; do
    printf '#!/bin/sh\nexec "%s" tool %s "$@"\n' "$here/kafka.sh" "$class" >"$1/bin/$name.sh"
    chmod +x "$1/bin/$name.sh"
  done <<'END'
kafka-topics org.apache.kafka.tools.TopicCommand
kafka-acls org.apache.kafka.tools.AclCommand
kafka-run-class
END
  # The tests compile programs of their own against the jars.
  ln -sfn "$(dirname "$("$here/kafka.sh" classpath)")" "$1/libs"
}

# serve NAME ARG...: starts a server that is there until the script ends, and writes the settings for its clients.
serve() {
  local ready=$out/$1.json log=$out/$1-serve.log addr= pid _
  mkdir -p "$out/data-$1"
  "$top/bin/ledgerlake" serve --dir "$out/data-$1" --kafka-listen 127.0.0.1:0 --http-listen "" --ready-file "$ready" \
    --partitions 4 --any-replication --kafka-acls allow "${@:2}" >"$log" 2>&1 &
  pid=$!
  servers+=("$pid")
  for _ in $(seq 600); do
    [ ! -s "$ready" ] || break
    kill -0 "$pid" 2>/dev/null || fail "serve ended, see $log"
    sleep 0.1
  done
  addr=$(sed -n 's/.*"kafka":"\([^"]*\)".*/\1/p' "$ready")
  [ -n "$addr" ] || fail "serve does not get ready, see $log"
  printf 'metadata.broker.list=%s\ntest.topic.random=true\ntest.timeout.multiplier=%s\n' "$addr" "${LIBRDKAFKA_PATIENCE:-3}" >"$out/$1.conf"
}

# one NUMBER[/consumer|/noautocreate|/SUBTEST]: runs the tests of that number and writes a line for each: state, what ran, name, seconds.
one() {
  local number=${1%%/*} way=${1#*/} conf=default log report
  [ "$way" != "$1" ] || way=default
  log=$out/${1/\//-}.log report=$out/${1/\//-}-report.json
  case $way in
    noautocreate) conf=noautocreate ;;
    do_test_*) conf=untiered ;; # deleted records stay in the table, and one part wants them gone
  esac
  local vars=(TESTS="$number" RDKAFKA_TEST_CONF="$out/$conf.conf" TEST_REPORT="$report" TEST_KAFKA_VERSION=4.1.0
    BROKERS="$(sed -n 's/^metadata.broker.list=//p' "$out/$conf.conf")" KAFKA_PATH="$out/kafka" LD_LIBRARY_PATH=../src:../src-cpp)
  [ "$way" != consumer ] || vars+=(TEST_CONSUMER_GROUP_PROTOCOL=consumer)
  [ "$way" != noautocreate ] || vars+=(TEST_SCENARIO=noautocreate)
  case $way in do_test_*) vars+=(SUBTESTS="$way:") ;; esac
  (cd "$src/tests" && exec env "${vars[@]}" timeout -k 5 "${LIBRDKAFKA_TIMEOUT:-1200}" ./test-runner -L -p1) >"$log" 2>&1 </dev/null || true
  judge "$1" "$number" "$report" "$log"
}

# A test that passed without a client, or at once, did nothing. Those in C++ do not say that they make one: they have to
# take 10 ms, which on a local socket is a few requests; 0003, 0031, 0035 and 0063 take 20 to 50 ms here.
judge() { # RUN NUMBER REPORT LOG
  [ -s "$3" ] || { echo "KILLED $1 $2_without_a_report 0"; return; }
  local hollow=false
  ls "$src/tests/$2"-*.cpp >/dev/null 2>&1 || grep -q 'Created    kafka instance' "$4" || hollow=true
  case $1 in */do_test_*) grep -q "${1#*/}:.*: PASS" "$4" || hollow=true ;; esac
  jq -r --arg run "$1" --arg number "$2_" --argjson hollow "$hollow" '
    .tests[] | select((.name | startswith($number)) and (.state != "SKIPPED" or .duration > 0))
    | (if .state == "PASSED" then (if $hollow or .duration < 0.01 then "HOLLOW" else "PASS" end)
       elif .state == "SKIPPED" then "SKIP" else .state end) + " \($run) \(.name) \(.duration)"' "$3"
}

# each NUMBER: the runs of that number that are asked for, one after the other.
each() {
  local r
  for r in $(grep -E "^$1(/|$)" "$out/runs.txt"); do
    one "$r" | tee "$out/seen/${r//\//-}"
  done
}

run() {
  local expected=$here/librdkafka-expected.txt
  prepare
  rm -rf "$out"
  mkdir -p "$out/seen"
  tools "$out/kafka"
  servers=()
  trap 'kill "${servers[@]}" 2>/dev/null || true; wait "${servers[@]}" 2>/dev/null || true' EXIT
  serve default
  serve noautocreate --auto-create-topics=false
  serve untiered --no-tiering
  awk '!/^#/ && NF {print $1, $2, $3}' "$expected" >"$out/wanted-all.txt"
  if [ $# -gt 0 ]; then
    printf '%s\n' "$@" >"$out/runs.txt"
  else
    awk '!seen[$2]++ {print $2}' "$out/wanted-all.txt" >"$out/runs.txt"
  fi
  export -f one each judge
  export out src
  # A test that is slow by intent goes first where the list says so.
  sed 's,/.*,,' "$out/runs.txt" | awk '!seen[$0]++' |
    xargs -P "${LIBRDKAFKA_JOBS:-2}" -I{} bash -c 'set -euo pipefail; each {}'
  cat "$out"/seen/* | awk '{print $1, $2, $3}' | sort -k2 >"$out/seen.txt"
  awk 'NR == FNR {run[$1]; next} $2 in run' "$out/runs.txt" "$out/wanted-all.txt" | sort -k2 >"$out/wanted.txt"
  echo "librdkafka $version: $(grep -c '^PASS' "$out/seen.txt" || true) pass, $(grep -c '^SKIP' "$out/seen.txt" || true) skipped, $(grep -cvE '^(PASS|SKIP)' "$out/seen.txt" || true) neither (logs: $out)"
  diff -u "$out/wanted.txt" "$out/seen.txt" || fail "not what librdkafka-expected.txt says (-: expected, +: seen)"
}

out=$cache/conformance/librdkafka
case ${1:-} in
  prepare) prepare ;;
  run) shift; run "$@" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
