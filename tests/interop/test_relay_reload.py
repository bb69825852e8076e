"""Reloading and stopping a relay under traffic: no request is dropped, and an invalid file changes nothing."""

import signal
import socket
import ssl
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

import relays
import upstream as upstreams
from relay_faults import MARKER, Place, Traffic, module_relay, no_plaintext, path, place, post, relay, text
from relay_parts import make_pki
from relays import Relay, section
from upstream import Answer, Received, ok, wait_until


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
    reloads = relay.metric("leafseal_relay_reloads_total")
    try:
        for name, broken in bad.items():
            assert broken != text, name
            before = len(relay.log.read_text())
            relay.reload(broken)
            assert "relay not reloaded" in relay.log.read_text()[before:], name
            assert post(relay, path, {"note": MARKER}).status == 200, name
    finally:
        relay.reload(text)
    assert relay.metric("leafseal_relay_reloads_total") == reloads + 1
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
            assert post(relay, "/tls/sealed/a", {"note": MARKER}).json()["code"] == "upstream_certificate"
            believed.write_bytes(stranger.ca.read_bytes())
            relay.reload(changed)
            assert post(relay, "/tls/sealed/a", {"note": MARKER}).status == 200
            believed.write_bytes(place.pki.ca.read_bytes())
            relay.reload(changed)
            assert post(relay, "/tls/sealed/a", {"note": MARKER}).json()["code"] == "upstream_certificate"
        finally:
            relay.reload(text)
        assert len(other.requests) == 1


def _names(relay: Relay, place: Place) -> list[str]:
    context = ssl.create_default_context(cafile=place.pki.ca)
    with socket.create_connection(("127.0.0.1", relay.at("tls").port), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as stream:
            return [name for _, name in stream.getpeercert()["subjectAltName"]]


def test_what_was_begun_is_ended_when_the_relay_stops(place: Place, text: str, tmp_path: Path) -> None:
    """SIGTERM during a response: it is completed, and the program exits with 0."""
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

    with relays.running(place.leafseal, tmp_path, text) as stopping:
        thread = threading.Thread(target=fetch, args=(stopping.at("plain", False).port,))
        thread.start()
        assert came.wait(10)
    thread.join()
    assert answers == [b"late"]


def test_a_relay_that_is_told_to_stop_serves_on_and_asks_clients_to_go(place: Place, text: str, tmp_path: Path) -> None:
    """During `drain_delay` the relay reports that it is not ready, and refuses nothing."""
    place.plain.clear()
    place.plain.answer = lambda _: ok(b"served")
    text = text.replace('drain_delay = "0s"', 'drain_delay = "10s"')
    assert "10s" in text
    with relays.running(place.leafseal, tmp_path, text) as stopping:
        port = stopping.at("plain", False).port
        kept = HTTPConnection("127.0.0.1", port, timeout=20)
        kept.request("GET", "/elsewhere")
        answer = kept.getresponse()
        assert (answer.read(), answer.headers["connection"]) == (b"served", None)
        stopping.process.send_signal(signal.SIGTERM)
        wait_until(lambda: stopping.operator("/readyz") == (503, "the relay is shutting down\n"))
        asked_to_go = False
        while not asked_to_go:
            # Over the open connection, and over a new one.
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
