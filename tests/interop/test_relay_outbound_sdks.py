"""The real SDKs through the outbound relay."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from relay_outbound import ALL, APP, SECONDS_MAX, Setting, setting, upstream
from upstream import Upstream, ok, wait_until

HERE = Path(__file__).parent
DATA = {"card": "4242 4242", "amount": 12.5, "ok": True, "list": [1, {"deep": "é"}]}


def _run(command: list[str], environment: dict[str, str], task: dict[str, object]) -> dict[str, object]:
    done = subprocess.run(
        command, env=environment, input=json.dumps(task).encode(), capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def _relay_environment(setting: Setting, key: str) -> dict[str, str]:
    tunnel = f"https://localhost:{setting.port('proxy')}"
    return {"APP": APP, "KEY": key, "EV_TUNNEL_HOSTNAME": tunnel, "EV_CERT_HOSTNAME": setting.api.url}


def node(setting: Setting, task: dict[str, object], key: str | None = None) -> dict[str, object]:
    """Runs the Node SDK, configured by environment variables."""
    program = shutil.which("node")
    assert program
    environment = {**os.environ, **_relay_environment(setting, key or setting.key), "EV_API_URL": setting.api.url}
    # Not NODE_EXTRA_CA_CERTS: Node forgets those where an authority is added to a context, as the SDK adds the relay's.
    environment |= {"NODE_OPTIONS": "--use-openssl-ca", "SSL_CERT_FILE": str(setting.api.ca)}
    return _run(
        [program, str(HERE / "node" / "outbound_calls.mjs")],
        environment,
        {"url": setting.url("/charge/1"), "data": DATA, **task},
    )


def python(setting: Setting, folder: Path, task: dict[str, object], key: str | None = None) -> dict[str, object]:
    """Runs the Python SDK in the same way; its bundle contains the authority of our servers."""
    environment = {**setting.api.trusting_python(folder), **_relay_environment(setting, key or setting.key)}
    program = os.environ.get("PYTHON", "python3")
    task = {
        "url": setting.url("/charge/1"),
        "data": DATA,
        "mode": "domains",
        "domains": [f"localhost:{setting.upstream.port}"],
        **task,
    }
    return _run([program, str(HERE / "outbound_calls.py")], environment, task)


def check_charge(setting: Setting, upstream: Upstream, outcome: dict[str, object], data: object = DATA) -> None:
    """The destination got values, the application got an envelope, and the key stayed between."""
    assert "error" not in outcome, outcome
    assert "ev:" in json.dumps(outcome["sealed"]) and "4242" not in json.dumps(outcome["sealed"])
    received = upstream.only()
    assert json.loads(received.body) == data
    assert received.values("Proxy-Authorization") == []
    assert setting.key.encode() not in received.head + received.body
    assert outcome["status"] == 200
    answer = json.loads(outcome["body"])
    assert answer["token"].startswith("ev:")
    assert json.loads(setting.leafseal.decrypt(APP, json.dumps([answer["token"]]).encode())) == ["tok_1"]


@pytest.mark.parametrize("mode", ["agent", "global", "domains"])
def test_node_sdk(setting: Setting, upstream: Upstream, mode: str) -> None:
    """`global` uses the destinations that the API returns."""
    check_charge(setting, upstream, node(setting, {"mode": mode}))


def test_python_sdk(setting: Setting, upstream: Upstream, tmp_path: Path) -> None:
    check_charge(setting, upstream, python(setting, tmp_path, {}))


def test_python_sdk_uses_the_configuration_of_the_api(setting: Setting, upstream: Upstream, tmp_path: Path) -> None:
    """The SDK compares a destination with host and port as they stand in the address: `*`, which it takes for every name, is one that a
    test can serve. The API returns it once its engine has reloaded the relay's file."""
    file = setting.leafseal.folder / "relay.toml"
    text = file.read_text()

    def configure(content: str, domains: list[str]) -> None:
        file.write_text(content)
        setting.engine.send_signal(signal.SIGHUP)
        wait_until(lambda: destinations(setting) == domains)

    before = destinations(setting)
    every = ["*" if domain == "*.example.test" else domain for domain in before]
    configure(text.replace('hosts = ["*.example.test"]', 'hosts = ["*"]'), every)
    try:
        check_charge(setting, upstream, python(setting, tmp_path, {"mode": "config"}))
        # With an invalid file the previous configuration stays in effect.
        file.write_text("[engine\n")
        setting.engine.send_signal(signal.SIGHUP)
        wait_until(lambda: "the API announces no relay" in setting.api.log.read_text())
        assert destinations(setting) == every
    finally:
        configure(text, before)


def destinations(setting: Setting) -> list[str]:
    """The configuration that the API returns to the SDKs."""
    answer = setting.api.curl("/v2/relay-outbound", "-H", f"Api-Key: {setting.key}")
    return [destination["destinationDomain"] for destination in answer.json["outboundDestinations"].values()]


@pytest.mark.parametrize("mode", ["agent", "global"])
def test_node_sdk_with_a_wrong_key(setting: Setting, upstream: Upstream, mode: str) -> None:
    """Without the API (which would refuse the key first): the envelope is there already."""
    outcome = node(setting, {"mode": "domains" if mode == "global" else mode, "plain": True}, key="wrong-key")
    assert (outcome.get("status"), json.loads(outcome["body"])["code"]) == (407, "unauthorized")
    assert upstream.saw_nothing()


def test_node_sdk_without_the_relay_sends_envelopes(setting: Setting, upstream: Upstream) -> None:
    """The effect shown above is due to the relay: the same request through a path without rules arrives sealed."""
    outcome = node(setting, {"mode": "agent", "url": setting.url("/elsewhere")})
    assert outcome["status"] == 200
    assert json.loads(upstream.only().body) == outcome["sealed"]
    assert json.loads(outcome["body"])["token"] == "tok_1"


def test_roles(setting: Setting, upstream: Upstream) -> None:
    outcome = node(setting, {"mode": "agent", "url": setting.url("/roles/1"), "role": "pci"})
    assert outcome["status"] == 200
    assert json.loads(upstream.only().body) == DATA
    upstream.clear()
    outcome = node(setting, {"mode": "agent", "url": setting.url("/roles/1"), "role": "health"})
    assert 400 <= outcome["status"] < 600
    assert upstream.saw_nothing()


@pytest.mark.parametrize(("role", "passes"), [("pci", True), ("", True), ("health", False)])
def test_a_key_that_is_limited_to_a_role_takes_the_default_rule(
    setting: Setting, upstream: Upstream, role: str, passes: bool
) -> None:
    key = setting.api.key("--allow", ALL, "--role", "pci")
    outcome = node(setting, {"mode": "agent", "url": setting.url("/default/1"), **({"role": role} if role else {})}, key=key)
    if passes:
        assert outcome["status"] == 200, outcome
        assert json.loads(upstream.only().body) == DATA
    else:
        assert (outcome["status"], json.loads(outcome["body"])["code"]) == (422, "wrong_role"), outcome
        assert upstream.saw_nothing()
