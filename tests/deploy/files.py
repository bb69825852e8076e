"""The files below deploy/, and the programs that read them."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/leafseal"
PLAIN = DEPLOY / "kubernetes/leafseal.yaml"
NAMESPACE = "leafseal"
SECONDS_MAX = 300
"""Longer than any command here takes on a busy machine."""

Manifest = dict


def program(variable: str) -> str:
    """The path in an environment variable of run.sh. Without it the test is skipped, or fails in CI."""
    path = os.environ.get(variable)
    if not path:
        assert not os.environ.get("CI"), f"{variable} is not set: run tests/deploy/run.sh"
        pytest.skip(f"{variable} is not set")
    return path


def run(*command: str | Path, stdin: str = "", code: int = 0, environment: dict[str, str] | None = None) -> tuple[str, str]:
    """Returns standard output and standard error of a command that must end with `code`."""
    done = subprocess.run(
        [str(part) for part in command], input=stdin, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=environment
    )
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def rendered(*flags: str) -> str:
    """The chart's manifests with default values, or with those that `flags` set."""
    return run(program("HELM"), "template", "leafseal", CHART, "--namespace", NAMESPACE, *flags)[0]


def refused(*flags: str) -> str:
    """The reason why Helm refuses values."""
    return run(program("HELM"), "template", "leafseal", CHART, "--namespace", NAMESPACE, *flags, code=1)[1]


def manifests(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def only(found: list[Manifest], kind: str, name: str = "leafseal") -> Manifest:
    """The one manifest of this kind and name."""
    [manifest] = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return manifest
