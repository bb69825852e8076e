"""Fresh strings and files of the real Python SDK, which fetches its keys from a local endpoint, opened by Leafseal."""

import itertools
import json
import time
from collections.abc import Iterator
from types import ModuleType

import evervault
import pytest

import key_endpoint
from compare import leaves, same
from conftest import APP
from decryptor import Decryptor
from leafseal import CommandFailed, Leafseal

CURVES = {"SECP256K1": ("RFVC", "S0lS"), "SECP256R1": ("Tk9D", "QkTC")}
ROLES = (None, "pci-data")
ORIGIN = 7
DATA = {
    "string": "héllo ✓ 😀",
    "spaces": "  kept  ",
    "empty": "",
    "escapes": '"\\\n\u0000',
    "long": "x" * 10_000,
    "integer": 42,
    "negative": -7,
    "big": 2**64,
    "float": 3.14159,
    "whole": 100.0,
    "exponent": 1e21,
    "small": 1e-7,
    "yes": True,
    "no": False,
    "nested": {"list": [1, "x", {"no": False}], "object": {}, "array": []},
}
SHAPES = {
    "object": DATA,
    "array": [1, "a", True, [2.5, {"b": "c"}]],
    "string": "alone",
    "number": -12.5,
    "boolean": True,
}


@pytest.fixture(scope="module")
def endpoint(leafseal: Leafseal) -> Iterator[key_endpoint.Server]:
    with key_endpoint.running(leafseal.public_keys(APP)) as server:
        yield server


@pytest.fixture
def sdk(endpoint: key_endpoint.Server, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as an application uses it, without state from the previous test."""
    monkeypatch.setenv("EV_API_URL", endpoint.url + "/")
    monkeypatch.setattr(evervault, "ev_client", None)
    endpoint.requests.clear()
    return evervault


def decrypted(leafseal: Leafseal, value: object, *flags: str) -> object:
    return json.loads(leafseal.decrypt(APP, json.dumps([value]).encode(), *flags))[0]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("curve", list(CURVES))
def test_every_shape(
    sdk: ModuleType, leafseal: Leafseal, endpoint: key_endpoint.Server, curve: str, role: str | None
) -> None:
    sdk.init("app_interop", key_endpoint.API_KEY, curve=curve)
    sealed = {name: sdk.encrypt(data, role) for name, data in SHAPES.items()}
    assert endpoint.requests == ["/cages/key"]

    version = CURVES[curve][role is not None]
    texts = leaves(sealed)
    assert len(texts) == len(leaves(SHAPES))
    assert all(text.startswith(f"ev:{version}:") for text in texts)
    flags = ["--role", role] if role else []
    assert same(decrypted(leafseal, sealed, *flags), SHAPES)


@pytest.mark.parametrize(("curve", "first", "second"), list(itertools.product(CURVES, ROLES, ROLES)))
def test_the_key_of_the_first_call_serves_the_second(
    sdk: ModuleType, leafseal: Leafseal, decryptor: Decryptor, curve: str, first: str | None, second: str | None
) -> None:
    sdk.init("app_interop", key_endpoint.API_KEY, curve=curve)
    texts = [sdk.encrypt("first", first), sdk.encrypt("second", second)]
    assert decrypted(leafseal, texts) == ["first", "second"]
    # Without the quirk the test would not show that it is tolerated.
    ways = [decryptor.open(text).way for text in texts]
    assert ways == [0, int(curve == "SECP256K1" and first != second)]


@pytest.mark.parametrize("curve", list(CURVES))
@pytest.mark.parametrize("content", [b"file bytes \x00\x01", bytes(range(256)) * 2000], ids=["small", "large"])
def test_files(sdk: ModuleType, leafseal: Leafseal, curve: str, content: bytes) -> None:
    sdk.init("app_interop", key_endpoint.API_KEY, curve=curve)
    assert leafseal.decrypt_file(APP, sdk.encrypt(content)) == content
    assert leafseal.decrypt_file(APP, sdk.encrypt(bytearray(content))) == content


def test_inspect_tells_origin_and_time(sdk: ModuleType, leafseal: Leafseal) -> None:
    sdk.init("app_interop", key_endpoint.API_KEY, curve="SECP256R1")
    begin = int(time.time())
    text = sdk.encrypt("value", "pci-data")
    metadata = json.loads(leafseal.run("inspect", "--app", APP, "--json", text))
    assert (metadata["origin"], metadata["role"]) == (ORIGIN, "pci-data")
    assert begin <= metadata["encrypted_at"] <= time.time()


def test_the_wrong_role_and_the_wrong_app_are_refused(sdk: ModuleType, leafseal: Leafseal, empty: Leafseal) -> None:
    sdk.init("app_interop", key_endpoint.API_KEY, curve="SECP256R1")
    document = json.dumps(sdk.encrypt("the secret", "pci-data")).encode()
    empty.create("other")
    for program, app, flags in [(leafseal, APP, ["--role", "health"]), (empty, "other", [])]:
        with pytest.raises(CommandFailed) as failure:
            program.decrypt(app, document, *flags)
        assert failure.value.code == 1
        assert "the secret" not in failure.value.message


def test_the_endpoint_wants_the_api_key(sdk: ModuleType) -> None:
    sdk.init("app_interop", "another-key")
    with pytest.raises(evervault.EvervaultError):
        sdk.encrypt("value")
