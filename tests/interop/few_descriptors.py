"""An engine and a relay with a limit of 1,024 descriptors each, with a request for each of their ports."""

import contextlib
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import engine as engines
import relays
import upstream
from leafseal import Leafseal

DESCRIPTORS = 1024
# Connections that an attacker opens to one port.
SILENT = 4000
APP = "acme"
# Long enough for any machine; benches/silent_connections.py measures latency.
SECONDS_MAX = 60


@dataclass(frozen=True)
class Port:
    """A port with a request that fails unless it is answered."""

    name: str
    number: int
    ask: Callable[[], None]


@dataclass(frozen=True)
class Scene:
    """`engine_log` and `relay_log` are their standard error."""

    ports: list[Port]
    processes: list[int]
    engine_log: Path
    relay_log: Path


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Scene]:
    """The engine's RPC, API and operator ports; the relay's inbound, outbound and operator ports."""
    leafseal = Leafseal(folder / "store")
    leafseal.create(APP)
    leafseal.run("certs", "init")
    leafseal.run("certs", "relay-ca")
    leafseal.run("certs", "issue", "relay", "--app", APP, "--allow", "encrypt,decrypt")
    with engines.running(leafseal, APP, DESCRIPTORS) as engine, upstream.running() as behind:
        certificates = leafseal.folder.resolve() / "certs"
        authority = {"ca_certificate": str(certificates / "relay-ca.pem"), "ca_private_key": str(certificates / "relay-ca.key")}
        text = relays.process_section() + relays.engine_section(engine)
        text += relays.section("[inbound]", name="in", address="127.0.0.1:0", upstream=behind.url)
        text += relays.section("[outbound]", name="out", address="127.0.0.1:0", **authority)
        with relays.running(leafseal, folder, text, DESCRIPTORS) as relay:
            ports = [*_of_engine(engine), *_of_relay(relay)]
            processes = [engine.process.pid, relay.process.pid]
            yield Scene(ports, processes, engine.log, relay.log)


def _of_engine(engine: engines.Engine) -> list[Port]:
    def call() -> None:
        with engine.connect() as client:
            assert client.call("health")["status"] == "ok"

    def number(name: str) -> int:
        return int(engine.ready[name].rsplit(":", 1)[1])

    context = ssl.create_default_context(cafile=engine.ca)
    return [
        Port("rpc", number("address"), call),
        Port("api", number("api"), _get(number("api"), "/openapi.json", 200, context)),
        Port("engine-operator", number("operator"), _get(number("operator"), "/metrics", 200)),
    ]


def _of_relay(relay: relays.Relay) -> list[Port]:
    number = {name: int(address.rsplit(":", 1)[1]) for name, address in relay.ready.items()}
    return [
        Port("inbound", number["in"], _get(number["in"], "/", 200)),
        # A proxy identifies itself to callers that do not use CONNECT.
        Port("outbound", number["out"], _get(number["out"], "/", 405)),
        Port("relay-operator", number["operator"], _get(number["operator"], "/livez", 200)),
    ]


def _get(port: int, path: str, status: int, context: ssl.SSLContext | None = None) -> Callable[[], None]:
    def ask() -> None:
        if context:
            connection: HTTPConnection = HTTPSConnection("localhost", port, timeout=SECONDS_MAX, context=context)
        else:
            connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status, f"{answer.status} at port {port}"

    return ask
