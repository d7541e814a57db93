#!/usr/bin/env bash
# Prepares a browser for `make e2e-page`: browser.sh prepare
# Needs Chromium at /usr/bin/chromium, or wherever LEDGERLAKE_CHROMIUM says (Debian: apt-get install chromium), and
# Node.js with npm. playwright-core goes to .cache/npm.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")
version=1.64.1
home=$cache/npm/playwright-$version

[ "${1:-}" = prepare ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[ -x "${LEDGERLAKE_CHROMIUM:-/usr/bin/chromium}" ] || { echo "browser.sh: Chromium is not installed" >&2; exit 1; }
command -v npm >/dev/null || { echo "browser.sh: npm is not installed" >&2; exit 1; }
if [ ! -e "$home/installed" ]; then
  mkdir -p "$home"
  npm install --prefix "$home" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "playwright-core@$version" >&2
  touch "$home/installed"
fi
echo "browser: ready"
