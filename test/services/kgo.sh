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

rm -rf "$out/kgo" "$out/ready.json"
mkdir -p "$out/kgo"
"$top/bin/ledgerlake" serve --dir "$out/kgo" --kafka-listen 127.0.0.1:0 --partitions 4 \
  --ready-file "$out/ready.json" >"$out/serve.log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true' EXIT
for _ in $(seq 150); do
  [ ! -s "$out/ready.json" ] || break
  kill -0 "$pid" 2>/dev/null || { echo "kgo.sh: serve ended, see $out/serve.log" >&2; exit 1; }
  sleep 0.1
done
addr=$(sed -n 's/.*"kafka":"\([^"]*\)".*/\1/p' "$out/ready.json")
[ -n "$addr" ] || { echo "kgo.sh: serve does not get ready, see $out/serve.log" >&2; exit 1; }

cd "$top"
KGO_SEEDS=$addr KGO_TEST_RF=1 KGO_LOG_LEVEL=none KGO_TEST_RECORDS=${KGO_TEST_RECORDS:-20000} \
  "${GO:-go}" test -count=1 -timeout 20m -v -run "$run" github.com/twmb/franz-go/pkg/kgo >"$out/kgo.log" 2>&1 || true

sed -nE 's/^ *--- (PASS|FAIL|SKIP): ([^ ]+) .*/\1 \2/p' "$out/kgo.log" | sort -k2 >"$out/kgo-seen.txt"
grep -v '^#' "$expected" | awk '{print $1, $2}' | grep -E " (${run//[\^\$]/})(/|\$)" | sort -k2 >"$out/kgo-wanted.txt"
count() { grep -v / "$out/kgo-seen.txt" | grep -c "^$1 " || true; }
echo "kgo tests that talk to a broker: $(count PASS) pass, $(count FAIL) fail, $(count SKIP) skipped (log: $out/kgo.log)"
if ! diff -u "$out/kgo-wanted.txt" "$out/kgo-seen.txt"; then
  echo "kgo.sh: not what kgo-expected.txt says (-: expected, +: seen)" >&2
  exit 1
fi
