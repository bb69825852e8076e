"""Helpers for tests of faults around a relay: an engine that can be killed, a relay with short limits, and traffic."""

import json
import random
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

import pytest

import app_keys
import engine as engines
import raw_http
import relays
import upstream as upstreams
from curl import Result, curl
from engine import Engine
from leafseal import Leafseal
from relay_parts import APP, Pki, inbound, make_pki
from relays import Relay
from upstream import Upstream

JSON = "application/json"
MARKER = "plaintext-that-nobody-may-see"
# Short, so that tests are fast, but long enough for a busy machine. No test asserts an upper bound of a time.
SHORT = "1s"
LIMITS = {"header_timeout": SHORT, "body_timeout": SHORT, "write_timeout": SHORT, "handshake_timeout": SHORT}
PATIENCE_SECONDS = 60


@dataclass
class Place:
    """An engine that can be killed and restarted on the same port."""

    leafseal: Leafseal
    engine: Engine
    pki: Pki
    plain: Upstream
    tls: Upstream

    def start_engine(self, *settings: str) -> None:
        port = self.engine.address[1]
        self.engine = engines.start(self.leafseal, APP, port, *settings)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    leafseal = Leafseal(tmp_path_factory.mktemp("faults") / "store")
    leafseal.import_keys(APP, app_keys.of_the_vectors())
    pki = make_pki(tmp_path_factory.mktemp("pki"))
    with upstreams.running() as plain, upstreams.running(pki.server.context("http/1.1")) as tls:
        place = Place(leafseal, engines.start(leafseal, APP), pki, plain, tls)
        try:
            leafseal.run("certs", "issue", "relay", "--app", APP, "--allow", "encrypt,decrypt")
            yield place
        finally:
            engines.kill(place.engine)


@pytest.fixture(scope="module")
def text(place: Place) -> str:
    """The configuration with short limits."""
    upstream = {"connect_timeout": SHORT, "response_timeout": "2s", "body_timeout": "2s"}
    return inbound(place.pki, place.plain, place.tls, place.engine, upstream=upstream, **LIMITS)


@pytest.fixture(scope="module")
def module_relay(place: Place, text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with relays.running(place.leafseal, tmp_path_factory.mktemp("relay"), text) as running:
        yield running


@pytest.fixture
def relay(place: Place, module_relay: Relay) -> Relay:
    place.plain.clear()
    place.tls.clear()
    return module_relay


@pytest.fixture
def path() -> str:
    """A path of the route that encrypts `$..note`, unique to the caller so that it can be found in the access log."""
    return f"/sealed/{random.getrandbits(48):x}"


def post(relay: Relay, path: str, document: object, *arguments: str) -> Result:
    body = json.dumps(document).encode()
    return curl(relay.at("plain", False).url(path), "--header", f"Content-Type: {JSON}", *arguments, data=body)


class Traffic:
    """Threads that post a note over and over, each on a connection of its own, until the block ends. `way` is the protocol: `plain`,
    `tls` (both HTTP/1.1) or `h2`, several requests at a time."""

    def __init__(self, relay: Relay, path: str, threads: int = 6, way: str = "plain", ca: Path | None = None):
        self.port = relay.at("plain", False).port if way == "plain" else relay.at("tls").port
        self.path = path
        self.way = way
        self.ca = ca
        self.statuses: list[tuple[int, str | None]] = []
        self.dropped: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def count(self, status: int) -> int:
        return sum(known == status for known, _ in list(self.statuses))

    def _run(self) -> None:
        (self._run_http2 if self.way == "h2" else self._run_http1)(json.dumps({"note": MARKER}).encode())

    def _run_http1(self, body: bytes) -> None:
        if self.way == "tls":
            context = ssl.create_default_context(cafile=self.ca)
            connection: HTTPConnection = HTTPSConnection("localhost", self.port, timeout=60, context=context)
        else:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._stop.is_set():
            try:
                connection.request("POST", self.path, body, {"Content-Type": JSON})
                answer = connection.getresponse()
                answer.read()
                self.statuses.append((answer.status, answer.getheader("Retry-After")))
            except (OSError, HTTPException) as error:
                self.dropped.append(repr(error))
                connection.close()
        connection.close()

    def _run_http2(self, body: bytes) -> None:
        """A connection that ends is a failure: it is not reopened."""
        try:
            client = raw_http.Http2Client(self.port, self.ca)
            while not self._stop.is_set():
                self.statuses += client.posts(self.path, body, JSON, 4)
            client.close()
        except (OSError, raw_http.Closed) as error:
            self.dropped.append(repr(error))


def no_plaintext(place: Place) -> bool:
    bodies = [request.body + request.head for request in place.plain.requests + place.tls.requests]
    return not any(MARKER.encode() in body for body in bodies)
