"""Bodies and headers through the outbound relay, with curl and an upstream that records every byte."""

import base64
import gzip
import hashlib
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

import upstream as upstreams
from relay_outbound import APP, JSON, Setting, authorization, charge, check_log, connect, setting, through_proxy, upstream
from relay_parts import make_pki
from upstream import Upstream, echo, ok


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl(setting: Setting, upstream: Upstream, version: str) -> None:
    sealed = setting.leafseal.encrypt(APP, b'{"card":"4242-card","n":7}')
    answer = through_proxy(setting, setting.url("/charge/1"), version, "--header", f"Content-Type: {JSON}", data=sealed)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert answer.version == ("2" if version == "--http2" else "1.1")
    assert upstream.only().body == b'{"card":"4242-card","n":7}'
    assert answer.json()["token"].startswith("ev:")


def test_forms_are_opened(setting: Setting, upstream: Upstream) -> None:
    sealed = json.loads(setting.leafseal.encrypt(APP, b'["4242 4242"]'))[0]
    through_proxy(setting, setting.url("/charge/1"), "--data-urlencode", f"card={sealed}", "--data", "open=1")
    assert upstream.only().body == b"card=4242+4242&open=1"
    upstream.clear()
    through_proxy(setting, setting.url("/charge/1"), "--form", f"card={sealed}", "--form", "open=1")
    body = upstream.only().body
    assert b"\r\n\r\n4242 4242\r\n" in body and b"ev:" not in body


def test_bodies_without_envelopes_and_without_rules_are_untouched(setting: Setting, upstream: Upstream) -> None:
    upstream.answer = echo
    body = os.urandom(1 << 20)
    answer = through_proxy(
        setting, setting.url("/elsewhere"), "--header", "Content-Type: application/octet-stream", data=body
    )
    assert upstream.only().body == answer.body == body


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_bodies_of_every_length_are_untouched(
    setting: Setting, upstream: Upstream, version: str, is_chunked: bool, size: int
) -> None:
    upstream.answer = echo
    body = os.urandom(size)
    chunked = ("--header", "Transfer-Encoding: chunked") if is_chunked and version == "--http1.1" else ()
    kind = ("--header", "Content-Type: application/octet-stream")
    answer = through_proxy(setting, setting.url("/elsewhere"), version, *chunked, *kind, data=body)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert upstream.only().body == answer.body == body


def test_fifty_megabytes(setting: Setting, upstream: Upstream) -> None:
    """Streamed bytes, and a document with one envelope at its end. Compared by hash, so that a difference is reported in one line."""
    upstream.answer = echo
    bulk = os.urandom(1 << 20) * 50
    kind = ("--header", "Content-Type: application/octet-stream")
    answer = through_proxy(setting, setting.url("/elsewhere"), *kind, data=bulk)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert _hash(upstream.only().body) == _hash(answer.body) == _hash(bulk)
    upstream.clear()
    upstream.answer = charge
    text = base64.b64encode(os.urandom(3 << 18)) * 50
    sealed = setting.leafseal.encrypt(APP, b'["4242-card"]')[1:-1]
    document = b'{"bulk":"' + text + b'","card":' + sealed + b"}"
    answer = through_proxy(setting, setting.url("/charge/1"), "--header", f"Content-Type: {JSON}", data=document)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert _hash(upstream.only().body) == _hash(b'{"bulk":"' + text + b'","card":"4242-card"}')


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_bodies_of_unknown_length_are_opened(setting: Setting, upstream: Upstream, version: str) -> None:
    sealed = setting.leafseal.encrypt(APP, b'{"card":"4242-card"}')
    chunked = ("--header", "Transfer-Encoding: chunked") if version == "--http1.1" else ()
    kind = ("--header", f"Content-Type: {JSON}")
    answer = through_proxy(setting, setting.url("/charge/1"), version, *chunked, *kind, data=sealed)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert upstream.only().body == b'{"card":"4242-card"}'


def test_coded_bodies_are_opened_and_sealed_in_their_coding(setting: Setting, upstream: Upstream) -> None:
    answered = gzip.compress(b'{"token":"tok_1","open":1}')
    upstream.answer = lambda _: ok(answered, JSON, ("Content-Encoding", "gzip"))
    sealed = gzip.compress(setting.leafseal.encrypt(APP, b'{"card":"4242-card"}'))
    kind = ("--header", f"Content-Type: {JSON}", "--header", "Content-Encoding: gzip", "--header", "Accept-Encoding: gzip")
    answer = through_proxy(setting, setting.url("/charge/1"), *kind, data=sealed)
    assert (answer.code, answer.status) == (0, 200), answer.message
    received = upstream.only()
    assert received.header("Content-Encoding") == "gzip"
    assert gzip.decompress(received.body) == b'{"card":"4242-card"}'
    assert answer.header("content-encoding") == "gzip"
    opened = setting.leafseal.decrypt(APP, gzip.decompress(answer.body))
    assert opened == b'{"token":"tok_1","open":1}' and b"tok_1" not in gzip.decompress(answer.body)


def test_headers_are_opened_and_sealed(setting: Setting, upstream: Upstream) -> None:
    upstream.answer = lambda _: ok(b"body", "text/plain", ("X-Token", "tok_1"), ("X-Open", "1"))
    sealed = json.loads(setting.leafseal.encrypt(APP, b'["4242-card"]'))[0]
    fields = ("--header", f"X-Card: {sealed}", "--header", "X-Open: 1")
    answer = through_proxy(setting, setting.url("/headers/1"), *fields)
    assert (answer.code, answer.status, answer.body) == (0, 200, b"body"), answer.message
    received = upstream.only()
    assert (received.header("X-Card"), received.header("X-Open")) == ("4242-card", "1")
    assert answer.header("x-open") == "1"
    envelope = json.dumps([answer.header("x-token")]).encode()
    assert setting.leafseal.decrypt(APP, envelope) == b'["tok_1"]'


@pytest.mark.parametrize("path", ["/Charge/1", "/CHARGE", "/ch%41rge/1", "/Headers/1"])
def test_a_path_in_another_case_does_not_pass_a_rule_by(setting: Setting, upstream: Upstream, path: str) -> None:
    """The upstream may treat the path as equal and respond with values that must be encrypted."""
    upstream.answer = lambda _: ok(b'{"token":"tok_1"}', JSON, ("X-Token", "tok_1"))
    answer = through_proxy(setting, setting.url(path))
    assert (answer.status, answer.json()["code"]) == (400, "ambiguous_path")
    assert upstream.saw_nothing()


def test_a_path_in_another_case_passes_where_nothing_is_to_be_hidden(setting: Setting, upstream: Upstream) -> None:
    """Its envelopes are not decrypted, because the rule is for another destination."""
    sealed = setting.leafseal.encrypt(APP, b'{"card":"4242-card"}')
    answer = through_proxy(setting, setting.url("/Roles/1"), "--header", f"Content-Type: {JSON}", data=sealed)
    assert (answer.status, upstream.only().body) == (200, sealed)


def test_a_forged_envelope_does_not_leave(setting: Setting, upstream: Upstream) -> None:
    sealed = json.loads(setting.leafseal.encrypt(APP, b'["x"]'))[0]
    forged = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    answer = through_proxy(
        setting, setting.url("/charge/1"), "--header", f"Content-Type: {JSON}", data=json.dumps([forged]).encode()
    )
    assert (answer.status, answer.json()["code"]) == (422, "decrypt_failed")
    assert upstream.saw_nothing()


def test_the_destinations_certificate_is_verified(setting: Setting, tmp_path: Path) -> None:
    stranger = make_pki(tmp_path)
    with upstreams.running(stranger.server.context("http/1.1")) as wrong:
        answer = through_proxy(
            setting, f"https://localhost:{wrong.port}/charge/1", "--header", f"Content-Type: {JSON}", data=b"{}"
        )
        assert (answer.status, answer.json()["code"]) == (502, "upstream_certificate")
        assert wrong.saw_nothing()


def test_certificates_are_made_for_the_host_that_was_asked_for(setting: Setting, upstream: Upstream) -> None:
    names = []
    for host in ("localhost", "a.example.test"):
        with connect(setting, f"{host}:{upstream.port}", authorization(setting.key)).inside(
            setting.relay_ca, host
        ) as stream:
            names.append(stream.getpeercert()["subjectAltName"])
    assert names == [(("DNS", "localhost"),), (("DNS", "a.example.test"),)]


def test_nothing_secret_is_logged(setting: Setting) -> None:
    """Runs after all requests of this file; the fixture checks the log of every other file in the same way."""
    check_log(setting)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("route", ["charge", "elsewhere"])
def test_envelopes_that_reach_a_third_party_sealed_are_reported(
    setting: Setting, upstream: Upstream, version: str, route: str
) -> None:
    """With rules that cannot read them, and where no rule applies."""
    sealed = json.loads(setting.leafseal.encrypt(APP, b'["4242-card"]'))[0]
    text, typed = sealed.encode(), "Content-Type: {}"
    escaped = json.dumps({"card": sealed}).replace(":", "\\u003a").replace('"card"\\u003a', '"card":').encode()
    lines = json.dumps({"card": sealed}).encode() + b"\n"
    cases = {
        "plain": ([typed.format("text/plain")], b"x" * 70_000 + text, {"body": "envelope"}),
        "odd": ([typed.format("application/json; utf-8")], lines, {"body": "envelope"}),
        "gzip": ([typed.format("text/plain"), "Content-Encoding: gzip"], gzip.compress(text), {"body": "envelope"}),
        "deflate": ([typed.format(JSON), "Content-Encoding: deflate"], text, {"body": "unreadable-coding"}),
        "header": (["X-Token: " + sealed], None, {"head": "envelope"}),
        "long": ([typed.format("text/plain")], b"x" * (2 << 20), {"body": "beyond-limit"}),
        "nothing": ([typed.format("text/plain")], b"event: prev:next", {}),
    }
    if route == "elsewhere":
        cases["escaped"] = ([typed.format(JSON)], escaped, {"body": "envelope"})
        cases["lines"] = ([typed.format("application/x-ndjson")], lines, {"body": "envelope"})
    else:
        # Opened by the rules.
        cases["lines"] = ([typed.format("application/x-ndjson")], lines, {})
    for name, (fields, body, expected) in cases.items():
        upstream.clear()
        upstream.answer = charge
        path = f"/{route}/{name}{version}"
        headers = [argument for field in fields for argument in ("--header", field)]
        answer = through_proxy(setting, setting.url(path), version, *headers, data=body)
        assert (answer.code, answer.status) == (0, 200), (name, answer.body)
        line = setting.relay.logged(path)[0]
        found = {key.removeprefix("sealed_request_"): value for key, value in line.items() if key.startswith("sealed_")}
        assert found == expected, name
        if body is not None and not (route == "charge" and name == "lines"):
            assert upstream.only().body == body, name
    path = f"/{route}/query{version}"
    through_proxy(setting, setting.url(f"{path}?card={quote(sealed)}"), version)
    assert setting.relay.logged(path)[0]["sealed_request_head"] == "envelope"
    counted = 'leafseal_relay_sealed_forwarded_total{listener="proxy",place="%s"}'
    assert setting.relay.metric(counted % "request_head") >= 2
    assert setting.relay.metric(counted % "request_body") >= 3
