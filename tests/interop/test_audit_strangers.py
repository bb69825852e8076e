"""Peers without a valid identity, through every entry point of the engine and of a relay: the audit log counts them, and has no record for
each."""

import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest

import engine as engines
import relays
from api import Api
from certificates import Authority, tomorrow
from conftest import APP
from cryptography import x509
from leafseal import Leafseal
from pathlib import Path
from relay_outbound import authorization
from relay_parts import make_pki
from rpc_client import ConnectionEnded, Identity, RpcError

ATTEMPTS = 12
SECONDS_MAX = 60
UNKNOWN_KEY = "lsk_0123456789abcdef_" + "5a" * 32


class Listeners:
    """A running engine with a log and a relay of it."""

    def __init__(self, leafseal: Leafseal, engine: engines.Engine, relay: relays.Relay, folder: Path):
        self.leafseal, self.engine, self.relay, self.folder = leafseal, engine, relay, folder
        self.api = Api(leafseal, APP, f"https://{engine.ready['api']}", engine.ca, engine.log)

    def rpc(self, identity: Identity) -> None:
        """A connection that is refused, in the handshake or after."""
        with pytest.raises((OSError, RpcError, ConnectionEnded)), self.engine.connect_with(identity.context()) as client:
            client.call("info")

    def raw(self, address: str, data: bytes) -> None:
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as plain:
            plain.sendall(data)
            plain.settimeout(SECONDS_MAX)
            try:
                while plain.recv(4096):
                    pass
            except ConnectionError:
                pass

    def call(self, path: str, *arguments: str, data: bytes | None = b"{}", status: int = 401) -> None:
        answer = self.api.curl(path, *arguments, data=data)
        assert answer.status == status, answer

    def on_behalf(self, **fields: object) -> None:
        """Through the certificate of a relay."""
        with self.engine.connect("relay") as client, pytest.raises(RpcError):
            client.call(**fields)

    def through_relay(self, field: str) -> None:
        port = self.relay.at("proxy").port
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as plain:
            plain.sendall(f"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n{field}\r\n\r\n".encode())
            assert b" 407 " in plain.recv(4096)


@pytest.fixture(name="listeners", scope="module")
def fixture_listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    folder = tmp_path_factory.mktemp("strangers")
    leafseal = Leafseal(folder / "dev")
    leafseal.create(APP)
    settings = ("audit.folder=audit", "server.name=one", "audit.wait=all", "audit.strangers_bytes_max=64KiB")
    engine = engines.start(leafseal, APP, 0, *settings)
    for command in (["issue", "relay", "--app", APP, "--allow", "encrypt,decrypt"], ["relay-ca"]):
        leafseal.run("certs", *command)
    certificates = leafseal.folder / "certs"
    text = relays.process_section() + relays.engine_section(engine)
    ca = {"ca_certificate": str(certificates / "relay-ca.pem"), "ca_private_key": str(certificates / "relay-ca.key")}
    text += relays.section("[outbound]", name="proxy", address="127.0.0.1:0", **ca)
    text += relays.section("[outbound.destination]", hosts=["localhost"])
    try:
        with relays.running(leafseal, tmp_path_factory.mktemp("relay"), text) as relay:
            yield Listeners(leafseal, engine, relay, folder)
    finally:
        engines.kill(engine)


def own_certificate(listeners: Listeners, name: str, *, is_known: bool) -> Identity:
    """A certificate for a client: of an authority that the engine does not know, or of its own without a grant."""
    certificates = listeners.engine.ca.parent
    authority = Authority.read(listeners.engine.ca, certificates / "ca.key") if is_known else Authority.fresh()
    like = x509.load_pem_x509_certificate((certificates / "dev.pem").read_bytes())
    certificate, key = authority.issue(listeners.folder, name, like, tomorrow())
    return Identity(listeners.engine.ca, certificate, key)


def wrong_secret(listeners: Listeners) -> str:
    """The id of a key with another secret."""
    key = listeners.api.key()
    return key[:-64] + UNKNOWN_KEY[-64:]


GARBAGE = b"GET / HTTP/1.1\r\n\r\n"
KEYED = ("-H", "Content-Type: application/json", "-H")
# What an attempt is, whether the engine counts it as a stranger's, and what it shows.
Attempt = Callable[[Listeners], Callable[[], None]]
ATTEMPTS_OF: dict[str, tuple[Attempt, bool]] = {
    "rpc: no TLS": (lambda listeners: lambda: listeners.raw(listeners.engine.ready["address"], GARBAGE), True),
    "rpc: no certificate": (lambda listeners: lambda it=Identity(listeners.engine.ca): listeners.rpc(it), True),
    "rpc: unknown authority": (lambda listeners: lambda it=own_certificate(listeners, "alien", is_known=False): listeners.rpc(it), True),
    "rpc: no grant": (lambda listeners: lambda it=own_certificate(listeners, "guest", is_known=True): listeners.rpc(it), True),
    "rpc: wrong key by a relay": (lambda listeners: lambda: listeners.on_behalf(method="authenticate", api_key=UNKNOWN_KEY), True),
    "rpc: wrong secret by a relay": (
        lambda listeners: lambda key=wrong_secret(listeners): listeners.on_behalf(method="authenticate", api_key=key),
        True,
    ),
    "rpc: no key by a relay": (lambda listeners: lambda: listeners.on_behalf(method="authenticate", api_key="nothing"), True),
    "api: no TLS": (lambda listeners: lambda: listeners.raw(listeners.engine.ready["api"], GARBAGE), True),
    "api: no credentials": (lambda listeners: lambda: listeners.call("/encrypt", *KEYED[:2]), True),
    "api: unknown key": (lambda listeners: lambda: listeners.call("/encrypt", *KEYED, f"Api-Key: {UNKNOWN_KEY}"), True),
    "api: wrong secret": (
        lambda listeners: lambda key=wrong_secret(listeners): listeners.call("/encrypt", *KEYED, f"Api-Key: {key}"),
        True,
    ),
    "api: no key": (lambda listeners: lambda: listeners.call("/encrypt", *KEYED, "Api-Key: nothing"), True),
    "api: wrong token": (lambda listeners: lambda: listeners.call("/decrypt", *KEYED, "Authorization: Token " + "x" * 64), True),
    "api: both": (
        lambda listeners: lambda: listeners.call("/encrypt", *KEYED, f"Api-Key: {UNKNOWN_KEY}", "-H", "Api-Key: x"),
        True,
    ),
    "api: a key of another app": (
        lambda listeners: lambda key=listeners.api.key(): listeners.call("/encrypt", "--user", f"other:{key}", *KEYED[:2]),
        True,
    ),
    "api: public keys of any app": (
        lambda listeners: lambda: listeners.call("/keys", "-H", "x-evervault-app-id: nobody", data=None, status=404),
        True,
    ),
    "api: no such call": (lambda listeners: lambda: listeners.call("/nothing", data=None, status=404), False),
    "relay: wrong key": (lambda listeners: lambda: listeners.through_relay(authorization(UNKNOWN_KEY)), True),
    "relay: no key": (lambda listeners: lambda: listeners.through_relay(authorization("nothing")), True),
    "relay: nothing": (lambda listeners: lambda: listeners.through_relay("X: y"), False),
}


@pytest.fixture(name="records", scope="module")
def fixture_records(listeners: Listeners) -> tuple[dict[str, int], list[dict[str, object]]]:
    """How often strangers were counted for each kind of attempt, and the log at the end."""
    counted = {}
    for name, (prepare, is_counted) in ATTEMPTS_OF.items():
        attempt = prepare(listeners)
        before = strangers(listeners)
        for _ in range(ATTEMPTS):
            attempt()
        # A handshake fails some time after what its peer has sent.
        deadline = time.monotonic() + SECONDS_MAX
        while is_counted and strangers(listeners) - before < ATTEMPTS and time.monotonic() < deadline:
            time.sleep(0.01)
        counted[name] = strangers(listeners) - before
    listeners.engine.process.terminate()
    listeners.engine.process.wait()
    (log,) = (listeners.leafseal.folder / "audit").glob("one-*")
    shown = listeners.leafseal.run("audit", "show", str(log)).decode()
    return counted, [json.loads(line) for line in shown.splitlines()]


def strangers(listeners: Listeners) -> int:
    host, port = listeners.engine.ready["operator"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: plain.recv(1 << 16), b"")).decode()
    return int(text.split("\nleafseal_audit_strangers_total ", 1)[1].split("\n", 1)[0])


@pytest.mark.parametrize("name", ATTEMPTS_OF)
def test_each_attempt_is_counted(records: tuple[dict[str, int], list[dict[str, object]]], name: str) -> None:
    counted, _ = records
    assert counted[name] == (ATTEMPTS if ATTEMPTS_OF[name][1] else 0)


def test_no_attempt_has_a_record_of_its_own(records: tuple[dict[str, int], list[dict[str, object]]]) -> None:
    counted, log = records
    by_kind = {kind: [record for record in log if record["kind"] == kind] for kind in {record["kind"] for record in log}}
    assert set(by_kind) <= {"start", "strangers", "change"}, by_kind
    assert sum(record["requests"] for record in by_kind["strangers"]) == sum(counted.values())
    sources = {(record.get("caller"), record.get("client")) for record in by_kind["strangers"]}
    assert {("on-behalf", "relay"), ("client", "dev"), ("api-key", None), ("anonymous", None)} <= sources, sources
    assert len(by_kind["strangers"]) < len(ATTEMPTS_OF) + 2
