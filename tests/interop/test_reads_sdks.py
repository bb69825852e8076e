"""Leafseal decrypts the vectors of the SDKs to the original values, and every older variant of the format."""

import itertools
import json

import pytest

import app_keys
import sdk_vectors
from compare import same
from conftest import APP
from envelope import FILE_VERSIONS, VERSIONS, Envelope, ValueType, Version
from leafseal import CommandFailed, Leafseal
from sealer import Style, seal, seal_file

KEYS = app_keys.of_the_vectors()
METADATA = {"dr": "pci-data", "eo": 9, "et": 1_700_000_000}
VALUES = [
    (ValueType.STRING, 'héllo "✓" \\ \u0000 😀'),
    (ValueType.STRING, ""),
    (ValueType.STRING, "x" * 5000),
    (ValueType.NUMBER, "-12.50e+3"),
    (ValueType.NUMBER, "123456789012345678901234567890"),
    (ValueType.BOOLEAN, "true"),
]


def decrypt_value(leafseal: Leafseal, value: object, *flags: str) -> object:
    return json.loads(leafseal.decrypt(APP, json.dumps({"sealed": value}).encode(), *flags))["sealed"]


@pytest.mark.parametrize("case", sdk_vectors.cases(), ids=str)
def test_strings(leafseal: Leafseal, case: sdk_vectors.Case) -> None:
    flags = ["--role", case.role] if case.role else []
    assert same(decrypt_value(leafseal, case.sealed, *flags), case.expected)


def test_all_strings_in_one_document(leafseal: Leafseal) -> None:
    cases = {str(case): case for case in sdk_vectors.cases()}
    document = json.dumps({name: case.sealed for name, case in cases.items()}).encode()
    expected = {name: case.expected for name, case in cases.items()}
    assert same(json.loads(leafseal.decrypt(APP, document)), expected)


@pytest.mark.parametrize("case", sdk_vectors.files(), ids=str)
def test_files(leafseal: Leafseal, case: sdk_vectors.FileCase) -> None:
    assert leafseal.decrypt_file(APP, case.content) == sdk_vectors.FILE_CONTENT


def test_inspect_tells_what_the_sdks_wrote(leafseal: Leafseal) -> None:
    singles = [case for case in sdk_vectors.cases() if isinstance(case.sealed, str)]
    texts = [case.sealed for case in singles]
    lines = leafseal.run("inspect", "--app", APP, "--json", *texts).splitlines()
    for case, line in zip(singles, lines, strict=True):
        metadata = json.loads(line)
        assert metadata["version"] == Envelope.parse(case.sealed).version.name
        assert (metadata.get("role"), metadata["key_version"]) == (case.role, 1)
        assert metadata.get("origin") == (sdk_vectors.ORIGINS[case.sdk] if case.role else None)


@pytest.mark.parametrize("version", list(VERSIONS.values()), ids=lambda version: version.name)
def test_every_way_of_every_version(leafseal: Leafseal, version: Version) -> None:
    public = KEYS[version.curve].public_key()
    texts, sources = [], []
    for way, (value_type, text) in itertools.product(range(len(version.ways)), VALUES):
        for style in (Style(way), Style(way, is_debug=True), Style(way, is_padded=True, names_string=True)):
            texts.append(seal(version, public, value_type, text, METADATA, style))
            sources.append(json.dumps(text, ensure_ascii=False) if value_type is ValueType.STRING else text)
    opened = leafseal.decrypt(APP, json.dumps(texts, separators=(",", ":")).encode())
    # Numbers are compared as text; strings may be escaped in several valid ways.
    assert json.loads(opened, parse_float=str, parse_int=str) == json.loads(
        f"[{','.join(sources)}]", parse_float=str, parse_int=str
    )


@pytest.mark.parametrize("number", list(FILE_VERSIONS))
def test_every_way_of_files(leafseal: Leafseal, number: int) -> None:
    public = KEYS[FILE_VERSIONS[number].curve].public_key()
    for style in (Style(0), Style(1), Style(0, is_debug=True)):
        assert leafseal.decrypt_file(APP, seal_file(number, public, b"content\x00", style)) == b"content\x00"


def changed(text: str, part: str) -> str:
    """The envelope with one flipped bit in one of its parts."""
    envelope = Envelope.parse(text)
    content = bytearray(getattr(envelope, part))
    content[-1] ^= 1
    return Envelope(**(vars(envelope) | {part: bytes(content)})).text()


@pytest.mark.parametrize("part", ["iv", "ephemeral", "sealed"])
@pytest.mark.parametrize("version", list(VERSIONS.values()), ids=lambda version: version.name)
def test_refuses_forgeries(leafseal: Leafseal, version: Version, part: str) -> None:
    text = seal(version, KEYS[version.curve].public_key(), ValueType.STRING, "the secret", METADATA)
    assert decrypt_value(leafseal, text) == "the secret"
    with pytest.raises(CommandFailed) as failure:
        decrypt_value(leafseal, changed(text, part))
    assert failure.value.code == 1
    assert "the secret" not in failure.value.message


def test_refuses_swapped_parts_types_and_other_apps(leafseal: Leafseal) -> None:
    public = KEYS[VERSIONS["QkTC"].curve].public_key()
    first, second = (Envelope.parse(seal(VERSIONS["QkTC"], public, ValueType.NUMBER, "7", METADATA)) for _ in range(2))
    swapped = Envelope(**(vars(first) | {"sealed": second.sealed})).text()
    retyped = Envelope(**(vars(first) | {"value_type": ValueType.STRING})).text()
    foreign_key = app_keys.fresh()[VERSIONS["QkTC"].curve].public_key()
    foreign = seal(VERSIONS["QkTC"], foreign_key, ValueType.NUMBER, "7", METADATA)
    for text in (swapped, retyped, foreign):
        with pytest.raises(CommandFailed) as failure:
            decrypt_value(leafseal, text)
        assert failure.value.code == 1


@pytest.mark.parametrize("text", ["1,2", "NaN", "0x10", " 1", "01", ""])
def test_refuses_numbers_that_would_change_the_document(leafseal: Leafseal, text: str) -> None:
    sealed = seal(VERSIONS["Tk9D"], KEYS[VERSIONS["Tk9D"].curve].public_key(), ValueType.NUMBER, text)
    with pytest.raises(CommandFailed) as failure:
        decrypt_value(leafseal, sealed)
    assert failure.value.code == 1
