"""Request smuggling: requests that two readers could split differently (vectors/http-smuggling), against the inbound relay.

A probe follows each case: once it arrives, everything the case sent has arrived.
"""

import json
import re
import socket
import ssl
from pathlib import Path

import pytest

import raw_http
from relay_parts import Pki
from relays import Relay
from upstream import Received, Upstream, ok

CORPUS = Path(__file__).parents[2] / "vectors" / "http-smuggling"
CASES: list[dict[str, object]] = json.loads((CORPUS / "index.json").read_text())
PROBE = b"GET /probe HTTP/1.1\r\nHost: front.test\r\n\r\n"


def cases(outcome: str, ending: str) -> list[object]:
    chosen = [case for case in CASES if case["outcome"] == outcome and str(case["file"]).endswith(ending)]
    return [pytest.param(case, id=str(case["file"]).removesuffix(ending)) for case in chosen]


def bytes_of(case: dict[str, object]) -> bytes:
    return (CORPUS / str(case["file"])).read_bytes()


@pytest.fixture(params=["plain", "tls"])
def wire(request: pytest.FixtureRequest, relay: Relay, pki: Pki) -> tuple[int, Path | None]:
    """The port of a listener, and the authority if it uses TLS."""
    is_tls = request.param == "tls"
    return relay.at(request.param, is_tls).port, pki.ca if is_tls else None


def probe(relay: Relay) -> None:
    """A complete request on another connection: once it arrives, everything sent before has arrived."""
    with raw_http.connect(relay.at("plain", False).port) as stream:
        stream.sendall(PROBE)
        assert raw_http.AnswerReader(stream).next()[0] == 200


def without_probe(upstream: Upstream) -> list[Received]:
    return [request for request in upstream.requests if request.target != "/probe"]


def send(stream: socket.socket, content: bytes) -> None:
    """Sends until the peer refuses and closes."""
    try:
        stream.sendall(content)
    except (ConnectionError, ssl.SSLEOFError):
        pass


def check_refused(upstream: Upstream, case: dict[str, object]) -> None:
    assert upstream.faults == []
    assert without_probe(upstream) == []
    if not case["begun"]:
        assert upstream.gone == 0


def check_forwarded(upstream: Upstream, case: dict[str, object]) -> None:
    assert (upstream.faults, upstream.gone) == ([], 0)
    received = without_probe(upstream)
    found = [(request.method, request.target, request.body.decode("latin-1")) for request in received]
    assert found == [(it["method"], it["target"], it["body"]) for it in case["requests"]]
    for request, expected in zip(received, case["requests"], strict=True):
        if "host" in expected:
            assert request.values("Host") == [expected["host"]]
        for name, values in expected.get("fields", {}).items():
            assert request.values(name) == values
        for name in expected.get("absent", []):
            assert request.values(name) == [], name


@pytest.mark.parametrize("case", cases("refused", ".http"))
def test_refused(relay: Relay, plain_upstream: Upstream, case: dict[str, object]) -> None:
    with raw_http.connect(relay.at("plain", False).port) as stream:
        send(stream, bytes_of(case))
        answer = raw_http.read_to_end(stream)
    assert re.match(rb"HTTP/1\.[01] %d " % case["status"], answer), answer[:200]
    assert len(re.findall(rb"HTTP/1\.[01] ", answer)) == 1
    probe(relay)
    check_refused(plain_upstream, case)


@pytest.mark.parametrize("case", cases("forwarded", ".http"))
def test_forwarded(wire: tuple[int, Path | None], plain_upstream: Upstream, case: dict[str, object]) -> None:
    plain_upstream.answer = lambda request: ok(request.target.encode())
    with raw_http.connect(*wire) as stream:
        stream.sendall(bytes_of(case) + PROBE)
        reader = raw_http.AnswerReader(stream)
        targets = [*(it["target"] for it in case["requests"]), "/probe"]
        assert [reader.next() for _ in targets] == [(200, target.encode()) for target in targets]
    check_forwarded(plain_upstream, case)


@pytest.mark.parametrize("case", cases("refused", ".h2"))
def test_refused_over_http2(relay: Relay, pki: Pki, plain_upstream: Upstream, case: dict[str, object]) -> None:
    with raw_http.connect(relay.at("tls").port, pki.ca, "h2") as stream:
        send(stream, bytes_of(case))
        outcome = raw_http.http2_outcome(stream)
    assert outcome in ("reset", "goaway") or (isinstance(outcome, int) and 400 <= outcome < 500), outcome
    probe(relay)
    check_refused(plain_upstream, case)


@pytest.mark.parametrize("case", cases("forwarded", ".h2"))
def test_forwarded_over_http2(relay: Relay, pki: Pki, plain_upstream: Upstream, case: dict[str, object]) -> None:
    with raw_http.connect(relay.at("tls").port, pki.ca, "h2") as stream:
        stream.sendall(bytes_of(case))
        assert raw_http.http2_outcome(stream) == 200
    probe(relay)
    check_forwarded(plain_upstream, case)


def test_every_file_is_in_the_index() -> None:
    files = {path.name for path in CORPUS.iterdir() if path.suffix in (".http", ".h2")}
    assert files == {case["file"] for case in CASES}
    assert len(CASES) == len(files)
