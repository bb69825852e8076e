#!/usr/bin/env bash
# Other people's software against Leafseal: the real SDKs, an independent decryptor, and a client written from the protocol's
# documentation.
#
#   LEAFSEAL=target/checked/leafseal tests/interop/run.sh [pytest arguments]
#   LEAFSEAL=target/release/leafseal tests/interop/run.sh silent      a benchmark: ports beside silent connections
#
# Needs Python 3.11 with venv, Node 20 with npm, and curl with HTTP/2. Installs pinned packages once, below target/interop and
# node_modules. The tests themselves talk to 127.0.0.1 alone.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/interop
source "$here/../common.sh"
use_leafseal
need_python
need_node
[[ $(curl --version 2>/dev/null) == *HTTP2* ]] || die 'install curl with HTTP/2'

install_python "$root/target/interop/venv" "$here/requirements.txt"
install_npm tests/interop/node
install_envoy
install_openbao
install_moto
build_tpm2_program
build_example symmetric_lines
export PYTHON=$root/target/interop/venv/bin/python
install_python "$root/target/interop/tls" "$here/requirements-tls.txt"
export TLS_PYTHON=$root/target/interop/tls/bin/python

if [[ ${1:-} == silent ]]; then
  shift
  exec "$PYTHON" "$root/benches/silent_connections.py" "$@"
fi

# Both run even when the first fails, so that one run shows every failure. Three processes, each with files of its own: the tests wait more
# than they compute. `-n 0` runs them one after the other.
status=0
echo '== interop: pytest'
run_pytest --rootdir "$here" -n 3 --dist loadfile "$here" "$@" || status=$?
echo '== interop: node --test'
node --test --test-reporter=spec "$here"/node/*.test.mjs || status=$?
exit "$status"
