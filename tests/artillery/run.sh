#!/usr/bin/env bash
# The Node packages: the wire bindings and the engine for Artillery, with Artillery itself, against a running engine.
#
#   FIELDSEAL=target/checked/fieldseal tests/artillery/run.sh
#   FULL=1 FIELDSEAL=… tests/artillery/run.sh     the published scenario for its 90 seconds, on port 3443
#
# Needs Node 20 with npm, and Rust for the bindings (PROFILE names cargo's profile, checked by default). Installs pinned packages
# into the packages' own node_modules/, again only when a lock file has changed. The tests reach nothing but 127.0.0.1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
stamps=$root/target/artillery

die() {
  echo "tests/artillery: $1" >&2
  exit 2
}

[[ -n ${FIELDSEAL:-} ]] || die 'set FIELDSEAL to the path of the program, as `make test` does'
[[ -x $FIELDSEAL ]] || die "$FIELDSEAL is no program: build it first (cargo build --profile checked --package fieldseal-cli)"
FIELDSEAL=$(cd "$(dirname "$FIELDSEAL")" && pwd)/$(basename "$FIELDSEAL")
export FIELDSEAL
command -v npm >/dev/null || die 'install Node 20 or newer with npm'
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || die 'needs Node 20 or newer'

# Settings of the caller's engine would change what is tested.
for name in $(compgen -e FIELDSEAL_); do unset "$name"; done
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 PUPPETEER_SKIP_DOWNLOAD=1

# install FOLDER: what its lock file names, unless that is there.
install() {
  local folder=$1 stamp=$stamps/${1//\//-}.stamp wanted
  wanted=$(node --version && cat "$root/$folder/package-lock.json")
  if [[ -d $root/$folder/node_modules && -f $stamp && $(<"$stamp") == "$wanted" ]]; then return; fi
  echo "== artillery: install the packages of $folder"
  rm -f "$stamp"
  npm ci --prefix "$root/$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
  printf '%s\n' "$wanted" >"$stamp"
}

mkdir -p "$stamps"
install bindings/node
install artillery-engine-e3
install tests/artillery

echo '== artillery: build @fieldseal/wire and artillery-engine-e3'
node "$root/bindings/node/scripts/build.mjs" "${PROFILE:-checked}"
npm run --silent --prefix "$root/artillery-engine-e3" build
npm run --silent --prefix "$root/artillery-engine-e3" lint

# All run even when one fails: one run tells all.
status=0
echo '== artillery: node --test'
node --test --test-reporter=spec "$root"/bindings/node/test/*.test.mjs "$root"/artillery-engine-e3/test/*.test.mjs "$here"/*.test.mjs ||
  status=$?
exit "$status"
