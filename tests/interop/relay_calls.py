"""Helpers for tests of the inbound relay: curl over each protocol, a document, and the tests' own decryptor."""

import json
import re
from collections.abc import Callable

import pytest

from curl import Result, curl
from decryptor import Decryptor
from relay_parts import Pki
from relays import Relay

JSON = "application/json"
AS_JSON = ("--header", f"Content-Type: {JSON}")
ENVELOPE = re.compile(rb"ev:[0-9A-Za-z+/=:]+:\$")
# Listener, arguments of curl, and the expected HTTP version.
WIRES = {
    "http1": ("plain", ("--http1.1",), "1.1"),
    "https1": ("tls", ("--http1.1",), "1.1"),
    "https2": ("tls", ("--http2",), "2"),
}
# Every byte outside the selected values must stay unchanged: odd spaces, escapes, the spelling of numbers.
DOCUMENT = (
    b'{ "card" : {"number":"4242 4242", "exp":"12/30"},\r\n\t"amount":1.50e+02,"big":123456789012345678901234567890,'
    b'"note":"caf\\u00e9 \\ud83d\\ude00","list":[ {"note":7},{"note":null} , {"note" : true}],"dup":1,"dup":2 }\n'
)
SELECTED = [b'"4242 4242"', '"café 😀"'.encode(), b"7", b"true"]


@pytest.fixture(params=list(WIRES))
def call(request: pytest.FixtureRequest, relay: Relay, pki: Pki) -> Callable[..., Result]:
    """Runs curl over one of the wires; fails if the response has another HTTP version."""
    listener, arguments, version = WIRES[request.param]

    def call(path: str, *more: str, data: bytes | None = None) -> Result:
        result = curl(relay.at(listener, listener == "tls").url(path), *arguments, *more, data=data, ca=pki.ca)
        assert result.code == 0, result.message
        assert result.version == version
        return result

    return call


@pytest.fixture
def simple(relay: Relay, pki: Pki) -> Callable[..., Result]:
    """Runs curl over plain HTTP/1.1, for tests that do not depend on the protocol."""
    return lambda path, *more, data=None: curl(relay.at("plain", False).url(path), *more, data=data, ca=pki.ca)


def opened(decryptor: Decryptor, document: bytes) -> tuple[bytes, int]:
    """Decrypts every envelope of the document to its original JSON token; returns the document and the number of envelopes."""

    def token(match: re.Match[bytes]) -> bytes:
        return json.dumps(decryptor.open(match[0].decode()).value, ensure_ascii=False).encode()

    return re.subn(rb'"' + ENVELOPE.pattern + rb'"', lambda match: token(re.match(ENVELOPE, match[0][1:-1])), document)
