#!/usr/bin/env bash
# The Node packages: the wire bindings and the engine for Artillery, with Artillery itself, against a running engine.
#
#   LEAFSEAL=target/checked/leafseal tests/artillery/run.sh
#   FULL=1 LEAFSEAL=… tests/artillery/run.sh     the published scenario for its 90 seconds, on port 3443
#   LEAFSEAL=… tests/artillery/run.sh compare    a benchmark: latencies under Artillery and `leafseal load` (compare.mjs)
#
# Needs Node 20 with npm, and Rust for the bindings (PROFILE names cargo's profile, checked by default). Installs pinned packages
# into the packages' own node_modules/, again only when a lock file has changed. The tests reach nothing but 127.0.0.1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/artillery
source "$here/../common.sh"
use_leafseal
need_node
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 PUPPETEER_SKIP_DOWNLOAD=1

install_npm bindings/node
install_npm artillery-engine-e3
install_npm tests/artillery

echo '== artillery: build @leafseal/wire and artillery-engine-e3'
node "$root/bindings/node/wire/scripts/build.mjs" "${PROFILE:-checked}"
npm run --silent --prefix "$root/artillery-engine-e3" build
npm run --silent --prefix "$root/artillery-engine-e3" lint

if [[ ${1:-} == compare ]]; then
  exec node "$here/compare.mjs"
fi

# All run even when one fails, so that one run shows every failure.
status=0
echo '== artillery: node --test'
node --test --test-reporter=spec "$root"/bindings/node/wire/test/*.test.mjs "$root"/artillery-engine-e3/test/*.test.mjs "$here"/*.test.mjs ||
  status=$?
exit "$status"
