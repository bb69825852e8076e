"""Clients that disconnect, trickle, stop reading or stay idle: the relay closes their connections and serves others meanwhile."""

import json
import os
import random
import resource
import socket
import threading
import time
from pathlib import Path

import pytest

import raw_http
import relays
from relay_faults import JSON, LIMITS, MARKER, PATIENCE_SECONDS, Place, Traffic, module_relay, path, place, relay, text
from relay_parts import inbound
from relays import Relay
from upstream import Answer, Received, ok, wait_until

# The log line for a head that trickles.
SLOW_HEAD = "the head arrives too slowly"


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
    # The upstream may have received the beginning, but never a complete request.
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
    before = relay.metric("leafseal_relay_upstream_connections_open")
    stream.close()
    # The relay closes the upstream connection before the answer comes, and logs that the client left, not that the upstream timed out.
    wait_until(lambda: relay.metric("leafseal_relay_upstream_connections_open") < before)
    released.set()
    assert relay.logged("/p", 1)[-1]["status"] == 0


def test_what_a_client_does_not_wait_for_goes_nowhere(place: Place, relay: Relay) -> None:
    """crates/cli/tests/it/relay.rs tests, by the engine's metrics, that the engine cancels its work too."""
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
    """All clients at once: each connection is closed after its timeout, even if it trickles steadily."""
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
        'leafseal_relay_connections_total{listener="plain",event="cut"}': 1,
        'leafseal_relay_connections_total{listener="tls",event="failed"}': 1,
        'leafseal_relay_refusals_total{listener="plain",code="slow_body"}': len(bodies),
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
        assert data.startswith(b"HTTP/1.1 408 ") and b'"slow_body"' in data, (name, data)
        (line,) = relay.logged(bodies[name])
        assert (line["status"], line["outcome"]) == (408, "slow_body"), line
        assert 0 < line["bytes_in"] < 1000, line
    assert {sample: relay.metric(sample) - before[sample] for sample in samples} == samples
    assert relay.log.read_text().count(SLOW_HEAD) == cuts + 1
    assert place.plain.requests == []


def test_a_client_that_takes_nothing_is_ended(place: Place, relay: Relay) -> None:
    """The upstream's response is far larger than all buffers."""
    place.plain.answer = lambda _: Answer(body=bytes(64 << 20))
    path = f"/elsewhere/{random.getrandbits(48):x}"
    with raw_http.connect(relay.at("plain", False).port) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        begin = time.monotonic()
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        (line,) = relay.logged(path)
        assert time.monotonic() - begin > 0.5
    assert (line["status"], line["whole"]) == (200, False)
    assert line["bytes_out"] < 64 << 20


def test_a_thousand_idle_connections(place: Place, path: str, tmp_path: Path) -> None:
    """Idle connections use little memory, others are served meanwhile, and the relay closes each after its idle timeout."""
    place.plain.clear()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    is_open = 'leafseal_relay_connections_open{listener="plain"}'
    closed = 'leafseal_relay_connections_total{listener="plain",event="idle"}'
    text = inbound(place.pki, place.plain, place.tls, place.engine, **{**LIMITS, "idle_timeout": "10s"})
    with relays.running(place.leafseal, tmp_path, text) as relay:
        port, before = relay.at("plain", False).port, _resident(relay)
        with Traffic(relay, path, threads=2) as traffic:
            begin = time.monotonic()
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
            try:
                wait_until(lambda: relay.metric(is_open) >= 1000)
                # 64 KiB for each is already too much.
                assert _resident(relay) - before < 64 << 20
                for stream in idle:
                    stream.settimeout(PATIENCE_SECONDS)
                    assert stream.recv(1) == b""
                assert time.monotonic() - begin > 9.5
            finally:
                for stream in idle:
                    stream.close()
            wait_until(lambda: relay.metric(closed) == 1000)
            # Connections with traffic are not closed.
            wait_until(lambda: relay.metric(is_open) == 2)
        assert traffic.dropped == [] and {status for status, _ in traffic.statuses} == {200}
        assert traffic.count(200) > 0


def _resident(relay: Relay) -> int:
    pages = int(Path(f"/proc/{relay.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
