#!/usr/bin/env bash
# Looks for rare seeds: runs the random tests of some packages again and again, each time with new seeds.
#
#   seeds.sh DIR MINUTES FOLDER...   folders of packages whose tests use internal/seedtest
#
# DIR takes the test binaries, and the whole output of each run that failed. Run it at the top of the repository. As many
# packages run at a time as there are processors, with -short, since many short runs see more than a long one; what began in
# time ends by itself.
set -euo pipefail

dir=$(realpath -m "${1:?DIR}"); minutes=${2:?MINUTES}; shift 2
unset CI LEDGERLAKE_SEED LEDGERLAKE_SEEDS
mkdir -p "$dir"
rm -f "$dir"/*.log "$dir"/*.failed

# seeded prints the pattern of the tests in some files that use seedtest, themselves or through other functions.
seeded() {
  awk '/^func / { f = $0; sub(/^func (\([^)]*\) )?/, "", f); sub(/[^A-Za-z0-9_].*/, "", f) }
    { body[f] = body[f] " " $0 }
    END {
      users = "seedtest[.](New|Each|Range)"
      do {
        more = 0
        for (f in body) if (f != "" && !(f in uses) && body[f] ~ "[^A-Za-z0-9_](" users ")[(]") { more = uses[f] = 1; users = users "|" f }
      } while (more)
      for (f in uses) if (f ~ /^Test/) tests = tests "|" f
      print "^(" substr(tests, 2) ")$"
    }' "$@"
}

# of_failed prints what `test -v` wrote of the tests that did not end well.
of_failed() {
  awk '/^=== / { test = $3; sub("/.*", "", test); next }
    /^--- (PASS|SKIP): / { delete text[$3]; next }
    /^ +--- (PASS|SKIP): |^(PASS|FAIL)$/ { next }
    { text[test] = text[test] $0 "\n" }
    END { for (test in text) printf "%s", text[test] }' "$1"
}

build() {
  local base
  base=$dir/$(tr / _ <<<"${1#./}")
  go test -c -o "$base.test" "$1"
  seeded "$1"/*_test.go >"$base.tests"
}

# once runs a package, unless time is over.
once() {
  [ "$(date +%s)" -lt "$end" ] || exit 255 # which ends xargs
  local base log
  base=$dir/$(tr / _ <<<"${1#./}")
  log=$(mktemp "$base.XXXXXX.log")
  if (cd "$1" && "$base.test" -test.short -test.v -test.timeout 10m -test.run "$(<"$base.tests")") >"$log" 2>&1; then
    rm "$log"
    echo "$1" >>"$dir/passed.log"
  else
    mv "$log" "${log%.log}.failed"
    printf '\n== %s failed; all of its output is in %s\n%s\n' "$1" "${log%.log}.failed" "$(of_failed "${log%.log}.failed")"
  fi
}

export -f build once seeded of_failed
export dir
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -euc 'build {}'
export end=$(($(date +%s) + minutes * 60))
printf 'the random tests of %d packages, for %d minutes\n' $# "$minutes"
(while shuf -e "$@"; do :; done | xargs -P "$(nproc)" -I{} bash -c 'once {}') 2>/dev/null || true # until xargs ends

failed=$(find "$dir" -name '*.failed' | wc -l)
printf '%d runs passed, %d failed\n' "$(cat "$dir/passed.log" 2>/dev/null | wc -l)" "$failed"
[ "$failed" = 0 ] && [ -s "$dir/passed.log" ]
