#!/usr/bin/env bash
# franz-go's own tests of its client, against `ledgerlake serve`: software that we did not write says what a
# broker does. They come with the module that go.mod names; nothing of them is in this repository.
#
#   kgo.sh [RUN]    run the tests that talk to a broker (RUN: a regular expression of their names)
#
# bin/ledgerlake must be built. kgo-expected.txt says of every test and subtest whether it passes or is skipped,
# and why; anything else is a failure, a test that is new or gone too. KGO_TEST_RECORDS is the size of the long
# ones (default 20000; 500000 is what their authors use).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$here/../..
out=$(realpath -m "${LEDGERLAKE_CACHE:-$top/.cache}")/conformance
expected=$here/kgo-expected.txt
names=$(grep -v '^#' "$expected" | awk '{print $2}' | grep -v / | paste -sd'|')
run=${1:-^($names)\$}

rm -rf "$out/kgo" "$out/kgo-users" "$out"/ready*.json "$out/users"
mkdir -p "$out/kgo" "$out/kgo-users"
user=kgo:conformance
(umask 077 && echo "$user" >"$out/users")
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true' EXIT

# serve NAME ARG...: starts a server whose address is in $addr when it is ready
serve() {
  local name=$1 ready=$out/ready-$1.json log=$out/serve-$1.log
  shift
  "$top/bin/ledgerlake" serve --dir "$out/$name" --kafka-listen 127.0.0.1:0 --http-listen "" --ready-file "$ready" "$@" >"$log" 2>&1 &
  pids+=($!)
  for _ in $(seq 150); do
    [ ! -s "$ready" ] || break
    kill -0 "${pids[-1]}" 2>/dev/null || { echo "kgo.sh: serve ended, see $log" >&2; exit 1; }
    sleep 0.1
  done
  addr=$(sed -n 's/.*"kafka":"\([^"]*\)".*/\1/p' "$ready")
  [ -n "$addr" ] || { echo "kgo.sh: serve does not get ready, see $log" >&2; exit 1; }
}
serve kgo-users --kafka-users "$out/users"
users=$addr
serve kgo --partitions 4

cd "$top"
KGO_SEEDS=$addr KGO_TEST_SCRAM_SEEDS=$users KGO_TEST_SCRAM=$user KGO_TEST_RF=1 KGO_LOG_LEVEL=none KGO_TEST_RECORDS=${KGO_TEST_RECORDS:-20000} \
  "${GO:-go}" test -count=1 -timeout 20m -v -run "$run" github.com/twmb/franz-go/pkg/kgo >"$out/kgo.log" 2>&1 || true

sed -nE 's/^ *--- (PASS|FAIL|SKIP): ([^ ]+) .*/\1 \2/p' "$out/kgo.log" | sort -k2 >"$out/kgo-seen.txt"
grep -v '^#' "$expected" | awk '{print $1, $2}' | grep -E " (${run//[\^\$]/})(/|\$)" | sort -k2 >"$out/kgo-wanted.txt"
count() { grep -v / "$out/kgo-seen.txt" | grep -c "^$1 " || true; }
echo "kgo tests that talk to a broker: $(count PASS) pass, $(count FAIL) fail, $(count SKIP) skipped (log: $out/kgo.log)"
if ! diff -u "$out/kgo-wanted.txt" "$out/kgo-seen.txt"; then
  echo "kgo.sh: not what kgo-expected.txt says (-: expected, +: seen)" >&2
  exit 1
fi
