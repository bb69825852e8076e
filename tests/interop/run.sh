#!/usr/bin/env bash
# Other people's software against Fieldseal: the real SDKs, an independent decryptor, and a client written from the protocol's
# documentation.
#
#   FIELDSEAL=target/checked/fieldseal tests/interop/run.sh [pytest arguments]
#
# Needs Python 3.11 with venv, Node 20 with npm, and curl with HTTP/2. Installs pinned packages once, below target/interop and
# node_modules. The tests themselves talk to 127.0.0.1 alone.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
place=$root/target/interop

die() {
  echo "tests/interop: $1" >&2
  exit 2
}

[[ -n ${FIELDSEAL:-} ]] || die 'set FIELDSEAL to the path of the program, as `make test` does'
[[ -x $FIELDSEAL ]] || die "$FIELDSEAL is no program: build it first (cargo build --profile checked --package fieldseal-cli)"
FIELDSEAL=$(cd "$(dirname "$FIELDSEAL")" && pwd)/$(basename "$FIELDSEAL")
export FIELDSEAL
command -v python3 >/dev/null || die 'install Python 3.11 or newer'
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die 'needs Python 3.11 or newer'
[[ $(curl --version 2>/dev/null) == *HTTP2* ]] || die 'install curl with HTTP/2'
command -v npm >/dev/null || die 'install Node 20 or newer with npm'
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || die 'needs Node 20 or newer'

# Settings of the caller's engine would change what is tested.
for name in $(compgen -e FIELDSEAL_); do unset "$name"; done
export PYTHONDONTWRITEBYTECODE=1 NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost

# is_fresh STAMP TEXT: whether the last installation that came to its end was of the same packages.
is_fresh() { [[ -f $1 && $(<"$1") == "$2" ]]; }

mkdir -p "$place"
wanted=$(python3 --version && cat "$here/requirements.txt")
if ! is_fresh "$place/venv.stamp" "$wanted"; then
  echo '== interop: install the Python packages'
  rm -rf "$place/venv" "$place/venv.stamp"
  python3 -m venv "$place/venv"
  "$place/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$here/requirements.txt"
  printf '%s\n' "$wanted" >"$place/venv.stamp"
fi
export PYTHON=$place/venv/bin/python

wanted=$(node --version && cat "$here/node/package-lock.json")
if ! is_fresh "$place/node.stamp" "$wanted" || [[ ! -d $here/node/node_modules ]]; then
  echo '== interop: install the Node packages'
  rm -f "$place/node.stamp"
  npm ci --prefix "$here/node" --ignore-scripts --no-audit --no-fund --loglevel=error
  printf '%s\n' "$wanted" >"$place/node.stamp"
fi

# Both run even when the first fails: one run tells all.
status=0
echo '== interop: pytest'
"$PYTHON" -m pytest -c "$here/pytest.ini" --rootdir "$here" "$here" "$@" || status=$?
echo '== interop: node --test'
node --test --test-reporter=spec "$here"/node/*.test.mjs || status=$?
exit "$status"
