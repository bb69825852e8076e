"""Selectors outside of JSON: roles of headers and form fields, files in forms, redaction of forms, bodies of unknown length."""

import json
from collections.abc import Callable, Iterator
from email.parser import BytesParser

import pytest

import relays
from conftest import APP
from curl import Result, curl
from engine import Engine
from leafseal import CommandFailed, Leafseal
from relay_parts import ROLE, random_bytes, rule
from relays import Relay
from upstream import Upstream, echo

ROUTES = [
    {
        "path": "/role/**",
        "request": [rule("encrypt", form=["card"], headers=["X-Card"], role=ROLE)],
        "response": [rule("decrypt", form=["*"], role=ROLE)],
    },
    {"path": "/other-role", "response": [rule("decrypt", form=["*"], role="health")]},
    {"path": "/sealed/**", "request": [rule("encrypt", form=["doc", "card"], json=["$.card"])]},
    {"path": "/there/and/back", "request": [rule("encrypt", form=["doc"])], "response": [rule("decrypt", form=["*"])]},
    {"path": "/redact/**", "request": [rule("redact", form=["card", "doc"], replacement="gone & done")]},
]


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory, leafseal: Leafseal, engine: Engine, plain_upstream: Upstream
) -> Iterator[Relay]:
    text = relays.process_section() + relays.engine_section(engine)
    text += relays.section("[inbound]", name="front", address="127.0.0.1:0", upstream=plain_upstream.url)
    for route in ROUTES:
        text += relays.section("[inbound.route]", app=APP, **route)
    with relays.running(leafseal, tmp_path_factory.mktemp("selectors"), text) as relay:
        yield relay


@pytest.fixture
def upstream(plain_upstream: Upstream) -> Upstream:
    plain_upstream.clear()
    plain_upstream.answer = echo
    return plain_upstream


@pytest.fixture
def call(front: Relay) -> Callable[..., Result]:
    def call(path: str, *more: str, data: bytes | None = None) -> Result:
        result = curl(front.at("front", False).url(path), *more, data=data)
        assert result.code == 0, result.message
        return result

    return call


def parts(kind: str, body: bytes) -> dict[str, bytes]:
    """Parses the form with Python's mail parser, an independent reader."""
    message = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    return {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in message.get_payload()}


def check_role(leafseal: Leafseal, envelope: str, value: str) -> None:
    document = json.dumps([envelope]).encode()
    assert json.loads(leafseal.decrypt(APP, document, "--role", ROLE)) == [value]
    with pytest.raises(CommandFailed):
        leafseal.decrypt(APP, document, "--role", "health")


def test_headers_and_fields_have_the_role_of_their_rule(call: Callable[..., Result], upstream: Upstream, leafseal: Leafseal) -> None:
    answer = call("/role/a", "--header", "X-Card: 4242", "--data", "card=4111&open=1")
    received = upstream.only()
    check_role(leafseal, received.header("X-Card"), "4242")
    sealed = received.body.decode().split("&")[0].removeprefix("card=").replace("%3A", ":").replace("%2B", "+")
    check_role(leafseal, sealed.replace("%2F", "/").replace("%3D", "=").replace("%24", "$"), "4111")
    assert answer.body == b"card=4111&open=1"
    upstream.clear()
    upstream.answer = echo
    assert call("/role/b", "--form", "card=4111", "--form", "open=1").status == 200
    received = upstream.only()
    check_role(leafseal, parts(received.header("Content-Type"), received.body)["card"].decode(), "4111")


def test_a_field_of_another_role_is_not_opened(call: Callable[..., Result], upstream: Upstream, leafseal: Leafseal) -> None:
    call("/role/a", "--data", "card=4111")
    sealed = upstream.only().body
    answer = call("/other-role", "--header", "Content-Type: application/x-www-form-urlencoded", data=sealed)
    assert answer.status == 502 and b"4111" not in answer.body


@pytest.mark.parametrize("size", [0, 1, 300_000], ids=["empty", "byte", "large"])
def test_a_file_in_a_form_is_sealed_in_the_file_form(
    call: Callable[..., Result], upstream: Upstream, leafseal: Leafseal, tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    content = random_bytes(size)
    file = tmp_path_factory.mktemp("file") / "doc.bin"
    file.write_bytes(content)
    form = ("--form", f"doc=@{file}", "--form", "note=open")
    assert call("/sealed/form", *form).status == 200
    received = upstream.only()
    found = parts(received.header("Content-Type"), received.body)
    assert found["note"] == b"open" and found["doc"].startswith(b"%EVENC")
    assert leafseal.decrypt_file(APP, found["doc"]) == content
    answer = call("/there/and/back", *form)
    assert parts(answer.header("content-type"), answer.body)["doc"] == content


def test_a_role_is_not_passed_by_as_a_file(
    call: Callable[..., Result], upstream: Upstream, leafseal: Leafseal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The file format has no data role."""
    folder = tmp_path_factory.mktemp("roles")
    plain, sealed = folder / "plain", folder / "sealed"
    plain.write_bytes(b"4111 in a file")
    answer = call("/role/a", "--form", f"card=@{plain}", "--form", "open=1")
    assert (answer.status, answer.json()["code"], upstream.saw_nothing()) == (415, "unsupported_media_type", True)
    # A file that the rule does not select passes.
    assert call("/role/b", "--form", f"open=@{plain}", "--form", "card=4111").status == 200
    call("/sealed/a", "--form", f"doc=@{plain}")
    received = upstream.requests[-1]
    sealed.write_bytes(parts(received.header("Content-Type"), received.body)["doc"])
    assert leafseal.decrypt_file(APP, sealed.read_bytes()) == plain.read_bytes()
    answer = call("/other-role", "--form", f"doc=@{sealed}")
    assert (answer.status, answer.json()["code"]) == (502, "unsupported_media_type")
    assert call("/other-role", "--form", f"doc=@{plain}").status == 200


def test_forms_are_redacted(call: Callable[..., Result], upstream: Upstream) -> None:
    call("/redact/a", "--data", "card=4111+1111&name=Ann&%63ard=4242")
    assert upstream.only().body == b"card=gone+%26+done&name=Ann&card=gone+%26+done"
    upstream.clear()
    refused = call("/redact/a", "--data", "card=4111&Card=4242")
    assert (refused.status, refused.json()["code"]) == (400, "ambiguous_name")
    assert upstream.saw_nothing()
    upstream.clear()
    upstream.answer = echo
    call("/redact/b", "--form", "card=4111 1111", "--form", "name=Ann")
    received = upstream.only()
    assert parts(received.header("Content-Type"), received.body) == {"card": b"gone & done", "name": b"Ann"}
    assert b"4111" not in received.body


def test_bodies_of_unknown_length_are_sealed(call: Callable[..., Result], upstream: Upstream, leafseal: Leafseal) -> None:
    chunked = ("--header", "Transfer-Encoding: chunked")
    document = b'{"card":"4111", "rest":"' + b"x" * 200_000 + b'"}'
    assert call("/sealed/json", *chunked, "--header", "Content-Type: application/json", data=document).status == 200
    received = upstream.only()
    assert leafseal.decrypt(APP, received.body) == document and b"4111" not in received.body
    upstream.clear()
    upstream.answer = echo
    assert call("/sealed/form", *chunked, "--header", "Content-Type: application/x-www-form-urlencoded", data=b"a=1&card=4111").status == 200
    assert upstream.only().body.startswith(b"a=1&card=ev%3A")
