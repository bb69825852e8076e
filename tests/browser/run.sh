#!/usr/bin/env bash
# In Chromium: the page of `leafseal load report`; the browser build of @leafseal/client, client-side tokens and the page of
# docs/start/browser.md with a running engine; the hosted service's SDK.
#
#   LEAFSEAL=target/checked/leafseal tests/browser/run.sh
#   EVERVAULT_SDK=FILE LEAFSEAL=… tests/browser/run.sh     also that SDK, whose script is in no package (sdk.test.mjs)
#
# Needs Node 20 with npm and Python 3.11 with venv; installs pinned packages. Where there is no Chromium and none can be installed, the tests
# say so and are skipped, but in CI (CI=true), where they fail. SCREENSHOTS=FOLDER keeps what they saw of reports.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/browser
source "$here/../common.sh"
use_leafseal
need_node
need_python

has_chromium() { [[ -n ${CHROMIUM:-} ]] || command -v chromium chromium-browser google-chrome >/dev/null; }
if ! has_chromium && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  echo '== browser: apt-get install chromium'
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null ||
    echo '== browser: it cannot be had here'
fi
install_npm tests/browser
install_npm bindings/node
install_python "$root/target/interop/venv" "$root/tests/interop/requirements.txt"
export PYTHON=$root/target/interop/venv/bin/python

echo '== browser: build @leafseal/client/browser'
node "$root/bindings/node/client/scripts/browser.mjs"
node --test --test-reporter=spec "$root"/bindings/node/client/test/browser*.test.mjs "$here"/*.test.mjs
