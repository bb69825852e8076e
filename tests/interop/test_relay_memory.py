"""Memory of the engine's answers, which may be many times larger than the requests: charged while they arrive, and dropped above the
limit."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import relays
from conftest import APP
from curl import Result, curl
from engine import Engine
from leafseal import Leafseal
from relay_parts import rule
from relays import Relay
from upstream import Upstream, echo, wait_until

BODIES_SIZE_MAX = 8 << 20
#: Further memory of the relay: connections, TLS of both sides, and memory that the allocator has not returned.
BESIDE_MAX = 24 << 20
SELECTED = 300_000


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory, leafseal: Leafseal, engine: Engine, plain_upstream: Upstream
) -> Iterator[Relay]:
    text = relays.process_section() + relays.engine_section(engine)
    text += relays.section("limits", bodies_size_max=BODIES_SIZE_MAX, client_bodies_size_max=BODIES_SIZE_MAX, body_size_max=2 << 20)
    text += relays.section("[inbound]", name="front", address="127.0.0.1:0", upstream=plain_upstream.url)
    text += relays.section("[inbound.route]", app=APP, path="/**", request=[rule("encrypt", json=["$.list"], form=["card"])])
    with relays.running(leafseal, tmp_path_factory.mktemp("memory"), text) as relay:
        yield relay


@pytest.fixture
def upstream(plain_upstream: Upstream) -> Upstream:
    plain_upstream.clear()
    plain_upstream.answer = echo
    return plain_upstream


def post(front: Relay, media_type: str, body: bytes) -> Result:
    result = curl(front.at("front", False).url("/"), "--header", f"Content-Type: {media_type}", data=body)
    assert result.code == 0, result.message
    return result


def peak(front: Relay) -> int:
    """The relay's peak resident memory."""
    lines = Path(f"/proc/{front.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def test_an_answer_for_which_there_is_no_room_is_dropped_as_it_arrives(front: Relay, upstream: Upstream) -> None:
    document = json.dumps({"list": [0] * SELECTED}, separators=(",", ":")).encode()
    assert post(front, "application/json", b'{"list":[1]}').status == 200
    upstream.clear()
    upstream.answer = echo
    before = peak(front)
    for _ in range(3):
        answer = post(front, "application/json", document)
        assert (answer.status, answer.json()["code"]) == (503, "relay_overloaded")
    # Without the limit each of these answers takes 40 MB.
    assert peak(front) - before < BODIES_SIZE_MAX + BESIDE_MAX
    assert upstream.saw_nothing
    assert front.metric('leafseal_relay_engine_calls_total{method="encrypt_document",outcome="no_memory"}') == 3
    # The connection to the engine stays open, and the charged memory is released.
    large = json.dumps({"list": [1] * 10_000, "x": "x" * (1 << 20)}).encode()
    assert post(front, "application/json", large).status == 200
    wait_until(lambda: front.metric("leafseal_relay_buffered_bodies_bytes") == 0)
    assert front.metric("leafseal_relay_buffered_bodies_limit_bytes") == BODIES_SIZE_MAX
    assert 1 << 20 < front.metric("leafseal_relay_buffered_bodies_peak_bytes") <= BODIES_SIZE_MAX


def test_answers_for_forms_are_charged_too(front: Relay, upstream: Upstream) -> None:
    form = "application/x-www-form-urlencoded"
    fields = b"&".join([b"card=%d" % number for number in range(9_999)])
    assert post(front, form, b"&".join([b"card=4111"] * 100)).status == 200
    upstream.clear()
    upstream.answer = echo
    assert post(front, form, fields).status == 200
    upstream.clear()
    upstream.answer = echo
    padding = b"&x=" + b"x" * (700 << 10)
    answer = post(front, form, fields + padding)
    assert (answer.status, answer.json()["code"]) == (503, "relay_overloaded")
    assert upstream.saw_nothing
