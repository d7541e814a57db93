#!/usr/bin/env bash
# Runs the scenarios of `ledgerlake bench` within a time and makes the page of their reports.
#
#   bench.sh DIR [--time MINUTES]   reports and page go to DIR/reports and DIR/page; 10 minutes by default
#   bench.sh DIR --full             all cases, more rounds, no limit
#   REFERENCE_BIN=PATH              a kafka-delta-ingest to run beside; REFERENCE_NOTE says its version and how it was built
#   LEDGERLAKE_SPARK=1              Spark too, in steps of its own (spark, sparkreplay): other cases do not wait for JVMs
#   SOAK_REPORT=PATH                what `make soak` wrote, for the page; .cache/soak/report.json when it is there
#   STEPS="drains tiering"          only these, by the names below
#
# Run it at the top of the repository, after `make build services`. Steps are in the order of what they tell; one that
# would not end in time is left out, and the page says so. A step that fails (a wrong result is one) fails the run,
# after the others; times never do.
set -euo pipefail

out=$(realpath -m "${1:?DIR}"); shift
minutes=10 full=
while [ $# -gt 0 ]; do
  case $1 in
    --time) minutes=${2:?MINUTES}; shift 2 ;;
    --full) full=1; shift ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done
[ -z "${BENCH_FULL:-}" ] || full=1
bin=$(realpath "${BIN:-bin/ledgerlake}")
scratch=${TMPDIR:-/tmp}
mkdir -p "$out/reports"
rm -f "$out/reports"/*.json

daemon=()
[ -z "${REFERENCE_BIN:-}" ] || daemon=(--reference-bin "$REFERENCE_BIN" --reference-note "${REFERENCE_NOTE:-version not given}")

spark=${LEDGERLAKE_SPARK:-}
unset LEDGERLAKE_SPARK # only its own steps run it
left_out=() failed=()
# step NAME SECONDS SECONDS-WITH-DAEMON SCENARIO FLAGS...: about how long it takes on two processors.
step() {
  local name=$1 seconds=$2 scenario=$4 more=()
  [ ${#daemon[@]} = 0 ] || seconds=$3
  [ -z "${STEPS:-}" ] || [[ " $STEPS " == *" $name "* ]] || return 0
  case $scenario in ingest | deployments) more=("${daemon[@]}") ;; esac
  if [ -z "$full" ] && [ $((SECONDS + seconds)) -gt $((minutes * 60)) ]; then
    left_out+=("$name")
    return 0
  fi
  printf '\n== %s: bench %s, about %d s, %d s so far\n' "$name" "$scenario" "$seconds" "$SECONDS"
  # One that takes far longer is interrupted; its report has the cases so far.
  local limit=()
  [ -n "$full" ] || limit=(timeout -s INT -k 60 $((seconds * 3 + 60)))
  "${limit[@]}" "$bin" bench "$scenario" "${@:5}" "${more[@]}" --dir "$scratch" --json "$out/reports/$name.json" || failed+=("$name")
}

# has FILE-PATTERN: what a step needs is installed
has() { compgen -G "${LEDGERLAKE_CACHE:-.cache}/$1" >/dev/null; }

if [ -n "$full" ]; then
  step drains 600 7200 ingest --full --rounds 5 --records 1500000
  step deployments 200 900 deployments
  for name in tiering log replay deltalog committer broker; do
    step "$name" 600 600 "$name" --rounds 5 $([ "$name" = committer ] || echo --records 400000)
  done
  step workers 900 900 replay --case workers --rounds 2 --records 10000000
  step reprocess 900 900 replay --case reprocess --rounds 2 --records 10000000
  ! has 'pulsar/*/pulsar-broker-*.jar' || step pulsar 600 600 pulsar --rounds 5 --records 400000
else
  step drains 60 720 ingest --rounds 2 --records 1500000 --case "web x12,event x12"
  step tiering 25 25 tiering --rounds 3 --records 150000
  step rates 70 190 ingest --rounds 1 --case "fresh x12,outage x12,S3 fresh"
  step goals 70 240 ingest --rounds 1 --records 1500000 --case "web x1,event x1,event2k x1,event2k x12"
  step matrix 80 320 ingest --rounds 1 --records 500000 --case "event x100,wide x12,shuffled x12,avro x12,divided x12,zstd x12,2 processes,4 processes,S3 x12"
  step deployments 150 420 deployments
  step log 15 15 log --rounds 3 --records 200000
  step replay 90 90 replay --rounds 2 --records 200000
  step deltalog 90 90 deltalog --rounds 2 --records 200000
  step broker 120 120 broker --rounds 1 --records 100000
  step reprocess 230 230 replay --case reprocess --rounds 1 --records 5000000
  step workers 90 90 replay --case workers --rounds 1 --records 400000
  # A name with a comma is in quotes of its own.
  commits='versitygw: delta-rs,versitygw: direct,versitygw: group of 3,"versitygw: group of 3, 1 writer","versitygw: group of 3, 256 writers"'
  commits+=',"versitygw: group of 3, early answers","versitygw: group of 3, early answers, 30 ms more a put",versitygw and dynalite: delta-rs 0.25.5'
  step committer 110 110 committer --rounds 1 --case "$commits"
  ! has 'pulsar/*/pulsar-broker-*.jar' || step pulsar 120 120 pulsar --rounds 2 --records 200000 # 234 MB: only `make pulsar` fetches them
fi
if [ "$spark" = 1 ]; then
  export LEDGERLAKE_SPARK=1
  daemon=() # it has run beside us above
  step spark 120 120 ingest --rounds 1 --records 600000 --case "event x12"
  step sparkreplay 120 120 replay --rounds 1 --records 200000
fi

notes=()
[ ${#left_out[@]} = 0 ] || notes+=(--note "Left out for time: $(IFS=,; echo "${left_out[*]}" | sed 's/,/, /g').")
reports=()
for name in drains goals matrix rates spark deployments tiering log replay sparkreplay workers reprocess deltalog committer broker pulsar; do
  [ ! -s "$out/reports/$name.json" ] || reports+=("$out/reports/$name.json")
done
soak=${SOAK_REPORT:-${LEDGERLAKE_CACHE:-.cache}/soak/report.json}
[ ${#reports[@]} = 0 ] || [ ! -s "$soak" ] || reports+=("$soak")
rm -rf "$out/page"
[ ${#reports[@]} = 0 ] || "$bin" bench report "${reports[@]}" "${notes[@]}" --out "$out/page"
printf '\n%d s; page: %s\n' "$SECONDS" "$out/page/README.md"
[ ${#failed[@]} = 0 ] || { echo "bench.sh: failed: ${failed[*]}" >&2; exit 1; }
