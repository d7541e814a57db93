#!/usr/bin/env bash
# Servers of cloud services for tests that come from npm, on 127.0.0.1 only:
# dynalite (the DynamoDB protocol) and azurite (Azure Blob Storage), both in memory or in one folder.
#
#   npm.sh prepare NAME           install the server into .cache/npm
#   npm.sh start NAME DIR PORT    returns when it answers
#   npm.sh stop NAME DIR          ends it at once; what it holds goes with DIR
#
# Any credentials do for dynalite. azurite has the account testaccount with the key dGVzdGtleQ==, which is
# "testkey". Needs Node.js 20 or newer.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")

fail() { echo "npm.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

choose() { # NAME: sets version, the newest that Node.js 20 runs
  case $1 in
    dynalite) version=4.0.0 ;;
    azurite) version=3.35.0 ;;
    *) fail "no server $1 is known: dynalite or azurite" ;;
  esac
  home=$cache/npm/$1-$version
}

prepare() { # NAME
  choose "$1"
  [ ! -e "$home/installed" ] || return 0
  command -v npm >/dev/null || fail "npm is not installed"
  mkdir -p "$cache/npm"
  (
    flock 9
    [ ! -e "$home/installed" ] || exit 0
    rm -rf "$home"
    mkdir -p "$home"
    # Pure JavaScript: nothing that a package would run at its installation is needed.
    npm install --prefix "$home" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "$1@$version" >&2
    touch "$home/installed"
  ) 9>"$cache/npm/lock" || fail "npm could not install $1@$version"
}

set_command() { # NAME DIR PORT
  choose "$1"
  [ -e "$home/installed" ] || fail "$1 is not installed: run 'npm.sh prepare $1'"
  case $1 in
    dynalite)
      server=(node "$home/node_modules/dynalite/cli.js" --host 127.0.0.1 --port "$3" --createTableMs 0 --path "$2/data") ;;
    azurite)
      server=(node "$home/node_modules/azurite/dist/src/blob/main.js" --blobHost 127.0.0.1 --blobPort "$3"
              --location "$2/data" --silent --skipApiVersionCheck --disableTelemetry) ;;
  esac
}

running() { # DIR: the pid file and the command line must both be ours
  pid=
  [ -s "$1/pid" ] || return 1
  read -r pid <"$1/pid"
  grep -qsz -F "$1/data" "/proc/$pid/cmdline"
}

start() { # NAME DIR PORT
  local dir _
  dir=$(realpath -m "$2")
  running "$dir" && return 0
  set_command "$1" "$dir" "$3"
  mkdir -p "$dir/data"
  AZURITE_ACCOUNTS=testaccount:dGVzdGtleQ== setsid "${server[@]}" </dev/null >"$dir/log" 2>&1 &
  echo $! >"$dir/pid"
  for _ in $(seq 2400); do
    (: <>"/dev/tcp/127.0.0.1/$3") 2>/dev/null && return 0
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { cat "$dir/log" >&2; fail "$1 ended at once"; }
    sleep 0.1
  done
  fail "$1 gave no answer within 240 s"
}

stop() { # DIR
  local dir _
  dir=$(realpath -m "$1")
  running "$dir" || return 0
  kill -KILL "$pid" || true
  for _ in $(seq 100); do running "$dir" || break; sleep 0.02; done
  rm -f "$dir/pid"
}

case ${1:-} in
  prepare) [ $# = 2 ] || usage; prepare "$2" ;;
  start) [ $# = 4 ] || usage; start "$2" "$3" "$4" ;;
  stop) [ $# = 3 ] || usage; stop "$3" ;;
  *) usage ;;
esac
