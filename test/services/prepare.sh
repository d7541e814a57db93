#!/usr/bin/env bash
# Installs the services of the end-to-end tests into .cache: prepare.sh
#
# One line for each says whether it is there. What is missing skips its tests, with the reason; with
# CI=true it ends the run instead, so that CI never passes by testing less.
# What comes over the network is tried three times in CI, where nobody is there to try it again.
# The S3 and Google servers cost minutes to build: they are built in CI, or when LEDGERLAKE_S3=1 asks for it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
mkdir -p "$cache"
missing=0

try() { # NAME TESTS COMMAND...
  local name=$1 tests=$2 log=$cache/prepare-$1.log pauses=() pause
  shift 2
  [ "${CI:-}" != true ] || pauses=(10 30)
  for pause in "${pauses[@]}" ''; do
    if "$@" >"$log" 2>&1; then
      echo "$name: ready"
      return
    fi
    [ -z "$pause" ] || { echo "$name: $(tail -n 1 "$log"); again in $pause s"; sleep "$pause"; }
  done
  echo "$name: MISSING, so $tests will be skipped: $(tail -n 1 "$log") (all of it: .cache/${log##*/})"
  missing=1
}

try python "foreign readers and Python clients" "$here/venv.sh"
try kafka "real Kafka and its Java tools" "$here/kafka.sh" prepare
try dynalite "the lock table of versions" "$here/npm.sh" prepare dynalite
try python-dynamo "delta-rs beside us on the lock table" "$here/venv.sh" dynamo
try python-formats "values written by other software" "$here/venv.sh" formats
try azurite "the Azure store" "$here/npm.sh" prepare azurite
if [ "${CI:-}" = true ] || [ -n "${LEDGERLAKE_S3:-}" ] || [ -x "$cache/bin/versitygw" ]; then
  try versitygw "the S3 server's tests" "$here/versitygw.sh" prepare
  try fake-gcs "the Google store" "$here/fakegcs.sh" prepare
else
  echo "versitygw, fake-gcs: not built (LEDGERLAKE_S3=1 or CI=true builds it), so the tests of S3 and Google stores will be skipped"
fi

if [ "$missing" = 1 ] && [ "${CI:-}" = true ]; then
  echo "services: CI=true, and one is missing" >&2
  exit 1
fi
