#!/usr/bin/env bash
# h2spec, the public conformance tool for HTTP/2, against the relay's TLS listener.
#
#   LEAFSEAL=target/release/leafseal tests/conformance/h2spec.sh [h2spec arguments]
#
# Needs Go 1.25 and Python 3.11. Builds the pinned h2spec once, below target/conformance. Prints what h2spec
# prints, and exits with 1 where a case fails, or none was run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/conformance
source "$here/../common.sh"
place=$root/target/conformance

[[ ${1:-} != --help ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0; }
use_leafseal
need_python
install_python "$root/target/interop/venv" "$here/../interop/requirements.txt"

if [[ ! -x $place/h2spec ]]; then
  command -v go >/dev/null || die 'install Go 1.25 or newer'
  mkdir -p "$place"
  (cd "$here/h2spec" && go build -mod=mod -o "$place/h2spec" github.com/summerwind/h2spec/cmd/h2spec)
fi
exec "$root/target/interop/venv/bin/python" "$here/h2spec.py" "$place/h2spec" "$@"
