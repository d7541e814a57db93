#!/usr/bin/env bash
# A real S3 server with conditional writes (versitygw on a directory), on 127.0.0.1 only.
#
#   versitygw.sh prepare          build the server into .cache/bin (about four minutes of CPU, once)
#   versitygw.sh start DIR PORT   returns when it answers; objects lie in DIR/data, a bucket is a folder there
#   versitygw.sh stop DIR
#
# Access key testkey, secret testsecret, region us-east-1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
version=${VERSITYGW_VERSION:-v1.8.0}
server=$cache/bin/versitygw

fail() { echo "versitygw.sh: $*" >&2; exit 1; }

prepare() {
  [ ! -x "$server" ] || return 0
  command -v go >/dev/null || fail "go is not installed"
  mkdir -p "$cache/bin"
  # Outside of the module: its dependencies are none of ours.
  (cd "$cache" && GOFLAGS='' GOBIN=$cache/bin nice -n 10 go install "github.com/versity/versitygw/cmd/versitygw@$version") \
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
  [ -x "$server" ] || fail "not built: run 'versitygw.sh prepare'"
  mkdir -p "$dir/data"
  running "$dir" && return 0
  setsid "$server" --port "127.0.0.1:$port" --access testkey --secret testsecret --region us-east-1 \
    --quiet --keep-alive posix "$dir/data" </dev/null >"$dir/log" 2>&1 &
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
