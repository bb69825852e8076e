"""HTTP handling of the inbound relay: headers, trailers, connections, `100 Continue`, events, WebSockets and the access log."""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest
import websockets.sync.client
from websockets.exceptions import InvalidStatus
from websockets.sync.server import ServerConnection, serve

import relays
from conftest import APP
from curl import Result
from engine import Engine
from leafseal import Leafseal
from relay_calls import AS_JSON, DOCUMENT, JSON, call, simple
from relay_parts import Pki, random_bytes, rule
from relays import Relay
from upstream import Answer, Upstream, echo, ok, wait_until


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_bodies(call: Callable[..., Result], plain_upstream: Upstream, status: int) -> None:
    plain_upstream.answer = lambda _: Answer(status=status, headers=[("Content-Type", JSON), ("ETag", '"e"')])
    answer = call("/secret/a")
    assert (answer.status, answer.body) == (status, b"")


def test_head(call: Callable[..., Result], plain_upstream: Upstream) -> None:
    plain_upstream.answer = lambda _: ok(b'{"secret":"s"}', JSON)
    assert call("/secret/a", "--head").status == 200
    assert plain_upstream.only().method == "HEAD"


def test_a_part_of_an_answer_cannot_be_read(simple: Callable[..., Result], plain_upstream: Upstream) -> None:
    """The relay removes `Range` from requests, and refuses a partial response."""
    part = Answer(status=206, headers=[("Content-Type", JSON), ("Content-Range", "bytes 0-4/99")], body=b'"s3cr')
    plain_upstream.answer = lambda _: part
    answer = simple("/secret/a", "--range", "0-4")
    assert plain_upstream.only().header("Range") is None
    assert answer.status == 502 and b"s3cr" not in answer.body


def test_header_fields(call: Callable[..., Result], plain_upstream: Upstream) -> None:
    fields = ["Cookie: a=1; b=2", "X-Twice: 1", "X-Twice: 2", "X-Forwarded-For: 6.6.6.6"]
    plain_upstream.answer = lambda _: ok(
        b"ok", "text/plain", ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Connection", "X-Theirs"), ("X-Theirs", "1")
    )
    arguments = [argument for field in fields for argument in ("--header", field)]
    answer = call("/elsewhere", "--user-agent", "own/1", *arguments)
    received = plain_upstream.only()
    assert received.values("Cookie") == ["a=1; b=2"]
    assert received.values("X-Twice") == ["1", "2"]
    assert received.values("User-Agent") == ["own/1"]
    assert received.values("X-Forwarded-For") == ["127.0.0.1"]
    assert received.values("X-Forwarded-Host") == received.values("Host") and received.header("Host").startswith(
        "localhost:"
    )
    for name in ("X-Hop", "Proxy-Connection", "Keep-Alive", "Upgrade", "HTTP2-Settings"):
        assert received.values(name) == [], name
    assert answer.values("set-cookie") == ["a=1", "b=2"]
    assert (answer.values("x-theirs"), answer.values("keep-alive")) == ([], [])


def test_connections_are_used_again(relay: Relay, pki: Pki, plain_upstream: Upstream) -> None:
    before = plain_upstream.connections
    context = ssl.create_default_context(cafile=pki.ca)
    with socket.create_connection(("127.0.0.1", relay.at("tls").port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as stream:
            for _ in range(20):
                stream.sendall(
                    b"POST /sealed/a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
                )
                stream.sendall(b'{"note":1}')
                assert stream.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert len(plain_upstream.requests) == 20
    # One may have been closed because of its age, but not nineteen.
    assert plain_upstream.connections - before <= 2
    assert len({request.connection for request in plain_upstream.requests}) <= 2


def test_pipelined_requests_are_answered_in_order(relay: Relay, plain_upstream: Upstream) -> None:
    plain_upstream.answer = lambda request: ok(request.target.encode())
    with socket.create_connection(("127.0.0.1", relay.at("plain").port), timeout=60) as stream:
        stream.sendall(b"".join(b"GET /p%d HTTP/1.1\r\nHost: a\r\n\r\n" % index for index in range(10)))
        data = b""
        while len(re.findall(rb"\r\n\r\n/p\d", data)) < 10:
            data += stream.recv(4096)
    assert re.findall(rb"/p\d", data) == [b"/p%d" % index for index in range(10)]


@pytest.mark.parametrize("path", ["/elsewhere", "/sealed/a"])
def test_expect_100_continue(relay: Relay, plain_upstream: Upstream, path: str) -> None:
    with socket.create_connection(("127.0.0.1", relay.at("plain").port), timeout=60) as stream:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"
        stream.sendall(head.encode())
        assert stream.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        stream.sendall(b'{"note":1}')
        assert stream.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert plain_upstream.only().values("Expect") == []


def test_a_refusal_comes_without_100_continue(relay: Relay, plain_upstream: Upstream) -> None:
    with socket.create_connection(("127.0.0.1", relay.at("plain").port), timeout=60) as stream:
        head = "POST /sealed/a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        stream.sendall(f"{head}Content-Length: 999999999999\r\nExpect: 100-continue\r\n\r\n".encode())
        assert stream.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert plain_upstream.saw_nothing()


def through_with_trailers(relay: Relay, upstream: Upstream, path: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Returns the trailers of the request at the upstream and of the response; names in lower case."""
    sent, answered = [("X-Own", "1"), ("X-Card", "4242"), ("X_CARD", "4242")], [("X-Sum", "6"), ("X-Card", "secret")]

    def names(fields: list[tuple[str, str]]) -> str:
        return ", ".join(name for name, _ in fields)

    upstream.answer = lambda _: Answer(headers=[("Trailer", names(answered))], pieces=[b"one", b"two"], trailers=answered)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: {names(sent)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailers = "".join(f"{name}: {value}\r\n" for name, value in sent)
    with socket.create_connection(("127.0.0.1", relay.at("plain").port), timeout=60) as stream:
        stream.sendall(f"{head}3\r\nabc\r\n0\r\n{trailers}\r\n".encode())
        data = b""
        while not data.endswith(b"\r\n\r\n") or b"\r\n0\r\n" not in data:
            data += stream.recv(4096)
    assert data.startswith(b"HTTP/1.1 200 ") and b"one" in data and b"two" in data
    received = upstream.only()
    assert received.body == b"abc"
    lines = data.split(b"\r\n0\r\n")[1].decode().split("\r\n")
    came = {(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines if line)}
    return {(name.lower(), value) for name, value in received.trailers}, came


def test_trailers_pass_where_the_body_does(relay: Relay, plain_upstream: Upstream) -> None:
    sent, came = through_with_trailers(relay, plain_upstream, "/elsewhere")
    assert sent == {("x-own", "1"), ("x-card", "4242"), ("x_card", "4242")}
    assert came == {("x-sum", "6"), ("x-card", "secret")}


def test_what_is_to_be_hidden_in_headers_does_not_pass_in_trailers(relay: Relay, plain_upstream: Upstream) -> None:
    sample = 'leafseal_relay_refusals_total{listener="plain",code="hidden_trailer"}'
    before = relay.metric(sample)
    assert through_with_trailers(relay, plain_upstream, "/trailers/a") == ({("x-own", "1")}, {("x-sum", "6")})
    assert relay.metric(sample) == before + 3
    assert "x_card" in relay.log.read_text() and "X-Card: 4242" not in relay.written()
    # This route decrypts responses and encrypts nothing in them.
    plain_upstream.clear()
    assert through_with_trailers(relay, plain_upstream, "/headers/a") == (
        {("x-own", "1")},
        {("x-sum", "6"), ("x-card", "secret")},
    )


def test_server_sent_events_are_not_held_back(relay: Relay, plain_upstream: Upstream) -> None:
    held = [True]

    def events() -> object:
        yield b"data: first\n\n"
        wait_until(lambda: not held[0])
        yield b"data: last\n\n"

    plain_upstream.answer = lambda _: Answer(headers=[("Content-Type", "text/event-stream")], pieces=events())
    connection = HTTPConnection("127.0.0.1", relay.at("plain").port, timeout=60)
    connection.request("GET", "/elsewhere")
    answer = connection.getresponse()
    # The upstream sends no second event before the first is received.
    assert answer.read1() == b"data: first\n\n"
    held[0] = False
    assert answer.read() == b"data: last\n\n"
    connection.close()


@pytest.fixture(scope="module")
def chat() -> Iterator[int]:
    """The port of a WebSocket server that returns each message reversed."""

    def answer(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(message[::-1])

    with serve(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def chat_relay(
    tmp_path_factory: pytest.TempPathFactory, leafseal: Leafseal, engine: Engine, pki: Pki, chat: int
) -> Iterator[Relay]:
    text = relays.process_section() + relays.engine_section(engine)
    identity = {"certificate": str(pki.server.certificate), "private_key": str(pki.server.key)}
    text += relays.section(
        "[inbound]", name="tls", address="127.0.0.1:0", upstream=f"http://127.0.0.1:{chat}", **identity
    )
    text += relays.section("[inbound.route]", path="/read", app=APP, response=[rule("decrypt", json=["$"])])
    with relays.running(leafseal, tmp_path_factory.mktemp("chat"), text) as running:
        yield running


def test_websockets(chat_relay: Relay, pki: Pki) -> None:
    context = ssl.create_default_context(cafile=pki.ca)
    address = f"wss://localhost:{chat_relay.at('tls').port}"
    with websockets.sync.client.connect(f"{address}/chat?room=1", ssl=context, proxy=None) as connection:
        for message in ("hello", "", "é" * 70_000, b"\x00\xff", random_bytes(300_000)):
            connection.send(message)
            assert connection.recv(timeout=60) == message[::-1]
        # Neither side waits for the other.
        for index in range(100):
            connection.send(f"message {index}")
        assert [connection.recv(timeout=60)[::-1] for _ in range(100)] == [f"message {index}" for index in range(100)]
    (line,) = chat_relay.logged("/chat")
    assert line["status"] == 101


def test_what_another_protocol_carries_does_not_pass_a_rule_by(chat_relay: Relay, pki: Pki) -> None:
    """A route with rules refuses protocol upgrades, because the relay could not process the content."""
    context = ssl.create_default_context(cafile=pki.ca)
    with pytest.raises(InvalidStatus):
        websockets.sync.client.connect(f"wss://localhost:{chat_relay.at('tls').port}/read", ssl=context, proxy=None)


def test_the_access_log_tells_what_was_done_and_no_more(
    call: Callable[..., Result], relay: Relay, plain_upstream: Upstream
) -> None:
    plain_upstream.answer = echo
    path = f"/json/log-{time.monotonic_ns()}"
    call(f"{path}?token=query-secret", *AS_JSON, "--header", "Authorization: Bearer head-secret", data=DOCUMENT)
    (line,) = relay.logged(path)
    assert (line["method"], line["status"], line["sealed"], line["opened"]) == ("POST", 200, 4, 4)
    assert (line["bytes_in"], line["whole"]) == (len(DOCUMENT), True)
    for secret in ("query-secret", "head-secret", "4242 4242", "ev:"):
        assert secret not in relay.written()
