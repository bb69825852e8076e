"""Tests the decryptor itself: with vectors of real SDKs, with the sealer, and with forgeries."""

import dataclasses
import itertools
import json

import pytest

import app_keys
import sdk_vectors
from compare import map_strings, same
from decryptor import DecryptFailed, Decryptor
from envelope import FILE_VERSIONS, VERSIONS, Curve, ValueType, Version
from sealer import Style, seal, seal_file

METADATA = {"dr": "pci-data", "eo": 9, "et": 1_700_000_000}
KEYS = app_keys.of_the_vectors()
VALUES = [
    (ValueType.STRING, "héllo ✓"),
    (ValueType.STRING, ""),
    (ValueType.NUMBER, "-12.50e+3"),
    (ValueType.BOOLEAN, "false"),
]


def ways() -> list[tuple[Version, int]]:
    """Every version in every variant."""
    return [(version, way) for version in VERSIONS.values() for way in range(len(version.ways))]


def ids(value: object) -> str:
    return value.name if isinstance(value, Version) else str(value)


@pytest.mark.parametrize("case", sdk_vectors.cases(), ids=str)
def test_strings_of_the_sdks(decryptor: Decryptor, case: sdk_vectors.Case) -> None:
    seen = []

    def opened(text: str) -> object:
        seen.append(decryptor.open(text))
        return seen[-1].value

    assert same(map_strings(case.sealed, opened), case.expected)
    is_mixed_k1 = case.is_quirk and seen[0].envelope.version.curve is Curve.K1
    for value in seen:
        assert value.role == case.role
        assert value.way == (1 if is_mixed_k1 else 0)
        assert value.origin == (sdk_vectors.ORIGINS[case.sdk] if case.role else None)


def test_the_cases_hold_every_string_of_the_vectors() -> None:
    texts: list[str] = []
    for case in sdk_vectors.cases():
        map_strings(case.sealed, texts.append)
    for sdk in sdk_vectors.ORIGINS:
        content = (sdk_vectors.VECTORS / "ev-sdk" / f"{sdk}.json").read_text()
        map_strings(json.loads(content)["out"], lambda text: text.startswith("ev:") and texts.remove(text))
    assert texts == []


@pytest.mark.parametrize("case", sdk_vectors.files(), ids=str)
def test_files_of_the_sdks(decryptor: Decryptor, case: sdk_vectors.FileCase) -> None:
    assert decryptor.open_file(case.content) == (sdk_vectors.FILE_CONTENT, 0)


@pytest.mark.parametrize(("version", "way"), ways(), ids=ids)
def test_every_way_of_every_version(decryptor: Decryptor, version: Version, way: int) -> None:
    public = KEYS[version.curve].public_key()
    styles = [Style(way), Style(way, is_debug=True), Style(way, is_padded=True, names_string=True)]
    for (value_type, text), style in itertools.product(VALUES, styles):
        opened = decryptor.open(seal(version, public, value_type, text, METADATA, style))
        assert (opened.text, opened.envelope.value_type, opened.way) == (text, value_type, way)
        assert opened.envelope.is_debug == style.is_debug
        assert opened.role == ("pci-data" if version.has_metadata else None)


@pytest.mark.parametrize("number", list(FILE_VERSIONS))
def test_every_way_of_files(decryptor: Decryptor, number: int) -> None:
    public = KEYS[FILE_VERSIONS[number].curve].public_key()
    for way in range(2):
        assert decryptor.open_file(seal_file(number, public, b"content", Style(way))) == (b"content", way)


@pytest.mark.parametrize("version", list(VERSIONS.values()), ids=ids)
def test_refuses_other_keys_and_changed_bytes(decryptor: Decryptor, version: Version) -> None:
    text = seal(version, KEYS[version.curve].public_key(), ValueType.STRING, "secret", METADATA)
    with pytest.raises(DecryptFailed):
        Decryptor(app_keys.fresh()).open(text)
    for place in ("iv", "sealed"):
        original = getattr(decryptor.open(text).envelope, place)
        changed = bytes([original[0] ^ 1]) + original[1:]
        with pytest.raises(DecryptFailed):
            _open_parts(decryptor, text, **{place: changed})


def _open_parts(decryptor: Decryptor, text: str, **parts: bytes) -> object:
    envelope = dataclasses.replace(decryptor.open(text).envelope, **parts)
    return decryptor.open(envelope.text())


@pytest.mark.parametrize(
    "text",
    ["", "ev:", "ev:Tk9D:x:$", "ev:NONE:AAAAAAAAAAAAAAAA:" + "A" * 44 + ":" + "A" * 22 + ":$"],
)
def test_refuses_what_is_no_envelope(decryptor: Decryptor, text: str) -> None:
    with pytest.raises(ValueError):
        decryptor.open(text)
