#!/usr/bin/env bash
# franz-go's own tests of its client against a real Kafka, and then through `ledgerlake serve --upstream` in front of that
# same Kafka: each test and subtest must do through the gateway what it does without.
#
#   kgo-gateway.sh [RUN]    run the tests of kgo-expected.txt (RUN: a regular expression of their names)
#
# bin/ledgerlake must be built, and Kafka be in .cache (make services). KGO_TEST_RECORDS as for kgo.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$here/../..
out=$(realpath -m "${LEDGERLAKE_CACHE:-$top/.cache}")/conformance-gateway-$$
names=$(grep -v '^#' "$here/kgo-expected.txt" | awk '{print $2}' | grep -v / | paste -sd'|')
run=${1:-^($names)\$}

mkdir -p "$out/lake"
pid=
finish() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
  "$here/kafka.sh" kill "$out/kafka" >/dev/null 2>&1 || true
  rm -rf "$out/kafka" "$out/lake"
}
trap finish EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$here/kafka.sh" start "$out/kafka" "$port" >"$out/kafka.log"
"$top/bin/ledgerlake" serve --upstream "kafka://127.0.0.1:$port" --lake "$out/lake" --kafka-listen 127.0.0.1:0 --ready-file "$out/ready.json" >"$out/serve.log" 2>&1 &
pid=$!
for _ in $(seq 300); do
  [ ! -s "$out/ready.json" ] || break
  kill -0 "$pid" 2>/dev/null || { echo "kgo-gateway.sh: serve ended, see $out/serve.log" >&2; exit 1; }
  sleep 0.1
done
gateway=$(sed -n 's/.*"kafka":"\([^"]*\)".*/\1/p' "$out/ready.json")
[ -n "$gateway" ] || { echo "kgo-gateway.sh: serve does not get ready, see $out/serve.log" >&2; exit 1; }

# suite NAME ADDR: runs the tests and keeps what each of them came to
suite() {
  (cd "$top" && KGO_SEEDS=$2 KGO_TEST_RF=1 KGO_LOG_LEVEL=none KGO_TEST_RECORDS=${KGO_TEST_RECORDS:-20000} \
    "${GO:-go}" test -count=1 -timeout 20m -v -run "$run" github.com/twmb/franz-go/pkg/kgo) >"$out/$1.log" 2>&1 || true
  sed -nE 's/^ *--- (PASS|FAIL|SKIP): ([^ ]+) .*/\1 \2/p' "$out/$1.log" | sort -k2 >"$out/$1.txt"
  count() { grep -v / "$out/$1.txt" | grep -c "^$2 " || true; }
  echo "kgo tests, $1: $(count "$1" PASS) pass, $(count "$1" FAIL) fail, $(count "$1" SKIP) skipped (log: $out/$1.log)"
  [ -s "$out/$1.txt" ] || { echo "kgo-gateway.sh: no test ran" >&2; exit 1; }
}
suite kafka "127.0.0.1:$port"
suite gateway "$gateway"
if ! diff -u "$out/kafka.txt" "$out/gateway.txt"; then
  echo "kgo-gateway.sh: the gateway is not as the Kafka behind it (-: Kafka, +: through the gateway)" >&2
  exit 1
fi
