"""Compressed bodies, bodies that cannot be read, and envelopes that do not open."""

import gzip
import json
import time
import urllib.parse
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from conftest import APP
from curl import Result
from decryptor import Decryptor
from leafseal import Leafseal
from relay_calls import AS_JSON, DOCUMENT, JSON, call, opened, simple
from relays import Relay
from upstream import Answer, Upstream, echo, ok

CODINGS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": (gzip.compress, gzip.decompress),
    "br": (brotli.compress, brotli.decompress),
    "zstd": (zstandard.compress, lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


@pytest.mark.parametrize("coding", list(CODINGS))
def test_codings(
    call: Callable[..., Result], plain_upstream: Upstream, leafseal: Leafseal, decryptor: Decryptor, coding: str
) -> None:
    encode, decode = CODINGS[coding]
    sealed = leafseal.encrypt(APP, b'{"back":"opened"}')
    plain_upstream.answer = lambda _: ok(encode(sealed), JSON, ("Content-Encoding", coding))
    document = b'{"note":"' + b"long " * 1000 + b'","rest":1}'
    arguments = ("--header", f"Content-Encoding: {coding}", "--header", f"Accept-Encoding: {coding}, deflate")
    answer = call("/json/a", *AS_JSON, *arguments, data=encode(document))

    received = plain_upstream.only()
    assert received.values("Content-Encoding") == [coding]
    assert opened(decryptor, decode(received.body)) == (document, 1)
    # The relay does not request codings that it cannot decode.
    assert received.header("Accept-Encoding") == coding
    assert answer.values("content-encoding") == [coding]
    assert decode(answer.body) == b'{"back":"opened"}'


def test_coded_bodies_that_nothing_is_selected_of_stay_coded(
    call: Callable[..., Result], plain_upstream: Upstream
) -> None:
    plain_upstream.answer = echo
    coded = gzip.compress(DOCUMENT)
    answer = call("/elsewhere", *AS_JSON, "--header", "Content-Encoding: gzip", data=coded)
    assert (plain_upstream.only().body, answer.body) == (coded, coded)


UNREADABLE = {
    "no JSON": (JSON, None, b'{"note":"secret-value"'),
    "two documents": (JSON, None, b'{"note":"secret-value"}{}'),
    "not UTF-8": (JSON, None, b'{"note":"secret-value\xff"}'),
    "another charset": ("application/json; charset=utf-16", None, '{"note":"secret-value"}'.encode("utf-16")),
    "text": ("text/plain", None, b"note=secret-value"),
    "no type": ("", None, b'{"note":"secret-value"}'),
    "not gzip": (JSON, "gzip", b'{"note":"secret-value"}'),
    "cut gzip": (JSON, "gzip", gzip.compress(b'{"note":"secret-value"}')[:-3]),
    "more behind gzip": (JSON, "gzip", gzip.compress(b'{"note":1}') + b'{"note":"secret-value"}'),
    "brotli with a window of a gigabyte": (JSON, "br", b"\x11\x1e" + b"\xff" * 14),
    "zstd with a window of 16 MiB": (JSON, "zstd", b"\x28\xb5\x2f\xfd\x00\x70\x31\x00\x00" + b'{"a":1'),
    "two codings": (JSON, "gzip, gzip", gzip.compress(gzip.compress(b'{"note":"secret-value"}'))),
    "deflate": (JSON, "deflate", zlib.compress(b'{"note":"secret-value"}')),
    "unknown coding": (JSON, "x-own", b'{"note":"secret-value"}'),
}


@pytest.mark.parametrize("case", list(UNREADABLE))
def test_requests_that_cannot_be_read_are_refused(
    call: Callable[..., Result], relay: Relay, plain_upstream: Upstream, case: str
) -> None:
    content_type, coding, body = UNREADABLE[case]
    arguments = ["--header", f"Content-Type: {content_type}" if content_type else "Content-Type:"]
    if coding:
        arguments += ["--header", f"Content-Encoding: {coding}"]
    answer = call("/json/unreadable", *arguments, data=body)
    assert answer.status in (400, 415)
    assert answer.header("content-type") == "application/problem+json"
    assert b"secret-value" not in answer.body
    assert plain_upstream.saw_nothing()
    assert "secret-value" not in relay.written()


@pytest.mark.parametrize("case", list(UNREADABLE))
def test_answers_that_cannot_be_sealed_are_not_shown(
    simple: Callable[..., Result], plain_upstream: Upstream, case: str
) -> None:
    content_type, coding, body = UNREADABLE[case]
    headers = [("Content-Type", content_type)] if content_type else []
    headers += [("Content-Encoding", coding)] if coding else []
    headers.append(("X-Secret", "secret-value"))
    plain_upstream.answer = lambda _: Answer(headers=headers, body=body)
    answer = simple("/secret/a")
    assert answer.status == 502
    assert b"secret-value" not in answer.body
    assert "secret-value" not in str(answer.headers)


def test_what_need_not_be_read_passes_where_the_route_says_so(
    simple: Callable[..., Result], plain_upstream: Upstream
) -> None:
    assert simple("/lenient/a", "--header", "Content-Type: text/plain", data=b"free text").status == 200
    assert plain_upstream.only().body == b"free text"
    # A body of a type that rules cover must still be readable.
    plain_upstream.clear()
    assert simple("/lenient/a", *AS_JSON, data=b'{"a":').status == 400
    assert plain_upstream.saw_nothing()


def test_a_forged_envelope_is_not_passed_on(
    simple: Callable[..., Result], plain_upstream: Upstream, leafseal: Leafseal
) -> None:
    sealed = json.loads(leafseal.encrypt(APP, b'["x"]'))[0]
    forged = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    plain_upstream.answer = lambda _: ok(json.dumps({"a": forged, "b": "plain"}).encode(), JSON)
    answer = simple("/opened/a")
    assert (answer.status, answer.json()["code"]) == (502, "decrypt_failed")


@pytest.mark.parametrize("on_failure", ["leave", "null"])
def test_a_planted_string_does_not_spoil_a_message_where_the_rule_says_so(
    call: Callable[..., Result], relay: Relay, plain_upstream: Upstream, leafseal: Leafseal, on_failure: str
) -> None:
    good = json.loads(leafseal.encrypt(APP, b'["x"]'))[0]
    bad = [good[:-6] + ("A" if good[-6] != "A" else "B") + good[-5:], "ev:Tk9D:planted:$"]
    plain_upstream.answer = lambda _: ok(json.dumps({"a": good, "b": bad}).encode(), JSON)
    path = f"/{on_failure}/json-{time.monotonic_ns()}"
    answer = call(path)
    left = bad if on_failure == "leave" else [None, None]
    assert (answer.status, answer.json()) == (200, {"a": "x", "b": left})
    (line,) = relay.logged(path)
    assert (line["opened"], line["failed"]) == (1, 2)

    plain_upstream.clear()
    form = urllib.parse.urlencode({"a": good, "b": bad[0], "c": "plain"}).encode()
    path = f"/{on_failure}/form-{time.monotonic_ns()}"
    call(path, "--header", "X-Card: " + bad[1], data=form)
    received = plain_upstream.only()
    spots = bad if on_failure == "leave" else ["", ""]
    fields = urllib.parse.parse_qs(received.body.decode(), keep_blank_values=True)
    assert fields == {"a": ["x"], "b": [spots[0]], "c": ["plain"]}
    assert received.header("X-Card") == spots[1]
    (line,) = relay.logged(path)
    assert (line["opened"], line["failed"]) == (1, 2)
