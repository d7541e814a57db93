#!/usr/bin/env bash
# A server of the Google Cloud Storage protocol in memory (fake-gcs-server), on 127.0.0.1 only.
#
#   fakegcs.sh prepare          build the server into .cache/bin
#   fakegcs.sh start DIR PORT   returns when it answers; it has one bucket, lake, and asks for no credentials
#   fakegcs.sh stop DIR
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
version=${FAKE_GCS_VERSION:-v1.56.1}
server=$cache/bin/fake-gcs-server

fail() { echo "fakegcs.sh: $*" >&2; exit 1; }

prepare() {
  [ ! -x "$server" ] || return 0
  command -v go >/dev/null || fail "go is not installed"
  mkdir -p "$cache/bin"
  # Outside of the module: its dependencies are none of ours.
  (cd "$cache" && GOFLAGS='' GOBIN=$cache/bin nice -n 10 go install "github.com/fsouza/fake-gcs-server@$version") \
    || fail "could not build $version"
}

running() { # DIR: the pid file and the command line must both be ours
  pid=
  [ -s "$1/pid" ] || return 1
  read -r pid <"$1/pid"
  grep -qsz -F "$1/data" "/proc/$pid/cmdline"
}

start() {
  local dir port=$2 _
  dir=$(realpath -m "$1")
  [ -x "$server" ] || fail "not built: run 'fakegcs.sh prepare'"
  mkdir -p "$dir/data/lake"
  touch "$dir/data/lake/.keep"
  running "$dir" && return 0
  # What lies in the data folder is loaded at the start: the bucket.
  setsid "$server" -scheme http -host 127.0.0.1 -port "$port" -backend memory -data "$dir/data" \
    -public-host "127.0.0.1:$port" -external-url "http://127.0.0.1:$port" -log-level error </dev/null >"$dir/log" 2>&1 &
  echo $! >"$dir/pid"
  for _ in $(seq 300); do
    (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return 0
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { cat "$dir/log" >&2; fail "it ended at once"; }
    sleep 0.1
  done
  fail "no answer within 30 s"
}

stop() {
  local dir _
  dir=$(realpath -m "$1")
  running "$dir" || return 0
  kill -TERM "$pid"
  for _ in $(seq 100); do running "$dir" || { rm -f "$dir/pid"; return 0; }; sleep 0.1; done
  kill -KILL "$pid" || true
  rm -f "$dir/pid"
}

case ${1:-} in
  prepare) prepare ;;
  start) [ $# = 3 ] || fail "usage: start DIR PORT"; start "$2" "$3" ;;
  stop) stop "${2:?DIR}" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
