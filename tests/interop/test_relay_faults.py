"""What goes wrong around a relay: upstreams, engines, clients and its own file. Each fault is bounded, logged, and shows no plaintext."""

import json
import os
import random
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

import pytest

import app_keys
import engine as engines
import raw_http
import relays
import upstream as upstreams
from certificates import Authority, yesterday
from curl import HTTP2_STREAM, PARTIAL_FILE, RECEIVE_ERROR, Result, curl
from engine import Engine
from fieldseal import Fieldseal
from relay_parts import APP, Pki, inbound, make_pki, rule
from relays import Relay, section
from upstream import Answer, Received, Upstream, echo, ok, wait_until

JSON = "application/json"
MARKER = "plaintext-that-nobody-may-see"
# Short, so that a test need not wait; long enough for a machine with much to do. No test has an upper bound of its own for a time.
SHORT = "1s"
LIMITS = {"header_timeout": SHORT, "body_timeout": SHORT, "write_timeout": SHORT, "handshake_timeout": SHORT}
PATIENCE_SECONDS = 60
# What the relay's own log says of a head that trickles.
SLOW_HEAD = "the head comes too slowly"
CUT = (PARTIAL_FILE, RECEIVE_ERROR, HTTP2_STREAM)


@dataclass
class Place:
    """An engine that may be killed, at a port that stays its own."""

    fieldseal: Fieldseal
    engine: Engine
    pki: Pki
    plain: Upstream
    tls: Upstream

    def start_engine(self, *settings: str) -> None:
        port = self.engine.address[1]
        self.engine = engines.start(self.fieldseal, APP, port, *settings)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    fieldseal = Fieldseal(tmp_path_factory.mktemp("faults") / "store")
    fieldseal.import_keys(APP, app_keys.of_the_vectors())
    pki = make_pki(tmp_path_factory.mktemp("pki"))
    with upstreams.running() as plain, upstreams.running(pki.server.context("http/1.1")) as tls:
        place = Place(fieldseal, engines.start(fieldseal, APP), pki, plain, tls)
        try:
            fieldseal.run("certs", "issue", "relay", "--app", APP, "--allow", "encrypt,decrypt")
            yield place
        finally:
            engines.kill(place.engine)


@pytest.fixture(scope="module")
def text(place: Place) -> str:
    """The configuration with its short limits."""
    upstream = {"connect_timeout": SHORT, "response_timeout": "2s", "body_timeout": "2s"}
    return inbound(place.pki, place.plain, place.tls, place.engine, upstream=upstream, **LIMITS)


@pytest.fixture(scope="module")
def module_relay(place: Place, text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with relays.running(place.fieldseal, tmp_path_factory.mktemp("relay"), text) as running:
        yield running


@pytest.fixture
def relay(place: Place, module_relay: Relay) -> Relay:
    place.plain.clear()
    place.tls.clear()
    return module_relay


@pytest.fixture
def path() -> str:
    """Of a route that seals `$..note`, and nobody else's: the access log is asked for it."""
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
        """A connection that ends is one too many: nothing makes it anew."""
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


def test_the_relay_tells_of_itself_and_of_the_engine(place: Place, relay: Relay, path: str) -> None:
    version = place.fieldseal.run("--version").decode().split()[-1]
    assert relay.metric(f'fieldseal_relay_build_info{{version="{version}"}}') == 1
    wait_until(lambda: relay.metric("fieldseal_relay_ready") == 1)
    calls = 'fieldseal_relay_engine_calls_total{method="encrypt_document",outcome="ok"}'
    timed = 'fieldseal_relay_engine_call_seconds_count{method="encrypt_document"}'
    before = relay.metric(calls)
    assert post(relay, path, {"note": MARKER}).status == 200
    assert relay.metric(calls) == before + 1 and relay.metric(timed) > 0
    assert relay.metric("fieldseal_relay_access_log_lines_dropped_total") == 0
    # A reload begins new connections to the engine, and no new counts.
    relay.reload(relay.file.read_text())
    assert relay.metric(calls) == before + 1


def test_a_second_relay_at_the_same_address_is_refused(place: Place, relay: Relay, text: str, tmp_path: Path) -> None:
    """The system would let it in beside the first, and it would answer a part of the requests by rules of its own."""
    address = relay.ready["plain"]
    file = tmp_path / "second.toml"
    head, _, _ = text.partition("[[inbound]]")
    file.write_text(head + section("[inbound]", name="second", address=address, upstream=place.plain.url))
    command = place.fieldseal.command("relay", "--file", str(file), "--access-log", str(tmp_path / "log"), "--json")
    second = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert (second.returncode, second.stdout) == (3, "")
    assert f"cannot listen at {address}" in second.stderr and "choose another address" in second.stderr
    # All go by the rules of the first.
    for _ in range(20):
        assert post(relay, "/sealed/second", {"note": MARKER}).status == 200
    assert len(place.plain.requests) == 20 and no_plaintext(place)


def test_without_an_engine_nothing_passes_that_needs_one(place: Place, relay: Relay, path: str) -> None:
    wait_until(lambda: relay.operator("/readyz")[0] == 200)
    engines.kill(place.engine)
    try:
        answer = post(relay, path, {"note": MARKER})
        assert (answer.status, answer.header("content-type")) == (503, "application/problem+json")
        assert int(answer.header("retry-after")) >= 1
        assert answer.json()["code"] == "engine-unavailable"
        assert place.plain.saw_nothing()
        # An answer that cannot be sealed is not shown.
        place.plain.answer = lambda _: ok(json.dumps({"secret": MARKER}).encode(), JSON)
        answer = curl(relay.at("plain", False).url("/secret/a"), data=b"x")
        assert answer.status == 503 and answer.header("retry-after")
        assert MARKER.encode() not in answer.body
        assert place.plain.saw_nothing(), "what is to be repeated has not been done"
        # What needs no engine passes.
        assert curl(relay.at("plain", False).url("/elsewhere")).status == 200
        wait_until(lambda: relay.operator("/readyz")[0] == 503)
        assert relay.operator("/livez")[0] == 200
    finally:
        place.start_engine()
    wait_until(lambda: post(relay, path, {"note": MARKER}).status == 200)
    wait_until(lambda: relay.operator("/readyz")[0] == 200)
    assert relay.logged(path)[0]["refused"] == "engine-unavailable"
    assert no_plaintext(place) and MARKER not in relay.written()


def test_a_request_that_is_done_is_not_asked_for_again(place: Place, relay: Relay) -> None:
    """The engine goes away between a request and its answer."""

    def answer(_: Received) -> Answer:
        engines.kill(place.engine)
        return ok(json.dumps({"secret": MARKER}).encode(), JSON)

    place.plain.answer = answer
    answers: list[Result] = []

    def is_done() -> bool:
        # A thread of the relay may still wait before it looks for the engine of the test before: then nothing is passed on.
        answers.append(curl(relay.at("plain", False).url("/secret/done"), data=b"x"))
        return answers[-1].status != 503

    try:
        wait_until(is_done)
        assert (answers[-1].status, answers[-1].json()["code"]) == (502, "answer-lost")
        assert answers[-1].header("retry-after") is None
        assert len(place.plain.requests) == 1
        assert MARKER.encode() not in answers[-1].body and MARKER not in relay.written()
    finally:
        place.start_engine()


def test_an_engine_restarts_under_traffic(place: Place, relay: Relay, path: str) -> None:
    with Traffic(relay, path) as traffic:
        wait_until(lambda: traffic.count(200) > 50)
        engines.kill(place.engine)
        wait_until(lambda: traffic.count(503) > 10)
        place.start_engine()
        before = traffic.count(200)
        wait_until(lambda: traffic.count(200) > before + 50)
    assert traffic.dropped == []
    assert {status for status, _ in traffic.statuses} == {200, 503}
    assert all(pause is not None for status, pause in traffic.statuses if status == 503)
    # Each that was answered with 200 arrived, sealed, and no other.
    assert len(place.plain.requests) == traffic.count(200)
    assert no_plaintext(place) and MARKER not in relay.written()


def test_an_overloaded_engine(place: Place, text: str, path: str, tmp_path: Path) -> None:
    """Through a relay that repeats no call: else most of them find room after a while."""
    place.plain.clear()
    without_retries = text.replace("[engine]\n", "[engine]\nretries_max = 0\n")
    assert without_retries != text
    with relays.running(place.fieldseal, tmp_path, without_retries) as relay:
        _overload(place, relay, path)


def _overload(place: Place, relay: Relay, path: str) -> None:
    engines.kill(place.engine)
    place.start_engine(
        "server.queue_jobs_max=1", "server.app_jobs_max=1", "server.admission_wait=0ms", "server.workers=1"
    )
    try:
        document = json.dumps({"list": [{"note": MARKER}] * 20_000}).encode()
        answers: list[Result] = []
        threads = [
            threading.Thread(target=lambda: answers.append(_post_once(relay, path, document))) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [answer.status for answer in answers]
        assert set(statuses) == {200, 503}, statuses
        refused = [answer for answer in answers if answer.status == 503]
        assert {answer.json()["code"] for answer in refused} == {"engine-overloaded"}
        assert all(answer.header("retry-after") for answer in refused)
        assert len(place.plain.requests) == statuses.count(200)
        assert no_plaintext(place)
    finally:
        engines.kill(place.engine)
        place.start_engine()
    wait_until(lambda: post(relay, path, {"note": MARKER}).status == 200)


def _post_once(relay: Relay, path: str, document: bytes) -> Result:
    return curl(relay.at("plain", False).url(path), "--header", f"Content-Type: {JSON}", data=document)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("how", ["length", "chunks"])
def test_an_answer_that_is_cut_upstream_is_cut_for_the_client(
    place: Place, relay: Relay, version: str, how: str
) -> None:
    cut = Answer(body=b"x" * 1000, declared=5000) if how == "length" else Answer(pieces=[b"x" * 1000], cut=True)
    place.plain.answer = lambda _: cut
    answer = curl(relay.at("tls").url("/elsewhere"), version, ca=place.pki.ca)
    assert answer.code in CUT, (answer.code, answer.message)
    assert answer.status == 200 and len(answer.body) <= 1000


@pytest.mark.parametrize("how", ["length", "chunks", "coding"])
def test_an_answer_that_is_cut_is_not_read(place: Place, relay: Relay, how: str) -> None:
    start = json.dumps({"secret": MARKER}).encode()
    answers = {
        "length": Answer(headers=[("Content-Type", JSON)], body=start, declared=5000),
        "chunks": Answer(headers=[("Content-Type", JSON)], pieces=[start], cut=True),
        "coding": Answer(headers=[("Content-Type", JSON), ("Content-Encoding", "gzip")], body=b"\x1f\x8b\x08"),
    }
    place.plain.answer = lambda _: answers[how]
    answer = curl(relay.at("plain", False).url("/secret/a"))
    assert (answer.code, answer.status) == (0, 502)
    assert MARKER.encode() not in answer.body


@pytest.mark.parametrize("method", ["POST", "PATCH", "GET"])
def test_an_upstream_that_says_nothing(place: Place, relay: Relay, method: str) -> None:
    place.plain.answer = lambda _: Answer(silent=True)
    answer = curl(relay.at("plain", False).url("/elsewhere"), "--request", method)
    assert (answer.status, answer.header("content-type")) == (502, "application/problem+json")
    sent = len(place.plain.requests)
    if method == "GET":
        assert sent in (1, 2), "it does no harm twice, and is sent again where the first went over a connection that was kept"
    else:
        assert sent == 1, "a request that may have been done is not done again"


def test_an_upstream_that_takes_too_long(place: Place, relay: Relay, path: str) -> None:
    released = threading.Event()
    place.plain.answer = lambda _: released.wait(20) and ok() or ok()
    begin = time.monotonic()
    answer = post(relay, path, {"note": MARKER})
    assert answer.status == 504
    assert time.monotonic() - begin > 1.5
    released.set()
    assert relay.logged(path)[0]["refused"] == "upstream-timeout"


def test_no_upstream(place: Place, relay: Relay, text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    relay.reload(text.replace(f"127.0.0.1:{place.plain.port}", f"127.0.0.1:{port}"))
    try:
        answer = curl(relay.at("plain", False).url("/elsewhere"))
        assert (answer.status, answer.json()["code"]) == (502, "upstream-unreachable")
    finally:
        relay.reload(text)


@pytest.mark.parametrize("fault", ["authority", "expired", "name"])
def test_certificates_of_upstreams(place: Place, relay: Relay, text: str, tmp_path: Path, fault: str) -> None:
    authority = Authority.fresh() if fault == "authority" else place.pki.authority
    names = ["other.test"] if fault == "name" else ["localhost", "127.0.0.1"]
    server = authority.issue_server(tmp_path, "bad", names, yesterday() if fault == "expired" else None)
    with upstreams.running(server.context("http/1.1")) as wrong:
        relay.reload(text.replace(f"localhost:{place.tls.port}", f"localhost:{wrong.port}"))
        try:
            path = f"/tls/sealed/{fault}"
            answer = post(relay, path, {"note": MARKER})
            assert (answer.status, answer.header("content-type")) == (502, "application/problem+json")
            assert answer.json()["code"] == "upstream-certificate"
            assert wrong.saw_nothing()
            assert relay.logged(path)[0]["refused"] == "upstream-certificate"
        finally:
            relay.reload(text)


@pytest.mark.parametrize("path", ["/elsewhere", "/sealed/a"])
def test_a_client_that_goes_in_the_middle_of_its_body(place: Place, relay: Relay, path: str) -> None:
    path += f"/{random.getrandbits(48):x}"
    with raw_http.connect(relay.at("plain", False).port) as stream:
        stream.sendall(
            f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: 1000000\r\n\r\n".encode()
        )
        stream.sendall(b'{"note":"' + MARKER.encode() * 100)
        if path.startswith("/elsewhere"):
            wait_until(lambda: place.plain.heads == 1)
    (line,) = relay.logged(path)
    assert line["status"] in (0, 400)
    # The upstream may have seen the beginning; it never takes it for a request.
    if path.startswith("/elsewhere"):
        wait_until(lambda: place.plain.gone == 1)
        assert place.plain.requests == []
    else:
        assert place.plain.saw_nothing()
    assert MARKER not in relay.written()


@pytest.mark.parametrize("version", ["http/1.1", "h2"])
def test_a_client_that_does_not_wait_for_its_answer(place: Place, relay: Relay, version: str) -> None:
    came, released = threading.Event(), threading.Event()

    def slow(_: Received) -> Answer:
        came.set()
        released.wait(20)
        return ok()

    place.plain.answer = slow
    stream = raw_http.connect(relay.at("tls").port, place.pki.ca, version)
    if version == "h2":
        corpus = Path(__file__).parents[2] / "vectors" / "http-smuggling"
        stream.sendall((corpus / "h2-plain.h2").read_bytes())
    else:
        stream.sendall(b"GET /p HTTP/1.1\r\nHost: a\r\n\r\n")
    assert came.wait(10)
    before = relay.metric("fieldseal_relay_upstream_connections")
    stream.close()
    # The relay closes the upstream connection before the answer comes, and logs that the client left, not that the upstream timed out.
    wait_until(lambda: relay.metric("fieldseal_relay_upstream_connections") < before)
    released.set()
    assert relay.logged("/p", 1)[-1]["status"] == 0


def test_what_a_client_does_not_wait_for_goes_nowhere(place: Place, relay: Relay) -> None:
    """That the engine ends its work too is seen in its own count, in crates/cli/tests/relay.rs."""
    document = json.dumps({"list": [{"note": "x"}] * 400_000}).encode()
    head = f"POST /sealed/long HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: {len(document)}\r\n\r\n"
    stream = raw_http.connect(relay.at("plain", False).port)
    stream.sendall(head.encode() + document)
    time.sleep(0.15)
    stream.close()
    (line,) = relay.logged("/sealed/long")
    assert line["status"] == 0
    time.sleep(0.2)
    assert place.plain.saw_nothing()


def test_slow_heads_and_bodies_and_handshakes_are_ended(place: Place, relay: Relay) -> None:
    """Side by side: each is let be for a while, then closed, however steadily it trickles."""
    port, tls_port = relay.at("plain", False).port, relay.at("tls").port
    fields = f"HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\n"
    length, chunked = "Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"
    bodies = {name: f"/{way}/slow-{name}" for name, way in {"held": "sealed", "passing": "any", "chunks": "any"}.items()}
    trickles = {
        "head": (port, b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n"),
        "held": (port, f'POST {bodies["held"]} {fields}{length}{{"note":"'.encode(), b"x"),
        "passing": (port, f"POST {bodies['passing']} {fields}{length}".encode(), b"x"),
        "chunks": (port, f"POST {bodies['chunks']} {fields}{chunked}".encode(), b"1\r\nx\r\n"),
        "handshake": (tls_port, b"\x16\x03\x01\x02\x00\x01", b"\x00"),
    }
    ended: dict[str, tuple[float, bytes]] = {}
    samples = {
        'fieldseal_relay_connections_ended_total{listener="plain",why="slow"}': 1,
        'fieldseal_relay_connections_ended_total{listener="tls",why="handshake"}': 1,
        'fieldseal_relay_refusals_total{listener="plain",code="slow-body"}': len(bodies),
    }
    before = {sample: relay.metric(sample) for sample in samples}
    cuts = relay.log.read_text().count(SLOW_HEAD)

    def trickle(name: str, at: int, start: bytes, piece: bytes) -> None:
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", at)) as stream:
            stream.sendall(start)
            stream.settimeout(0.1)
            data = b""
            while time.monotonic() - begin < PATIENCE_SECONDS:
                try:
                    received = stream.recv(4096)
                    if not received:
                        break
                    data += received
                except TimeoutError:
                    pass
                except ConnectionError:
                    break
                try:
                    stream.sendall(piece)
                except ConnectionError:
                    break
            ended[name] = (time.monotonic() - begin, data)

    threads = [threading.Thread(target=trickle, args=(name, *rest)) for name, rest in trickles.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, (seconds, data) in ended.items():
        assert 0.5 < seconds < PATIENCE_SECONDS, (name, seconds)
        if name not in bodies:
            assert data == b"" or name == "handshake", (name, data)
            continue
        assert data.startswith(b"HTTP/1.1 408 ") and b'"slow-body"' in data, (name, data)
        (line,) = relay.logged(bodies[name])
        assert (line["status"], line["refused"]) == (408, "slow-body"), line
        assert 0 < line["received"] < 1000, line
    assert {sample: relay.metric(sample) - before[sample] for sample in samples} == samples
    assert relay.log.read_text().count(SLOW_HEAD) == cuts + 1
    assert place.plain.requests == []


def test_a_client_that_takes_nothing_is_ended(place: Place, relay: Relay) -> None:
    """The upstream's answer is far longer than what buffers hold."""
    place.plain.answer = lambda _: Answer(body=bytes(64 << 20))
    path = f"/elsewhere/{random.getrandbits(48):x}"
    with raw_http.connect(relay.at("plain", False).port) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        begin = time.monotonic()
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        (line,) = relay.logged(path)
        assert time.monotonic() - begin > 0.5
    assert (line["status"], line["whole"]) == (200, False)
    assert line["sent"] < 64 << 20


def test_a_thousand_idle_connections(place: Place, path: str, tmp_path: Path) -> None:
    """They take little, others are served beside them, and the relay closes each once it has been idle for long enough."""
    place.plain.clear()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    is_open = 'fieldseal_relay_connections{listener="plain"}'
    closed = 'fieldseal_relay_connections_ended_total{listener="plain",why="idle"}'
    text = inbound(place.pki, place.plain, place.tls, place.engine, **{**LIMITS, "idle_timeout": "10s"})
    with relays.running(place.fieldseal, tmp_path, text) as relay:
        port, before = relay.at("plain", False).port, _resident(relay)
        with Traffic(relay, path, threads=2) as traffic:
            begin = time.monotonic()
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
            try:
                wait_until(lambda: relay.metric(is_open) >= 1000)
                # 64 KiB for each would be much already.
                assert _resident(relay) - before < 64 << 20
                for stream in idle:
                    stream.settimeout(PATIENCE_SECONDS)
                    assert stream.recv(1) == b""
                assert time.monotonic() - begin > 9.5
            finally:
                for stream in idle:
                    stream.close()
            wait_until(lambda: relay.metric(closed) == 1000)
            # Those with traffic are none of them.
            wait_until(lambda: relay.metric(is_open) == 2)
        assert traffic.dropped == [] and {status for status, _ in traffic.statuses} == {200}
        assert traffic.count(200) > 0


def _resident(relay: Relay) -> int:
    pages = int(Path(f"/proc/{relay.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("way", ["plain", "tls", "h2"])
def test_reloading_under_traffic_drops_nothing(place: Place, relay: Relay, text: str, path: str, way: str) -> None:
    redacting = text.replace(
        'action = "encrypt", json = ["$.card.number", "$..note"]', 'action = "redact", json = ["$..note"]'
    )
    assert redacting != text
    with Traffic(relay, path, way=way, ca=place.pki.ca) as traffic:
        for index in range(6):
            relay.reload(redacting if index % 2 == 0 else text)
            before = len(traffic.statuses)
            wait_until(lambda: len(traffic.statuses) > before + 20)
    assert traffic.dropped == []
    assert {status for status, _ in traffic.statuses} == {200}
    bodies = [request.body for request in place.plain.requests]
    assert len(bodies) == len(traffic.statuses)
    assert {body[:10] for body in bodies} == {b'{"note": "'}
    kinds = {"sealed" if b'"ev:' in body else "redacted" if b"[redacted]" in body else body for body in bodies}
    assert kinds == {"sealed", "redacted"}


def test_a_bad_file_leaves_the_old_one_in_force(place: Place, relay: Relay, text: str, path: str) -> None:
    bad = {
        "no TOML": text + "[[",
        "unknown key": text.replace("[limits]", "[limits]\nno_such_key = 1"),
        "bad selector": text.replace("$..note", "$..["),
        "another listener": text + section("[inbound]", name="more", address="127.0.0.1:0", upstream=place.plain.url),
        "no certificate": text.replace("server.pem", "no-such.pem"),
        "a bound of connections": text.replace("[limits]", "[limits]\nstreams_max = 7"),
    }
    reloads = relay.metric("fieldseal_relay_reloads_total")
    try:
        for name, broken in bad.items():
            assert broken != text, name
            before = len(relay.log.read_text())
            relay.reload(broken)
            assert "relay not reloaded" in relay.log.read_text()[before:], name
            assert post(relay, path, {"note": MARKER}).status == 200, name
    finally:
        relay.reload(text)
    assert relay.metric("fieldseal_relay_reloads_total") == reloads + 1
    assert no_plaintext(place)


def test_a_reload_takes_up_a_new_certificate(place: Place, relay: Relay, text: str, tmp_path: Path) -> None:
    fresh = place.pki.authority.issue_server(tmp_path, "fresh", ["localhost", "renewed.test"])
    renewed = text.replace(str(place.pki.server.certificate), str(fresh.certificate))
    renewed = renewed.replace(str(place.pki.server.key), str(fresh.key))
    try:
        relay.reload(renewed)
        assert "renewed.test" in _names(relay, place)
    finally:
        relay.reload(text)
    assert "renewed.test" not in _names(relay, place)


def test_a_reload_takes_up_new_authorities_under_the_same_path(
    place: Place, relay: Relay, text: str, tmp_path: Path
) -> None:
    stranger = make_pki(tmp_path)
    believed = tmp_path / "believed.pem"
    believed.write_bytes(place.pki.ca.read_bytes())
    with upstreams.running(stranger.server.context("http/1.1")) as other:
        changed = text.replace(f"localhost:{place.tls.port}", f"localhost:{other.port}")
        changed = changed.replace(str(place.pki.ca), str(believed))
        try:
            relay.reload(changed)
            assert post(relay, "/tls/sealed/a", {"note": MARKER}).json()["code"] == "upstream-certificate"
            believed.write_bytes(stranger.ca.read_bytes())
            relay.reload(changed)
            assert post(relay, "/tls/sealed/a", {"note": MARKER}).status == 200
            believed.write_bytes(place.pki.ca.read_bytes())
            relay.reload(changed)
            assert post(relay, "/tls/sealed/a", {"note": MARKER}).json()["code"] == "upstream-certificate"
        finally:
            relay.reload(text)
        assert len(other.requests) == 1


def _names(relay: Relay, place: Place) -> list[str]:
    context = ssl.create_default_context(cafile=place.pki.ca)
    with socket.create_connection(("127.0.0.1", relay.at("tls").port), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as stream:
            return [name for _, name in stream.getpeercert()["subjectAltName"]]


def test_what_was_begun_is_ended_when_the_relay_stops(place: Place, text: str, tmp_path: Path) -> None:
    """SIGTERM while an answer is on its way: it comes whole, and the program ends with 0."""
    place.plain.clear()
    came = threading.Event()

    def slow(_: Received) -> Answer:
        came.set()
        time.sleep(0.5)
        return ok(b"late")

    place.plain.answer = slow
    answers: list[bytes] = []

    def fetch(port: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/elsewhere")
        answers.append(connection.getresponse().read())
        connection.close()

    with relays.running(place.fieldseal, tmp_path, text) as stopping:
        thread = threading.Thread(target=fetch, args=(stopping.at("plain", False).port,))
        thread.start()
        assert came.wait(10)
    thread.join()
    assert answers == [b"late"]


def test_a_relay_that_is_told_to_stop_serves_on_and_asks_clients_to_go(place: Place, text: str, tmp_path: Path) -> None:
    """For `drain_delay` balancers see that it is not ready, and nothing is refused."""
    place.plain.clear()
    place.plain.answer = lambda _: ok(b"served")
    text = text.replace('drain_delay = "0s"', 'drain_delay = "10s"')
    assert "10s" in text
    with relays.running(place.fieldseal, tmp_path, text) as stopping:
        port = stopping.at("plain", False).port
        kept = HTTPConnection("127.0.0.1", port, timeout=20)
        kept.request("GET", "/elsewhere")
        answer = kept.getresponse()
        assert (answer.read(), answer.headers["connection"]) == (b"served", None)
        stopping.process.send_signal(signal.SIGTERM)
        wait_until(lambda: stopping.operator("/readyz") == (503, "the relay is shutting down\n"))
        asked_to_go = False
        while not asked_to_go:
            # Over the open connection, and over one that comes now.
            fresh = HTTPConnection("127.0.0.1", port, timeout=20)
            for connection in (kept, fresh):
                connection.request("GET", "/elsewhere")
                answer = connection.getresponse()
                assert answer.read() == b"served"
                asked_to_go |= connection is kept and answer.headers["connection"] == "close"
            fresh.close()
            time.sleep(0.02)
        kept.close()
        assert stopping.process.wait(timeout=relays.STOP_SECONDS_MAX) == 0
