"""Shared fixtures: a keystore with the keys of the vectors, and a guard that blocks connections to other machines."""

import ipaddress
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import app_keys
import engine as engines
import relay_parts
import relays
import upstream
from decryptor import Decryptor
from leafseal import Choices, Leafseal

APP = "interop"


def _refuse_other_hosts(event: str, arguments: tuple[object, ...]) -> None:
    """Installs an audit hook, which no library can remove."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo" and arguments[0] is not None:
        host = arguments[0]
    else:
        return
    name = host.decode() if isinstance(host, bytes) else host
    if name == "localhost":
        return
    if not ipaddress.ip_address(name).is_loopback:
        raise PermissionError(f"a test reaches for {name}")


sys.addaudithook(_refuse_other_hosts)


@pytest.fixture(scope="session")
def decryptor() -> Decryptor:
    return Decryptor(app_keys.of_the_vectors())


@pytest.fixture(scope="session")
def leafseal(tmp_path_factory: pytest.TempPathFactory) -> Leafseal:
    """A keystore with the app APP, which has the keys of the vectors."""
    program = Leafseal(_folder(tmp_path_factory, "session"))
    program.import_keys(APP, app_keys.of_the_vectors())
    return program


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Leafseal:
    """An empty folder."""
    return Leafseal(_folder(tmp_path_factory, "empty"))


@pytest.fixture(scope="session")
def rotated(leafseal: Leafseal) -> list[str]:
    """Envelopes of "old" and 1 under version 1 of the app `rotated`, which has a version 2."""
    leafseal.create("rotated")
    sealed = json.loads(leafseal.encrypt("rotated", b'["old", 1]', Choices(role="pci")))
    leafseal.run("keys", "rotate", "rotated")
    return sealed


@pytest.fixture(scope="session")
def engine(leafseal: Leafseal, rotated: list[str]) -> Iterator[engines.Engine]:
    """An engine with the clients `dev` and `relay` for APP, `operator` for all apps, `reader` of one role and `writer`."""
    leafseal.run("certs", "init")
    issue = ("certs", "issue")
    leafseal.run(*issue, "operator", "--all-apps", "--allow", "encrypt,decrypt")
    leafseal.run(*issue, "reader", "--app", APP, "--allow", "decrypt", "--role", "pci")
    leafseal.run(*issue, "writer", "--app", APP, "--allow", "encrypt")
    leafseal.run(*issue, "relay", "--app", APP, "--allow", "encrypt,decrypt")
    with engines.running(leafseal, APP) as running:
        yield running


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> relay_parts.Pki:
    return relay_parts.make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def plain_upstream() -> Iterator[upstream.Upstream]:
    with upstream.running() as plain:
        yield plain


@pytest.fixture(scope="session")
def tls_upstream(pki: relay_parts.Pki) -> Iterator[upstream.Upstream]:
    with upstream.running(pki.server.context("http/1.1")) as tls:
        yield tls


@pytest.fixture(scope="session")
def session_relay(
    tmp_path_factory: pytest.TempPathFactory,
    leafseal: Leafseal,
    engine: engines.Engine,
    pki: relay_parts.Pki,
    plain_upstream: upstream.Upstream,
    tls_upstream: upstream.Upstream,
) -> Iterator[relays.Relay]:
    """The inbound relay of relay_parts.py."""
    text = relay_parts.inbound(pki, plain_upstream, tls_upstream, engine)
    with relays.running(leafseal, tmp_path_factory.mktemp("relay"), text) as running:
        yield running


@pytest.fixture
def relay(
    session_relay: relays.Relay, plain_upstream: upstream.Upstream, tls_upstream: upstream.Upstream
) -> relays.Relay:
    """The same for all tests; its upstreams are cleared before each."""
    plain_upstream.clear()
    tls_upstream.clear()
    return session_relay


def _folder(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.mktemp(name) / "store"
