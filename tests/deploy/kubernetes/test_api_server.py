"""The manifests against a real API server of Kubernetes."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import test_chart
from files import DEPLOY, NAMESPACE, manifests, only, program, rendered, run
from ports import free_ports

PATIENCE_SECONDS = 240
TOKEN = "administrator"
# The files of custom resources that the chart uses.
DEFINITIONS = {
    "cert-manager.io_certificates.yaml",
    "cert-manager.io_issuers.yaml",
    "monitoring.coreos.com_servicemonitors.yaml",
    "monitoring.coreos.com_prometheusrules.yaml",
}


@dataclass(frozen=True)
class Cluster:
    """An API server. `flags` of kubectl connect to it."""

    flags: tuple[str, ...]

    def kubectl(self, *arguments: str | Path, stdin: str = "", code: int = 0) -> str:
        """Standard output, or standard error if it must fail."""
        out, errors = run(program("KUBECTL"), *self.flags, *arguments, stdin=stdin, code=code)
        return errors if code else out

    def dry_run(self, text: str, code: int = 0) -> str:
        return self.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", stdin=text, code=code)

    def answers(self) -> bool:
        command = [program("KUBECTL"), *self.flags, "get", "--raw", "/readyz"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def started(stack: ExitStack, log: Path, *command: str) -> None:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    stack.callback(process.wait)
    stack.callback(process.kill)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With the custom resources and the namespace of the engines."""
    folder = tmp_path_factory.mktemp("cluster")
    client, peer, port = free_ports(3)
    key = folder / "accounts.key"
    run("openssl", "genrsa", "-out", key, "2048")
    (folder / "tokens.csv").write_text(f"{TOKEN},administrator,1,system:masters\n")
    etcd = f"http://127.0.0.1:{client}"
    with ExitStack() as stack:
        started(
            stack, folder / "etcd.log", "etcd", f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )  # fmt: skip
        started(
            stack, folder / "apiserver.log", program("KUBE_APISERVER"), f"--etcd-servers={etcd}", "--bind-address=127.0.0.1",
            f"--secure-port={port}", f"--cert-dir={folder / 'certs'}", "--authorization-mode=RBAC", f"--token-auth-file={folder / 'tokens.csv'}",
            "--service-account-issuer=https://localhost", f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
        )  # fmt: skip
        server = Cluster((f"--server=https://127.0.0.1:{port}", "--insecure-skip-tls-verify", f"--token={TOKEN}", f"--cache-dir={folder / 'cache'}"))
        wait_for(folder / "apiserver.log", server.answers)
        files = [Path(place) / name for place in program("CRDS").split(":") for name in sorted(os.listdir(place)) if name in DEFINITIONS]
        assert {file.name for file in files} == DEFINITIONS
        for file in files:
            server.kubectl("apply", "--server-side", f"--filename={file}")
        server.kubectl("wait", "--for=condition=Established", "--all", "customresourcedefinitions", f"--timeout={PATIENCE_SECONDS}s")
        server.kubectl("apply", "--server-side", "--validate=strict", f"--filename={DEPLOY / 'kubernetes/namespace.yaml'}")
        yield server


def wait_for(log: Path, holds) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


@pytest.mark.parametrize("variant", sorted(test_chart.VARIANTS))
def test_the_api_server_accepts_every_manifest(cluster: Cluster, variant: str) -> None:
    text = rendered(*test_chart.VARIANTS[variant])
    accepted = cluster.dry_run(text)
    assert accepted.count("serverside-applied (server dry run)") == len(manifests(text)), accepted


def test_the_plain_manifests_are_applied_and_stay_the_same(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "--validate=strict", f"--kustomize={DEPLOY / 'kubernetes'}")
    kept = json.loads(cluster.kubectl("get", "deployment,service,networkpolicy,pdb,hpa,certificate,servicemonitor,prometheusrule", "--output=json", f"--namespace={NAMESPACE}"))
    kinds = sorted(item["kind"] for item in kept["items"])
    assert kinds == sorted([
        "Certificate", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule",
        "Service", "Service", "ServiceMonitor",
    ])  # fmt: skip
    # What the server has dropped or defaulted otherwise would differ from the file.
    assert cluster.kubectl("diff", "--server-side", f"--kustomize={DEPLOY / 'kubernetes'}") == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("image: registry", "imagee: registry"), '.spec.template.spec.containers[name="engine"].imagee: field not declared in schema'),
        (("maxUnavailable: 1", "maxUnavailable: x%"), "maxUnavailable"),
        (("algorithm: ECDSA", "algorithm: DSA"), "spec.privateKey.algorithm"),
        (("jobLabel:", "jobLabell:"), "jobLabell"),
        (("name: engine", "name: En gine"), "spec.template.spec.containers[0].name"),
    ],
)  # fmt: skip
def test_the_api_server_refuses_faults(cluster: Cluster, change: tuple[str, str], reason: str) -> None:
    text = rendered()
    assert change[0] in text
    assert reason in cluster.dry_run(text.replace(*change, 1), code=1)


def pod(chart: str, **changes: object) -> str:
    """The pod that the Deployment would create, with changes of its container's security context."""
    template = only(manifests(chart), "Deployment")["spec"]["template"]
    template["spec"]["containers"][0]["securityContext"] |= changes
    metadata = {"name": "engine", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})


@pytest.mark.parametrize("variant", sorted(set(test_chart.VARIANTS) - {"most"}))
def test_pods_are_admitted_by_the_restricted_standard(cluster: Cluster, variant: str) -> None:
    account = only(manifests(rendered()), "ServiceAccount")
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump(account))
    made = cluster.kubectl("create", "--dry-run=server", "--output=json", "--filename=-", stdin=pod(rendered(*test_chart.VARIANTS[variant])))
    spec = json.loads(made)["spec"]
    # The server adds a volume with a token unless the pod declines it.
    assert not [volume for volume in spec["volumes"] if "projected" in volume]


@pytest.mark.parametrize(
    "change", [{"privileged": True}, {"allowPrivilegeEscalation": True}, {"capabilities": {"drop": []}}, {"runAsUser": 0}, {"runAsNonRoot": False}]
)
def test_other_pods_are_refused(cluster: Cluster, change: dict) -> None:
    refusal = cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=pod(rendered(), **change), code=1)
    assert "violates PodSecurity" in refusal or "Invalid value" in refusal or "cannot set" in refusal, refusal
