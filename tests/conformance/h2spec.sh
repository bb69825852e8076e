#!/usr/bin/env bash
# h2spec, the public conformance tool for HTTP/2, against the relay's TLS listener.
#
#   FIELDSEAL=target/release/fieldseal tests/conformance/h2spec.sh [h2spec arguments]
#
# Needs Go 1.25 and what tests/interop/run.sh needs. Builds the pinned h2spec once, below target/conformance. Prints what h2spec
# prints, and exits with 1 where a case fails that docs/relay-conformance.md does not explain.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
place=$root/target/conformance

die() {
  echo "tests/conformance: $1" >&2
  exit 2
}

[[ ${1:-} != --help ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0; }
[[ -x ${FIELDSEAL:-} ]] || die 'set FIELDSEAL to the path of the program'
FIELDSEAL=$(cd "$(dirname "$FIELDSEAL")" && pwd)/$(basename "$FIELDSEAL")
export FIELDSEAL PYTHONDONTWRITEBYTECODE=1
python=$root/target/interop/venv/bin/python
[[ -x $python ]] || die 'run tests/interop/run.sh first: it installs the Python packages'

if [[ ! -x $place/h2spec ]]; then
  command -v go >/dev/null || die 'install Go 1.25 or newer'
  mkdir -p "$place"
  (cd "$here/h2spec" && go build -mod=mod -o "$place/h2spec" github.com/summerwind/h2spec/cmd/h2spec)
fi
exec "$python" "$here/h2spec.py" "$place/h2spec" "$@"
