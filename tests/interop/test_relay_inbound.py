"""The inbound relay between curl and an upstream that records every byte."""

import base64
import hashlib
import json
import urllib.parse
from collections.abc import Callable
from email.parser import BytesParser

import pytest

from conftest import APP
from curl import Result, curl
from decryptor import Decryptor
from leafseal import Choices, Leafseal
from relay_calls import AS_JSON, DOCUMENT, ENVELOPE, JSON, SELECTED, call, opened, simple
from relay_parts import ROLE, Pki, random_bytes
from relays import Relay
from upstream import Answer, Upstream, echo, ok


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
    # Escapes may change when a string is encrypted and decrypted; the rest of the document must not.
    expected = DOCUMENT.replace(b'"caf\\u00e9 \\ud83d\\ude00"', '"café 😀"'.encode())
    assert opened(decryptor, received.body) == (expected, len(SELECTED))
    assert received.header("Content-Length") == str(len(received.body))
    assert answer.status == 200
    assert answer.body == expected
    assert answer.header("content-length") == str(len(expected))


def test_envelopes_are_opened_for_the_client_alone(
    call: Callable[..., Result], plain_upstream: Upstream, leafseal: Leafseal
) -> None:
    sealed = leafseal.encrypt(APP, b'{"a":"x","n":-1.5,"deep":[{"b":true}]}')
    plain_upstream.answer = lambda _: ok(sealed, JSON)
    assert call("/opened/a").body == b'{"a":"x","n":-1.5,"deep":[{"b":true}]}'
    # Without the rule the same response passes unchanged.
    assert call("/elsewhere").body == sealed


def test_answers_that_a_decrypting_rule_cannot_read_pass_or_keep_their_meaning(
    simple: Callable[..., Result], plain_upstream: Upstream, relay: Relay, leafseal: Leafseal
) -> None:
    sealed = json.loads(leafseal.encrypt(APP, b'["s3cr3t"]'))[0].encode()
    for status in (200, 201, 302, 404, 503):
        for kind in ("text/html", "application/json; charset=utf-16", "text/plain"):
            fields = [("Content-Type", kind), ("Location", "/next"), ("Retry-After", "7")]

            def answers(path: str, body: bytes, status: int = status, fields: list[tuple[str, str]] = fields) -> Result:
                plain_upstream.answer = lambda _: Answer(status=status, headers=fields, body=body)
                return simple(path)

            open_page = answers("/all-opened/a", b"<a>nothing sealed</a>")
            assert (open_page.status, open_page.body) == (status, b"<a>nothing sealed</a>")
            closed = answers("/all-opened/a", b"<a>" + sealed)
            if status == 200:
                assert closed.status == 502
            else:
                assert (closed.status, closed.body, closed.header("leafseal-withheld")) == (status, b"", "unsupported_media_type")
                assert (closed.header("location"), closed.header("retry-after")) == ("/next", "7")
            path = f"/opened/{status}/{kind.partition(';')[0].replace('/', '-')}"
            passed = answers(path, b"<a>" + sealed)
            assert (passed.status, passed.body) == (status, b"<a>" + sealed)
            assert relay.logged(path)[0]["sealed_response_body"] == "envelope"
    plain_upstream.answer = lambda _: ok(b'{"a":"' + sealed + b'"}', JSON)
    assert simple("/opened/read").body == b'{"a":"s3cr3t"}'
    assert "sealed_response_body" not in relay.logged("/opened/read")[0]


def test_an_answer_is_sealed_on_its_way_out(
    call: Callable[..., Result], plain_upstream: Upstream, decryptor: Decryptor
) -> None:
    plain_upstream.answer = lambda _: ok(b'{"secret":"s3cr3t","open":1}', JSON, ("ETag", '"v1"'), ("X-Own", "kept"))
    answer = call("/secret/a")
    assert opened(decryptor, answer.body) == (b'{"secret": "s3cr3t","open":1}'.replace(b": ", b":"), 1)
    assert b"s3cr3t" not in answer.body
    # The tag belongs to the original bytes.
    assert (answer.header("etag"), answer.header("x-own")) == ('W/"v1"', "kept")


def test_roles(
    simple: Callable[..., Result], plain_upstream: Upstream, leafseal: Leafseal, decryptor: Decryptor
) -> None:
    plain_upstream.answer = echo
    answer = simple("/roles/a", *AS_JSON, data=b'{"pan":"42","other":"1"}')
    (text,) = ENVELOPE.findall(plain_upstream.only().body)
    assert decryptor.open(text.decode()).role == ROLE
    assert answer.body == b'{"pan":"42","other":"1"}'

    sealed = leafseal.encrypt(APP, b'{"pan":"another role"}', Choices(role="health"))
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
    assert [name for name, _, _ in pairs] == [b"card", b"name", b"card", b"cvc", b"card", b"cards", b"flag"]
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
    call: Callable[..., Result], plain_upstream: Upstream, leafseal: Leafseal, decryptor: Decryptor
) -> None:
    sealed = json.loads(leafseal.encrypt(APP, b'["from upstream"]'))[0]
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
    "path", ["/json/../elsewhere", "/x/..%2fjson/a", "/json/%2e%2e/b", "/json%5cb", "/x/..%5cjson/a", "/./json/a", "/JSON/a", "/%4Ason/a"]
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


@pytest.mark.parametrize("body", [b"", b"1", b'""', b"{}", b"[]", b'\xef\xbb\xbf{"other":1}', b"null"])
def test_the_smallest_documents(call: Callable[..., Result], plain_upstream: Upstream, body: bytes) -> None:
    """A byte order mark is ignored and kept, in front of JSON alone."""
    plain_upstream.answer = echo
    answer = call("/json/a", *AS_JSON, data=body)
    assert (answer.status, answer.body, plain_upstream.only().body) == (200, body, body)


def test_fifty_megabytes(relay: Relay, pki: Pki, plain_upstream: Upstream) -> None:
    """Streamed if nothing is selected, buffered otherwise. Compared by hash, so that a difference is reported in one line."""

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
