#!/usr/bin/env bash
# Runs every scenario of `ledgerlake bench` and makes the page of their reports.
#
#   bench.sh DIR              short runs; reports and page go to DIR/reports and DIR/page
#   BENCH_FULL=1 bench.sh DIR all cases, more rounds
#   REFERENCE_BIN=PATH        a kafka-delta-ingest to run beside; REFERENCE_NOTE says its version and how it was built
#   SCENARIOS="log tiering"   only these
#
# Run it at the top of the repository, after `make build services`. A scenario that fails (a wrong result is
# one) fails the run, after the others; times never do.
set -euo pipefail

out=$(realpath -m "${1:?DIR}")
bin=$(realpath "${BIN:-bin/ledgerlake}")
usual="log tiering deltalog committer replay ingest broker"
! compgen -G "${LEDGERLAKE_CACHE:-.cache}/pulsar/*/pulsar-broker-*.jar" >/dev/null || usual+=" pulsar" # 234 MB: only `make pulsar` fetches them
scenarios=${SCENARIOS:-$usual}
mkdir -p "$out/reports"

rounds=2 records=100000 more=()
[ -z "${BENCH_FULL:-}" ] || { rounds=5; records=400000; more=(--full); }
[ -z "${REFERENCE_BIN:-}" ] || more+=(--reference-bin "$REFERENCE_BIN" --reference-note "${REFERENCE_NOTE:-version not given}")

failed=()
for name in $scenarios; do
  "$bin" bench --help | grep -q "^  $name " || { echo "bench.sh: this ledgerlake has no scenario $name; passed over"; continue; }
  printf '\n== %s\n' "$name"
  flags=(--rounds "$rounds" --records "$records" --json "$out/reports/$name.json")
  [ "$name" != ingest ] || flags+=("${more[@]}")
  rm -f "$out/reports/$name.json"
  "$bin" bench "$name" "${flags[@]}" || failed+=("$name")
done

reports=()
for name in $scenarios; do
  [ ! -s "$out/reports/$name.json" ] || reports+=("$out/reports/$name.json")
done
[ ${#reports[@]} = 0 ] || "$bin" bench report "${reports[@]}" --out "$out/page"
echo "page: $out/page/README.md"
[ ${#failed[@]} = 0 ] || { echo "bench.sh: failed: ${failed[*]}" >&2; exit 1; }
