"""Leafseal's output, checked with the independent decryptor: values, metadata, keys, nonces, and unchanged bytes."""

import itertools
import json
import os
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

import app_keys
from conftest import APP
from decryptor import DecryptFailed, Decryptor, Opened
from envelope import FILE_HEADER_SIZE, Curve, EncryptedFile, compressed
from leafseal import Choices, CommandFailed, Leafseal
from json_text import Scalar, is_envelope, replace, scalars

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ORIGIN = 70
VERSION = {
    (Curve.R1, False): "Tk9D",
    (Curve.R1, True): "QkTC",
    (Curve.K1, False): "RFVC",
    (Curve.K1, True): "S0lS",
}
KEYINGS = ("field", "request", "session")
ROLES = (None, "p", "abcdefghij-123456789")

# Every type in every position, and spellings that a parser would lose.
DOCUMENT = r"""
 { "text":"h\u00e9llo \u2713", "emoji" : "\ud83d\ude00 😀", "empty":"", "control":"\u0000\n\t\"\\\/",
   "same": 1, "same" : 2, "zero":0, "minus" : -0, "exact":12.50, "tiny":1.0E-7, "huge":1e400,
   "big":123456789012345678901234567890 , "yes":true,"no" :false, "nothing":null,
   "":"no name", "deep":[[[{"a":[ 1 ,"x",{"b":false},null,[],{} ]}]]], "like":"ev:is not one:$ ",
   "long": "LONG" }
""".replace("LONG", "0123456789abcdef" * 300).encode()

CHOICES = [Choices(curve, keying, role) for curve, keying, role in itertools.product(Curve, KEYINGS, ROLES)]


def name(choices: Choices) -> str:
    return f"{choices.curve.value}-{choices.keying}-{choices.role}"


def opened_values(decryptor: Decryptor, original: bytes, sealed: bytes) -> list[Opened]:
    """Decrypts every envelope that replaces a value of `original`; checks text and type."""
    opened = []
    for before, after in zip(scalars(original), scalars(sealed), strict=True):
        if before == after:
            continue
        assert is_envelope(after)
        value = decryptor.open(after.text)
        assert (value.text, value.envelope.value_type.name.lower()) == (before.text, before.kind)
        opened.append(value)
    return opened


def unsealed(original: bytes, sealed: bytes) -> bytes:
    """`sealed` with the original scalars restored: equal to `original` if no other byte changed."""
    before = scalars(original)

    def put_back(_: Scalar) -> bytes:
        return next(before).source

    return replace(sealed, put_back)


@pytest.mark.parametrize("choices", CHOICES, ids=name)
def test_every_curve_keying_role_and_type(leafseal: Leafseal, decryptor: Decryptor, choices: Choices) -> None:
    begin = int(time.time())
    sealed = leafseal.encrypt(APP, DOCUMENT, choices)
    end = int(time.time())

    opened = opened_values(decryptor, DOCUMENT, sealed)
    assert len(opened) == sum(scalar.kind != "null" for scalar in scalars(DOCUMENT))
    assert unsealed(DOCUMENT, sealed) == DOCUMENT
    assert b"=" not in sealed
    for value in opened:
        assert value.way == 0, "a tolerated way, not the rule"
        assert value.envelope.version.name == VERSION[choices.curve, choices.role is not None]
        assert not value.envelope.is_debug
        if choices.role is None:
            assert (value.role, value.origin, value.encrypted_at) == (None, None, None)
        else:
            assert (value.role, value.origin) == (choices.role, ORIGIN)
            assert begin <= value.encrypted_at <= end
    ephemerals = {value.envelope.ephemeral for value in opened}
    assert len(ephemerals) == (len(opened) if choices.keying == "field" else 1)
    assert len({value.envelope.iv for value in opened}) == len(opened)

    assert leafseal.decrypt(APP, sealed) == respelt(DOCUMENT)


def respelt(document: bytes) -> bytes:
    """Strings as Leafseal writes decrypted ones: only characters that JSON requires are escaped."""

    def one(scalar: Scalar) -> bytes:
        if scalar.kind != "string":
            return scalar.source
        return json.dumps(scalar.text, ensure_ascii=False).encode()

    return replace(document, one)


def test_selected_values_alone_change(leafseal: Leafseal, decryptor: Decryptor) -> None:
    choices = Choices(select=["$.deep", "$['same']", "$.text"])
    sealed = leafseal.encrypt(APP, DOCUMENT, choices)
    opened = opened_values(decryptor, DOCUMENT, sealed)
    assert [value.text for value in opened] == ["héllo ✓", "1", "2", "1", "x", "false"]
    assert unsealed(DOCUMENT, sealed) == DOCUMENT


@pytest.mark.parametrize("document", ['"x"', "-1.5", "false", "null", " [ ] ", "{}", '[""]', '{"a":{}}'])
def test_smallest_documents(leafseal: Leafseal, decryptor: Decryptor, document: str) -> None:
    original = document.encode()
    sealed = leafseal.encrypt(APP, original)
    opened = opened_values(decryptor, original, sealed)
    assert len(opened) == sum(scalar.kind != "null" for scalar in scalars(original))
    assert leafseal.decrypt(APP, sealed) == original


@pytest.mark.parametrize("example", ["payment.json", "customer.json"])
@pytest.mark.parametrize("curve", list(Curve))
def test_examples(leafseal: Leafseal, decryptor: Decryptor, example: str, curve: Curve) -> None:
    original = (EXAMPLES / example).read_bytes()
    sealed = leafseal.encrypt(APP, original, Choices(curve))
    assert len(opened_values(decryptor, original, sealed)) > 20
    assert unsealed(original, sealed) == original


@pytest.mark.parametrize("curve", list(Curve))
def test_json_lines_share_a_session(leafseal: Leafseal, decryptor: Decryptor, curve: Curve) -> None:
    original = (EXAMPLES / "customers.jsonl").read_bytes()
    choices = Choices(curve, role="export")
    sealed = leafseal.run("encrypt", "--app", APP, "--format", "jsonl", *choices.flags(), stdin=original)
    opened = opened_values(decryptor, original, sealed)
    assert len(opened) > 2000
    assert unsealed(original, sealed) == original
    assert len({value.envelope.ephemeral for value in opened}) == 1
    assert len({value.envelope.iv for value in opened}) == len(opened)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 255, 100_003])
@pytest.mark.parametrize("curve", list(Curve))
def test_files(leafseal: Leafseal, decryptor: Decryptor, curve: Curve, size: int) -> None:
    content = os.urandom(size)
    sealed = leafseal.encrypt_file(APP, content, curve)
    assert len(sealed) == FILE_HEADER_SIZE + size + 16 + 4
    assert decryptor.open_file(sealed) == (content, 0)
    file = EncryptedFile.parse(sealed)
    assert (file.version.curve, file.is_debug) == (curve, False)
    assert leafseal.decrypt_file(APP, sealed) == content
    again = EncryptedFile.parse(leafseal.encrypt_file(APP, content, curve))
    assert again.iv != file.iv and again.ephemeral != file.ephemeral


@pytest.mark.parametrize("curve", list(Curve))
def test_damaged_files_do_not_open(leafseal: Leafseal, curve: Curve) -> None:
    sealed = leafseal.encrypt_file(APP, b"the secret", curve)
    damaged = [sealed[:-1], sealed[:40], b"", sealed + b"\x00"]
    damaged += [sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :] for place in (0, 6, 7, 9, 42, 55, -1)]
    for content in damaged:
        with pytest.raises(CommandFailed) as failure:
            leafseal.decrypt_file(APP, content)
        assert failure.value.code == 1
        assert "the secret" not in failure.value.message


@pytest.mark.parametrize("form", list(app_keys.FORMS))
def test_imported_keys_are_the_ones_used(empty: Leafseal, form: str) -> None:
    keys = app_keys.fresh()
    empty.import_keys("acme", keys, form)
    public = empty.public_keys("acme")
    for curve in Curve:
        key = keys[curve].public_key()
        assert bytes.fromhex(public[curve.value]) == compressed(key)
        assert load_pem_public_key(public[f"{curve.value}_pem"].encode()) == key
        sealed = json.loads(empty.encrypt("acme", b'"mine"', Choices(curve)))
        assert Decryptor(keys).open(sealed).value == "mine"
        with pytest.raises(DecryptFailed):
            Decryptor(app_keys.fresh()).open(sealed)


def test_rewrapped_values_are_for_the_new_keys_alone(empty: Leafseal) -> None:
    first, second = app_keys.fresh(), app_keys.fresh()
    empty.import_keys("acme", first)
    document = b'{"a": "one", "b": [2, true, null]}'
    sealed = empty.encrypt("acme", document, Choices(role="pci"))
    empty.import_keys("acme", second)
    rewrapped = empty.run("rewrap", "--app", "acme", stdin=sealed)
    opened = opened_values(Decryptor(second), document, rewrapped)
    assert [value.value for value in opened] == ["one", 2, True]
    assert {(value.role, value.origin) for value in opened} == {("pci", ORIGIN)}
    for scalar in scalars(rewrapped):
        if scalar.kind == "string":
            with pytest.raises(DecryptFailed):
                Decryptor(first).open(scalar.text)
    assert empty.decrypt("acme", sealed) == empty.decrypt("acme", rewrapped) == document
