"""The TLS of every listener with other software: Mozilla's guidelines by sslyze, and the key exchange with OpenSSL 3.5 or newer."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine as engines
import relays
from leafseal import Leafseal

# The interpreter of an environment with sslyze and pyOpenSSL: they need another version of `cryptography` than the other tests.
TLS_PYTHON = Path(os.environ["TLS_PYTHON"])
HYBRID = "X25519MLKEM768"
LISTENERS = ["rpc", "api", "relay"]


class Listeners:
    """An engine and a relay, whose listeners have the certificate of `certs init`."""

    def __init__(self, engine: engines.Engine, relay: relays.Relay) -> None:
        self.certs = engine.ca.parent
        addresses = {"rpc": engine.ready["address"], "api": engine.ready["api"], "relay": relay.ready["in"]}
        self.ports = {name: address.rstrip("/").rsplit(":", 1)[1] for name, address in addresses.items()}

    def run(self, *arguments: str) -> str:
        done = subprocess.run([TLS_PYTHON, *arguments], capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    def identity(self) -> list[str]:
        return [str(self.certs / name) for name in ("dev.pem", "dev.key")]

    def group(self, listener: str, *groups: str) -> str:
        ca = str(self.certs / "ca.pem")
        script = str(Path(__file__).with_name("tls_groups.py"))
        return self.run(script, self.ports[listener], ca, *self.identity(), *groups).strip()


def started(leafseal: Leafseal, folder: Path, *settings: str, listener: str = "") -> Iterator[Listeners]:
    leafseal.create("tls")
    engine = engines.start(leafseal, "tls", 0, *settings)
    try:
        pair = 'certificate = "certs/server.pem"\nprivate_key = "certs/server.key"\n'
        text = f"""[relay]
operator_address = "127.0.0.1:0"
[engine]
addresses = ["{engine.ready["address"]}"]
server_name = "localhost"
authorities = "certs/ca.pem"
certificate = "certs/dev.pem"
private_key = "certs/dev.key"
[[inbound]]
name = "in"
address = "127.0.0.1:0"
upstream = "http://127.0.0.1:1"
unmatched = "pass"
{pair}{listener}
"""
        with relays.running(leafseal, folder, text) as relay:
            yield Listeners(engine, relay)
    finally:
        engines.kill(engine)


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    yield from started(Leafseal(tmp_path_factory.mktemp("tls") / "store"), tmp_path_factory.mktemp("relay"))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    """Listeners that accept hybrid key exchanges alone."""
    settings = ("server.tls_require=hybrid", "api.tls_require=hybrid")
    leafseal, folder = Leafseal(tmp_path_factory.mktemp("strict") / "store"), tmp_path_factory.mktemp("relay")
    yield from started(leafseal, folder, *settings, listener='tls_require = "hybrid"')


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_listener_complies_with_mozillas_guidelines(listeners: Listeners, listener: str) -> None:
    certificate, key = listeners.identity()
    identity = ["--cert", certificate, "--key", key] if listener == "rpc" else []
    place = f"localhost:{listeners.ports[listener]}"
    ca = ["--certinfo_ca_file", str(listeners.certs / "ca.pem")]
    report = listeners.run("-m", "sslyze", "--mozilla_config=intermediate", *ca, *identity, place)
    assert f"{place}: OK - Compliant." in report, report[-2000:]


@pytest.mark.parametrize("listener", LISTENERS)
def test_openssl_agrees_on_the_hybrid_group_and_an_older_client_on_another(listeners: Listeners, listener: str) -> None:
    assert listeners.group(listener) == HYBRID
    assert listeners.group(listener, "classic") in {"secp256r1", "P-256", "prime256v1"}


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_listener_that_requires_a_hybrid_group_refuses_an_older_client(strict: Listeners, listener: str) -> None:
    assert strict.group(listener) == HYBRID
    assert "handshake failure" in strict.group(listener, "classic")
