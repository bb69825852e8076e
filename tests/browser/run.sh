#!/usr/bin/env bash
# The page of `fieldseal load report` in Chromium.
#
#   FIELDSEAL=target/checked/fieldseal tests/browser/run.sh
#
# Needs Node 20 with npm; installs one pinned package. Where there is no Chromium and none can be installed, the tests say so and are skipped,
# but in CI (CI=true), where they fail.
# SCREENSHOTS=FOLDER keeps what they saw.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/browser
source "$here/../common.sh"
use_fieldseal
need_node

has_chromium() { [[ -n ${CHROMIUM:-} ]] || command -v chromium chromium-browser google-chrome >/dev/null; }
if ! has_chromium && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  echo '== browser: apt-get install chromium'
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null ||
    echo '== browser: it cannot be had here'
fi
install_npm tests/browser
node --test --test-reporter=spec "$here"/*.test.mjs
