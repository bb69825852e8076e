#!/usr/bin/env bash
# Calls an engine's HTTPS API for SECONDS with what its own description allows, and with what it does not (schemathesis, pinned by
# tests/interop/requirements-fuzz.txt). Needs LEAFSEAL, the program's path, and Python 3.11.
set -euo pipefail
suite=fuzz-api
source "$(dirname "${BASH_SOURCE[0]}")/../tests/common.sh"
cd "$root"

seconds=${1:?usage: scripts/fuzz-api.sh SECONDS}
use_leafseal
need_python
place=$root/target/interop
# The engine is started by the code of the other tests, which needs their packages.
install_python "$place/venv" tests/interop/requirements.txt
install_python "$place/fuzz" tests/interop/requirements-fuzz.txt

echo "== fuzz-api: for $seconds seconds"
cd tests/interop
"$place/venv/bin/python" fuzz_api.py "$place/fuzz/bin/schemathesis" "$seconds"
