#!/usr/bin/env bash
# The manifests of deploy/kubernetes and of the chart against a real API server of Kubernetes with etcd: strict server-side validation, the
# definitions of the custom resources, and admission by the Pod Security Standard `restricted`.
#
#   tests/deploy/kubernetes.sh [pytest arguments]
#
# Needs what run.sh needs, Go 1.25 and etcd. Builds the API server once, below target/deploy: about 12 minutes on two cores. Nothing runs
# in the cluster: it has no nodes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/deploy
source "$here/../common.sh"
source "$here/tools.sh"
need_python
need_node
has_go || die 'install Go 1.25 or newer'
command -v etcd >/dev/null || die 'install etcd, or run scripts/setup.sh kubernetes'

install_python "$built/venv" "$here/requirements.txt"
install_helm
install_go kubernetes kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
export KUBE_APISERVER=$built/kube-apiserver

# module MODULE: the folder of a module in crds/go.mod, checked against go.sum.
module() { (cd "$here/crds" && GOFLAGS=-mod=mod go mod download "$1" && GOFLAGS=-mod=mod go list -m -f '{{.Dir}}' "$1"); }
CRDS=$(module github.com/cert-manager/cert-manager)/deploy/crds
CRDS+=:$(module github.com/prometheus-operator/prometheus-operator)/example/prometheus-operator-crd
export CRDS

echo '== kubernetes: pytest'
export PYTHONPATH=$here:$here/../interop
PYTEST_VENV=$built/venv run_pytest --rootdir "$here" "$here/kubernetes" "$@"
