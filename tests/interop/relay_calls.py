"""What the tests of the inbound relay share: curl over each protocol, a document, and envelopes opened by the tests' own decryptor."""

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
