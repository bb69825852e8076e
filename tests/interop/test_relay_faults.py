"""Faults behind a relay, in engines and upstreams: each is bounded, logged, and discloses no plaintext."""

import json
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

import engine as engines
import relays
import upstream as upstreams
from certificates import Authority, yesterday
from curl import HTTP2_STREAM, PARTIAL_FILE, RECEIVE_ERROR, Result, curl
from relay_faults import JSON, MARKER, Place, Traffic, module_relay, no_plaintext, path, place, post, relay, text
from relays import Relay, section
from upstream import Answer, Received, ok, wait_until

CUT = (PARTIAL_FILE, RECEIVE_ERROR, HTTP2_STREAM)


def test_the_relay_tells_of_itself_and_of_the_engine(place: Place, relay: Relay, path: str) -> None:
    version = place.leafseal.run("--version").decode().split()[-1]
    assert relay.metric(f'leafseal_relay_build_info{{version="{version}"}}') == 1
    wait_until(lambda: relay.metric("leafseal_relay_ready") == 1)
    calls = 'leafseal_relay_engine_calls_total{method="encrypt_document",outcome="ok"}'
    timed = 'leafseal_relay_engine_call_seconds_count{method="encrypt_document"}'
    before = relay.metric(calls)
    assert post(relay, path, {"note": MARKER}).status == 200
    assert relay.metric(calls) == before + 1 and relay.metric(timed) > 0
    assert relay.metric("leafseal_relay_access_log_lines_dropped_total") == 0
    # A reload opens new connections to the engine but does not reset counters.
    relay.reload(relay.file.read_text())
    assert relay.metric(calls) == before + 1


def test_a_second_relay_at_the_same_address_is_refused(place: Place, relay: Relay, text: str, tmp_path: Path) -> None:
    """Otherwise the system would let both listen, and the second would serve a part of the requests by its own rules."""
    address = relay.ready["plain"]
    file = tmp_path / "second.toml"
    head, _, _ = text.partition("[[inbound]]")
    file.write_text(head + section("[inbound]", name="second", address=address, upstream=place.plain.url))
    command = place.leafseal.command("relay", "--file", str(file), "--access-log", str(tmp_path / "log"), "--json")
    second = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert (second.returncode, second.stdout) == (3, "")
    assert f"cannot listen at {address}" in second.stderr and "choose another address" in second.stderr
    # All requests are served by the rules of the first.
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
        assert answer.json()["code"] == "unavailable"
        assert place.plain.saw_nothing()
        # A response that cannot be encrypted is not forwarded.
        place.plain.answer = lambda _: ok(json.dumps({"secret": MARKER}).encode(), JSON)
        answer = curl(relay.at("plain", False).url("/secret/a"), data=b"x")
        assert answer.status == 503 and answer.header("retry-after")
        assert MARKER.encode() not in answer.body
        assert place.plain.saw_nothing(), "what is to be repeated has not been done"
        # Requests that need no engine pass.
        assert curl(relay.at("plain", False).url("/elsewhere")).status == 200
        wait_until(lambda: relay.operator("/readyz")[0] == 503)
        assert relay.operator("/livez")[0] == 200
    finally:
        place.start_engine()
    wait_until(lambda: post(relay, path, {"note": MARKER}).status == 200)
    wait_until(lambda: relay.operator("/readyz")[0] == 200)
    assert relay.logged(path)[0]["outcome"] == "unavailable"
    assert no_plaintext(place) and MARKER not in relay.written()


def test_a_request_that_is_done_is_not_asked_for_again(place: Place, relay: Relay) -> None:
    """The engine stops between a request and its response."""

    def answer(_: Received) -> Answer:
        engines.kill(place.engine)
        return ok(json.dumps({"secret": MARKER}).encode(), JSON)

    place.plain.answer = answer
    answers: list[Result] = []

    def is_done() -> bool:
        # A thread of the relay may still be in the reconnect backoff from the previous test: then nothing is forwarded.
        answers.append(curl(relay.at("plain", False).url("/secret/done"), data=b"x"))
        return answers[-1].status != 503

    try:
        wait_until(is_done)
        assert (answers[-1].status, answers[-1].json()["code"]) == (502, "answer_lost")
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
    # Exactly the requests with status 200 arrived, encrypted.
    assert len(place.plain.requests) == traffic.count(200)
    assert no_plaintext(place) and MARKER not in relay.written()


def test_an_overloaded_engine(place: Place, text: str, path: str, tmp_path: Path) -> None:
    """Through a relay without retries: otherwise most requests succeed after a while."""
    place.plain.clear()
    without_retries = text.replace("[engine]\n", "[engine]\nretries_max = 0\n")
    assert without_retries != text
    with relays.running(place.leafseal, tmp_path, without_retries) as relay:
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
        assert {answer.json()["code"] for answer in refused} == {"overloaded"}
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
    assert relay.logged(path)[0]["outcome"] == "upstream_timeout"


def test_no_upstream(place: Place, relay: Relay, text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    relay.reload(text.replace(f"127.0.0.1:{place.plain.port}", f"127.0.0.1:{port}"))
    try:
        answer = curl(relay.at("plain", False).url("/elsewhere"))
        assert (answer.status, answer.json()["code"]) == (502, "upstream_unreachable")
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
            assert answer.json()["code"] == "upstream_certificate"
            assert wrong.saw_nothing()
            assert relay.logged(path)[0]["outcome"] == "upstream_certificate"
        finally:
            relay.reload(text)
