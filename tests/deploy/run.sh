#!/usr/bin/env bash
# The files below deploy/: the chart for Kubernetes, Envoy's configuration, the Compose file, alert rules and dashboard. Helm, Envoy, the
# loader of Docker Compose and Prometheus read them. Prometheus also runs the queries of the dashboard; no test starts Grafana, a container
# or a cluster.
#
#   LEAFSEAL=target/checked/leafseal tests/deploy/run.sh [pytest arguments]
#   UPDATE=1 LEAFSEAL=… tests/deploy/run.sh     writes deploy/kubernetes/leafseal.yaml and deploy/grafana/leafseal.json again
#
# Needs Python 3.11 with venv, Node 20 with npm, and Prometheus with promtool. Go 1.24 checks the Compose file; without it that test is
# skipped, and fails in CI (CI=true). Helm, kubectl and Envoy come from pinned packages, which are for Linux on x86-64 alone for Helm.
# Everything is installed once, below target and node_modules. The tests reach nothing but 127.0.0.1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/deploy
source "$here/../common.sh"
source "$here/tools.sh"
use_leafseal
need_python
need_node
command -v prometheus >/dev/null && command -v promtool >/dev/null || die 'install Prometheus with promtool, or run make setup'

install_python "$built/venv" "$here/requirements.txt"
install_helm
install_envoy
if has_go; then build_compose; fi

echo '== deploy: pytest'
export PYTHONPATH=$here/../interop
PYTEST_VENV=$built/venv run_pytest --rootdir "$here" -n 2 --dist loadfile "$here"/test_*.py "$@"
