# Sourced by the scripts of servers that the Go module proxy has (fakegcs.sh, versitygw.sh). They set
#   name module version
# and define launch DATA PORT, which ends in `exec`; the verbs prepare, start DIR PORT and stop DIR are here.
# Objects lie in DIR/data; the server listens on 127.0.0.1 only.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
server=$cache/bin/$name

fail() { echo "${0##*/}: $*" >&2; exit 1; }

prepare() {
  [ ! -x "$server" ] || return 0
  command -v go >/dev/null || fail "go is not installed"
  mkdir -p "$cache/bin"
  # Outside of the module: its dependencies are none of ours.
  (cd "$cache" && GOFLAGS='' GOBIN=$cache/bin nice -n 10 go install "$module@$version") || fail "could not build $version"
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
  [ -x "$server" ] || fail "not built: run '${0##*/} prepare'"
  mkdir -p "$dir/data"
  running "$dir" && return 0
  launch "$dir/data" "$port" </dev/null >"$dir/log" 2>&1 &
  echo $! >"$dir/pid"
  for _ in $(seq 2400); do
    (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return 0
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { cat "$dir/log" >&2; fail "it ended at once"; }
    sleep 0.1
  done
  fail "no answer within 240 s"
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
