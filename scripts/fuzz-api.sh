#!/usr/bin/env bash
# Calls an engine's HTTPS API for SECONDS with what its own description allows, and with what it does not (schemathesis, pinned by
# tests/interop/requirements-fuzz.txt). Needs FIELDSEAL, the program's path, and Python 3.11.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?usage: scripts/fuzz-api.sh SECONDS}
: "${FIELDSEAL:?set FIELDSEAL to the path of the program}"
FIELDSEAL=$(cd "$(dirname "$FIELDSEAL")" && pwd)/$(basename "$FIELDSEAL")
export FIELDSEAL PYTHONDONTWRITEBYTECODE=1

for name in $(compgen -e FIELDSEAL_); do unset "$name"; done

place=$PWD/target/interop
wanted=$(python3 --version && cat tests/interop/requirements-fuzz.txt)
if [[ ! -f $place/fuzz.stamp || $(<"$place/fuzz.stamp") != "$wanted" ]]; then
  echo '== fuzz-api: install schemathesis'
  rm -rf "$place/fuzz" "$place/fuzz.stamp"
  mkdir -p "$place"
  python3 -m venv "$place/fuzz"
  "$place/fuzz/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r tests/interop/requirements-fuzz.txt
  printf '%s\n' "$wanted" >"$place/fuzz.stamp"
fi

echo "== fuzz-api: for $seconds seconds"
cd tests/interop
"$place/fuzz/bin/python" fuzz_api.py "$place/fuzz/bin/schemathesis" "$seconds"
