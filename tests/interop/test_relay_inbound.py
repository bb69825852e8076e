"""The inbound relay as a client and an upstream see it: curl on one side, a server that keeps every byte on the other."""

import base64
import gzip
import hashlib
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from email.parser import BytesParser
from http.client import HTTPConnection

import brotli
import pytest
import websockets.sync.client
import zstandard
from websockets.exceptions import InvalidStatus
from websockets.sync.server import ServerConnection, serve

import relays
from conftest import APP
from curl import Result, curl
from decryptor import Decryptor
from engine import Engine
from fieldseal import Choices, Fieldseal
from relay_parts import ROLE, Pki, random_bytes, rule
from relays import Relay
from upstream import Answer, Upstream, echo, ok, wait_until

JSON = "application/json"
AS_JSON = ("--header", f"Content-Type: {JSON}")
ENVELOPE = re.compile(rb"ev:[0-9A-Za-z+/=:]+:\$")
# Listener and arguments of curl, and the version that must come of it.
WIRES = {
    "http1": ("plain", ("--http1.1",), "1.1"),
    "https1": ("tls", ("--http1.1",), "1.1"),
    "https2": ("tls", ("--http2",), "2"),
}
# What stands outside the selected values must not change by a byte: odd spaces, escapes, numbers as they were written.
DOCUMENT = (
    b'{ "card" : {"number":"4242 4242", "exp":"12/30"},\r\n\t"amount":1.50e+02,"big":123456789012345678901234567890,'
    b'"note":"caf\\u00e9 \\ud83d\\ude00","list":[ {"note":7},{"note":null} , {"note" : true}],"dup":1,"dup":2 }\n'
)
SELECTED = [b'"4242 4242"', '"café 😀"'.encode(), b"7", b"true"]


@pytest.fixture(params=list(WIRES))
def call(request: pytest.FixtureRequest, relay: Relay, pki: Pki) -> Callable[..., Result]:
    """curl over one of the wires; refuses to go on where it came to be another."""
    listener, arguments, version = WIRES[request.param]

    def call(path: str, *more: str, data: bytes | None = None) -> Result:
        result = curl(relay.at(listener, listener == "tls").url(path), *arguments, *more, data=data, ca=pki.ca)
        assert result.code == 0, result.message
        assert result.version == version
        return result

    return call


@pytest.fixture
def simple(relay: Relay, pki: Pki) -> Callable[..., Result]:
    """curl over plain HTTP/1.1, where the wire does not matter."""
    return lambda path, *more, data=None: curl(relay.at("plain", False).url(path), *more, data=data, ca=pki.ca)


def opened(decryptor: Decryptor, document: bytes) -> tuple[bytes, int]:
    """The document with every envelope as the JSON token that was sealed, by the tests' own decryptor; how many there were."""

    def token(match: re.Match[bytes]) -> bytes:
        return json.dumps(decryptor.open(match[0].decode()).value, ensure_ascii=False).encode()

    return re.subn(rb'"' + ENVELOPE.pattern + rb'"', lambda match: token(re.match(ENVELOPE, match[0][1:-1])), document)


@pytest.mark.parametrize("below", ["", "/tls"])
def test_json(
    call: Callable[..., Result], plain_upstream: Upstream, tls_upstream: Upstream, decryptor: Decryptor, below: str
) -> None:
    upstream = tls_upstream if below else plain_upstream
    upstream.answer = echo
    answer = call(f"{below}/json/a?q=1&r=%20", *AS_JSON, data=DOCUMENT)

    received = upstream.only()
    assert (received.method, received.target) == ("POST", f"{below}/json/a?q=1&r=%20")
    assert len(ENVELOPE.findall(received.body)) == len(SELECTED)
    for token in SELECTED[:2]:
        assert token not in received.body
    # An escape is written anew when its string is sealed and opened; nothing else of the document may differ.
    expected = DOCUMENT.replace(b'"caf\\u00e9 \\ud83d\\ude00"', '"café 😀"'.encode())
    assert opened(decryptor, received.body) == (expected, len(SELECTED))
    assert received.header("Content-Length") == str(len(received.body))
    assert answer.status == 200
    assert answer.body == expected
    assert answer.header("content-length") == str(len(expected))


def test_envelopes_are_opened_for_the_client_alone(
    call: Callable[..., Result], plain_upstream: Upstream, fieldseal: Fieldseal
) -> None:
    sealed = fieldseal.encrypt(APP, b'{"a":"x","n":-1.5,"deep":[{"b":true}]}')
    plain_upstream.answer = lambda _: ok(sealed, JSON)
    assert call("/opened/a").body == b'{"a":"x","n":-1.5,"deep":[{"b":true}]}'
    # Without the rule the same answer passes as it is.
    assert call("/elsewhere").body == sealed


def test_an_answer_is_sealed_on_its_way_out(
    call: Callable[..., Result], plain_upstream: Upstream, decryptor: Decryptor
) -> None:
    plain_upstream.answer = lambda _: ok(b'{"secret":"s3cr3t","open":1}', JSON, ("ETag", '"v1"'), ("X-Own", "kept"))
    answer = call("/secret/a")
    assert opened(decryptor, answer.body) == (b'{"secret": "s3cr3t","open":1}'.replace(b": ", b":"), 1)
    assert b"s3cr3t" not in answer.body
    # The tag was that of other bytes.
    assert (answer.header("etag"), answer.header("x-own")) == ('W/"v1"', "kept")


def test_roles(
    simple: Callable[..., Result], plain_upstream: Upstream, fieldseal: Fieldseal, decryptor: Decryptor
) -> None:
    plain_upstream.answer = echo
    answer = simple("/roles/a", *AS_JSON, data=b'{"pan":"42","other":"1"}')
    (text,) = ENVELOPE.findall(plain_upstream.only().body)
    assert decryptor.open(text.decode()).role == ROLE
    assert answer.body == b'{"pan":"42","other":"1"}'

    sealed = fieldseal.encrypt(APP, b'{"pan":"another role"}', Choices(role="health"))
    plain_upstream.answer = lambda _: ok(sealed, JSON)
    answer = simple("/roles/b")
    assert answer.status == 502
    assert b"another role" not in answer.body and b"ev:" not in answer.body


def test_urlencoded(call: Callable[..., Result], plain_upstream: Upstream, decryptor: Decryptor) -> None:
    plain_upstream.answer = echo
    body = b"card=4242+4242%21&name=a%2bb+c&card=&cvc=%C3%A9&%63ard=x&cards=plain&flag"
    answer = call("/form/a", "--header", "Content-Type: application/x-www-form-urlencoded", data=body)

    received = plain_upstream.only().body
    pairs = [pair.partition(b"=") for pair in received.split(b"&")]
    values = [urllib.parse.unquote_plus(value.decode()) for _, _, value in pairs]
    sealed = [index for index, value in enumerate(values) if value.startswith("ev:")]
    assert [name for name, _, _ in pairs] == [b"card", b"name", b"card", b"cvc", b"%63ard", b"cards", b"flag"]
    assert [decryptor.open(values[index]).value for index in sealed] == ["4242 4242!", "", "é", "x"]
    assert (pairs[1][2], pairs[5][2], pairs[6][1]) == (b"a%2bb+c", b"plain", b"")
    assert urllib.parse.parse_qsl(answer.body.decode(), keep_blank_values=True) == urllib.parse.parse_qsl(
        body.decode(), keep_blank_values=True
    )


def test_multipart(call: Callable[..., Result], plain_upstream: Upstream, decryptor: Decryptor) -> None:
    plain_upstream.answer = echo
    content = bytes(range(256)) * 40
    body = b"".join(
        (
            b'--B0und\r\nContent-Disposition: form-data; name="card"\r\n\r\n4242\r\n',
            b'--B0und\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n',
            b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n",
            b'--B0und\r\nContent-Disposition: form-data; name="note"\r\n\r\nopen \xc3\xa9\r\n--B0und--\r\n',
        )
    )
    kind = "multipart/form-data; boundary=B0und"
    answer = call("/form/a", "--header", f"Content-Type: {kind}", data=body)

    received = plain_upstream.only()
    parts = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + received.body).get_payload()
    contents = [part.get_payload(decode=True) for part in parts]
    assert decryptor.open(contents[0].decode()).value == "4242"
    assert contents[1:] == [content, "open é".encode()]
    assert answer.body == body


def test_multipart_as_curl_writes_it(
    simple: Callable[..., Result], plain_upstream: Upstream, decryptor: Decryptor
) -> None:
    assert simple("/form/a", "--form", "card=4242", "--form", "note=open").status == 200
    received = plain_upstream.only().body
    (text,) = ENVELOPE.findall(received)
    assert decryptor.open(text.decode()).value == "4242"
    assert b"\r\n\r\nopen\r\n" in received


def test_headers(
    call: Callable[..., Result], plain_upstream: Upstream, fieldseal: Fieldseal, decryptor: Decryptor
) -> None:
    sealed = json.loads(fieldseal.encrypt(APP, b'["from upstream"]'))[0]
    plain_upstream.answer = lambda _: ok(b"body", "text/plain", ("X-Card", sealed), ("X-Other", sealed))
    answer = call("/headers/a", "--header", "X-Card: 4242", "--header", "X-Open: 1")
    received = plain_upstream.only()
    assert decryptor.open(received.header("X-Card")).value == "4242"
    assert received.header("X-Open") == "1"
    assert (answer.header("x-card"), answer.header("x-other")) == ("from upstream", sealed)
    assert answer.body == b"body"


def test_redaction(call: Callable[..., Result], plain_upstream: Upstream) -> None:
    plain_upstream.answer = lambda _: ok(b'{"name":"Ann","age":7,"city":"Ulm"}', JSON)
    body = b'{"ssn":"078-05-1120","deep":[{"ssn":5}],"kept":[1.0]}'
    answer = call("/redact/a", *AS_JSON, "--header", "X-Ssn: 078-05-1120", data=body)
    received = plain_upstream.only()
    assert received.body == b'{"ssn":"[redacted]","deep":[{"ssn":"[redacted]"}],"kept":[1.0]}'
    assert received.header("X-Ssn") == "-"
    assert answer.body == b'{"name":"***","age":"***","city":"Ulm"}'


@pytest.mark.parametrize(
    ("method", "host", "path", "is_sealed"),
    [
        ("POST", "a", "/glob/x/items/1.json", True),
        ("POST", "a", "/glob/x/items/1.json/", True),
        ("POST", "a", "/glob//x///items/1.json", True),
        ("POST", "a", "/glob/x/%69tems/1.js%6Fn", True),
        ("POST", "a", "/glob/x/items/1.json;v=1?q=/", True),
        ("POST", "a", "/glob/x/items/1.xml", False),
        ("POST", "a", "/glob/x/y/items/1.json", False),
        ("POST", "a", "/glob/items/1.json", False),
        ("PUT", "a", "/methods", True),
        ("PATCH", "a", "/methods", True),
        ("POST", "a", "/methods", False),
        ("POST", "api.example.test", "/hosts", True),
        ("POST", "a.b.EXAMPLE.test:81", "/hosts", True),
        ("POST", "only.test", "/hosts", True),
        ("POST", "only.test.", "/hosts", True),
        ("POST", "example.test", "/hosts", False),
        ("POST", "notexample.test", "/hosts", False),
        ("POST", "x.only.test", "/hosts", False),
        ("POST", "a", "/json", True),
        ("POST", "a", "/json/b/c/d", True),
        ("POST", "a", "/jsonb", False),
    ],
)
def test_routes(
    simple: Callable[..., Result], plain_upstream: Upstream, method: str, host: str, path: str, is_sealed: bool
) -> None:
    arguments = ("--path-as-is", "--request", method, "--header", f"Host: {host}")
    body = b'{"a":"value","note":"value"}'
    assert simple(path, *arguments, *AS_JSON, data=body).status == 200
    received = plain_upstream.only()
    assert (received.method, received.target, received.header("Host")) == (method, path, host)
    assert (ENVELOPE.search(received.body) is not None) == is_sealed
    assert is_sealed or received.body == body


@pytest.mark.parametrize(
    "path", ["/json/../elsewhere", "/x/..%2fjson/a", "/json/%2e%2e/b", "/a%5cb", "/a%zz", "/./json/a", "/JSON/a", "/%4Ason/a"]
)
def test_paths_that_two_would_read_differently_are_refused(
    simple: Callable[..., Result], plain_upstream: Upstream, path: str
) -> None:
    answer = simple(path, "--path-as-is", *AS_JSON, data=b'{"note":"value"}')
    assert (answer.status, answer.header("content-type")) == (400, "application/problem+json")
    assert plain_upstream.saw_nothing()


@pytest.mark.parametrize("size", [0, 1, 70_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_bodies_that_nothing_is_selected_of_pass_byte_by_byte(
    call: Callable[..., Result], plain_upstream: Upstream, size: int, is_chunked: bool
) -> None:
    plain_upstream.answer = echo
    body = random_bytes(size)
    arguments = ("--header", "Transfer-Encoding: chunked") if is_chunked else ()
    answer = call("/elsewhere", "--header", "Content-Type: application/octet-stream", *arguments, data=body)
    assert plain_upstream.only().body == body
    assert answer.body == body


@pytest.mark.parametrize("body", [b"", b"1", b'""', b"{}", b"[]", b'\xef\xbb\xbf{"note":1}', b"null"])
def test_the_smallest_documents(call: Callable[..., Result], plain_upstream: Upstream, body: bytes) -> None:
    """A byte order mark is no JSON: whoever takes it must not be shown what we did not read."""
    plain_upstream.answer = echo
    answer = call("/json/a", *AS_JSON, data=body)
    if body.startswith(b"\xef"):
        assert answer.status == 400 and plain_upstream.saw_nothing()
    else:
        assert (answer.status, answer.body, plain_upstream.only().body) == (200, body, body)


def test_fifty_megabytes(relay: Relay, pki: Pki, plain_upstream: Upstream) -> None:
    """Streamed where nothing is selected, whole where something is; by hash, so that a difference is told in a line."""

    def post(path: str, content_type: str, body: bytes) -> Result:
        plain_upstream.clear()
        plain_upstream.answer = echo
        arguments = ("--http2", "--header", f"Content-Type: {content_type}")
        answer = curl(relay.at("tls").url(path), *arguments, data=body, ca=pki.ca)
        assert (answer.code, answer.status) == (0, 200), answer.message
        return answer

    bulk = random_bytes(1 << 20) * 50
    answer = post("/elsewhere", "application/octet-stream", bulk)
    assert _hash(plain_upstream.only().body) == _hash(answer.body) == _hash(bulk)

    text = base64.b64encode(random_bytes(3 << 18)) * 50
    document = b'{"bulk":"' + text + b'","note":"sealed"}'
    answer = post("/sealed/a", JSON, document)
    received = plain_upstream.only().body
    assert received.startswith(b'{"bulk":"') and _hash(received[9 : 9 + len(text)]) == _hash(text)
    assert b"sealed" not in received[9 + len(text) :]
    assert _hash(answer.body) == _hash(received)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


CODINGS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": (gzip.compress, gzip.decompress),
    "br": (brotli.compress, brotli.decompress),
    "zstd": (zstandard.compress, lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


@pytest.mark.parametrize("coding", list(CODINGS))
def test_codings(
    call: Callable[..., Result], plain_upstream: Upstream, fieldseal: Fieldseal, decryptor: Decryptor, coding: str
) -> None:
    encode, decode = CODINGS[coding]
    sealed = fieldseal.encrypt(APP, b'{"back":"opened"}')
    plain_upstream.answer = lambda _: ok(encode(sealed), JSON, ("Content-Encoding", coding))
    document = b'{"note":"' + b"long " * 1000 + b'","rest":1}'
    arguments = ("--header", f"Content-Encoding: {coding}", "--header", f"Accept-Encoding: {coding}, deflate")
    answer = call("/json/a", *AS_JSON, *arguments, data=encode(document))

    received = plain_upstream.only()
    assert received.values("Content-Encoding") == [coding]
    assert opened(decryptor, decode(received.body)) == (document, 1)
    # What we cannot read is not asked for.
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
    # A body of the type that is read must still be read.
    plain_upstream.clear()
    assert simple("/lenient/a", *AS_JSON, data=b'{"a":').status == 400
    assert plain_upstream.saw_nothing()


def test_a_forged_envelope_is_not_passed_on(
    simple: Callable[..., Result], plain_upstream: Upstream, fieldseal: Fieldseal
) -> None:
    sealed = json.loads(fieldseal.encrypt(APP, b'["x"]'))[0]
    forged = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    plain_upstream.answer = lambda _: ok(json.dumps({"a": forged, "b": "plain"}).encode(), JSON)
    answer = simple("/opened/a")
    assert (answer.status, answer.json()["code"]) == (502, "decrypt-failed")


@pytest.mark.parametrize("on_failure", ["leave", "null"])
def test_a_planted_string_does_not_spoil_a_message_where_the_rule_says_so(
    call: Callable[..., Result], relay: Relay, plain_upstream: Upstream, fieldseal: Fieldseal, on_failure: str
) -> None:
    good = json.loads(fieldseal.encrypt(APP, b'["x"]'))[0]
    bad = [good[:-6] + ("A" if good[-6] != "A" else "B") + good[-5:], "ev:Tk9D:planted:$"]
    plain_upstream.answer = lambda _: ok(json.dumps({"a": good, "b": bad}).encode(), JSON)
    path = f"/{on_failure}/json-{time.monotonic_ns()}"
    answer = call(path)
    left = bad if on_failure == "leave" else [None, None]
    assert (answer.status, answer.json()) == (200, {"a": "x", "b": left})
    (line,) = relay.logged(path)
    assert (line["decrypted"], line["unopened"], line["unopened_at"]) == (1, 2, "$['b'][0], $['b'][1]")

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
    assert (line["decrypted"], line["unopened"]) == (1, 2)


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
    """The range is not asked for, and refused where it comes anyhow."""
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
    # One may have been closed for its age by then; nineteen may not.
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
    """The trailers that came to the upstream, and those that came back; names in lower case."""
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
    sample = 'fieldseal_relay_refusals_total{listener="plain",code="hidden-trailer"}'
    before = relay.metric(sample)
    assert through_with_trailers(relay, plain_upstream, "/trailers/a") == ({("x-own", "1")}, {("x-sum", "6")})
    assert relay.metric(sample) == before + 3
    assert "x_card" in relay.log.read_text() and "X-Card: 4242" not in relay.written()
    # Here answers are opened, and nothing in them is to be hidden.
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
    # The upstream makes no second event before the first has come through.
    assert answer.read1() == b"data: first\n\n"
    held[0] = False
    assert answer.read() == b"data: last\n\n"
    connection.close()


@pytest.fixture(scope="module")
def chat() -> Iterator[int]:
    """The port of a WebSocket server that answers each message with itself, turned round."""

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
    tmp_path_factory: pytest.TempPathFactory, fieldseal: Fieldseal, engine: Engine, pki: Pki, chat: int
) -> Iterator[Relay]:
    text = relays.process_section() + relays.engine_section(engine)
    identity = {"certificate": str(pki.server.certificate), "private_key": str(pki.server.key)}
    text += relays.section(
        "[inbound]", name="tls", address="127.0.0.1:0", upstream=f"http://127.0.0.1:{chat}", **identity
    )
    text += relays.section("[inbound.route]", path="/read", app=APP, response=[rule("decrypt", json=["$"])])
    with relays.running(fieldseal, tmp_path_factory.mktemp("chat"), text) as running:
        yield running


def test_websockets(chat_relay: Relay, pki: Pki) -> None:
    context = ssl.create_default_context(cafile=pki.ca)
    address = f"wss://localhost:{chat_relay.at('tls').port}"
    with websockets.sync.client.connect(f"{address}/chat?room=1", ssl=context, proxy=None) as connection:
        for message in ("hello", "", "é" * 70_000, b"\x00\xff", random_bytes(300_000)):
            connection.send(message)
            assert connection.recv(timeout=60) == message[::-1]
        # Nobody waits for the other.
        for index in range(100):
            connection.send(f"message {index}")
        assert [connection.recv(timeout=60)[::-1] for _ in range(100)] == [f"message {index}" for index in range(100)]
    (line,) = chat_relay.logged("/chat")
    assert line["status"] == 101


def test_what_another_protocol_carries_does_not_pass_a_rule_by(chat_relay: Relay, pki: Pki) -> None:
    """A route with rules gives no other protocol: nobody could look into it."""
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
    assert (line["method"], line["status"], line["encrypted"], line["decrypted"]) == ("POST", 200, 4, 4)
    assert (line["received"], line["whole"]) == (len(DOCUMENT), True)
    for secret in ("query-secret", "head-secret", "4242 4242", "ev:"):
        assert secret not in relay.written()
