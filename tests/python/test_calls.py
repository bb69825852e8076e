"""Documents, lists and inspection: both kinds of engine do the same."""

import json
from collections import OrderedDict
from datetime import datetime, timezone

import leafseal
import pytest
from decryptor import Decryptor

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    42,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    1.5,
    5e-324,
    1.7976931348623157e308,
    "",
    "a",
    "héllo ✓ 😀\x00",
    "x" * 100_000,
]


def test_lists_return_their_values_and_types(engine: leafseal.Engine, decryptor: Decryptor) -> None:
    sealed = engine.encrypt_many(VALUES)
    assert sealed[0] is None
    for value, envelope in zip(VALUES[1:], sealed[1:], strict=True):
        opened = decryptor.open(envelope)
        assert (opened.value, opened.way) == (value, 0)
        assert isinstance(opened.value, bool) == isinstance(value, bool)
    opened = engine.decrypt_many(sealed)
    assert opened == VALUES
    assert [type(value) for value in opened] == [type(value) for value in VALUES]
    assert [repr(one) for one in engine.decrypt_many(engine.encrypt_many([1.0, -0.0, 1e20]))] == ["1", "0", "1e+20"]


@pytest.mark.parametrize("values", [[], [None], ["one"], ("a", "b"), [str(index) for index in range(10_001)]])
def test_lists_of_any_length(engine: leafseal.Engine, values: list[str]) -> None:
    assert engine.decrypt_many(engine.encrypt_many(values)) == list(values)


def test_other_values_stay_unchanged(engine: leafseal.Engine) -> None:
    values = ["plain", 7, None, True, 2.5, "ev"]
    assert engine.decrypt_many(values) == values


@pytest.mark.parametrize("curve", ["r1", "k1"])
@pytest.mark.parametrize("keying", ["field", "request", "session"])
def test_curves_keyings_and_roles(engine: leafseal.Engine, decryptor: Decryptor, curve: str, keying: str) -> None:
    sealed = engine.encrypt_many(["a", 1, True] * 4, curve=curve, keying=keying, role="pii")
    opened = [decryptor.open(envelope) for envelope in sealed]
    assert [one.value for one in opened] == ["a", 1, True] * 4
    assert {one.role for one in opened} == {"pii"}
    assert {one.envelope.version.curve.value for one in opened} == {curve}
    assert len({one.envelope.ephemeral for one in opened}) == (12 if keying == "field" else 1)
    assert len({one.envelope.iv for one in opened}) == 12
    assert engine.decrypt_many(sealed, role="pii") == ["a", 1, True] * 4


DOCUMENT = {
    "card": {"number": "4111111111111111", "cvc": 123},
    "amount": 12.5,
    "big": 12345678901234567890123,
    "items": [{"note": 'quote " back \\ \n\x01'}, {"note": "😀"}],
    "empty": {},
    "none": None,
}


def test_documents_keep_their_form(engine: leafseal.Engine, decryptor: Decryptor) -> None:
    select = ["$.card.number", "$.items[*].note"]
    sealed = engine.encrypt(DOCUMENT, select=select)
    assert decryptor.open(sealed["card"]["number"]).value == "4111111111111111"
    assert sealed["card"]["cvc"] == 123 and sealed["big"] == DOCUMENT["big"] and sealed["amount"] == 12.5
    assert engine.decrypt(sealed) == DOCUMENT
    text = '{ "a" : "x", "n": 1.50, "a": "y" }'
    sealed = engine.encrypt(text, select="$.a")
    assert isinstance(sealed, str) and '"n": 1.50' in sealed
    assert engine.decrypt(sealed) == text, "duplicate names and spaces stay"
    sealed = engine.encrypt(text.encode(), select="$.a")
    assert isinstance(sealed, bytes) and engine.decrypt(sealed) == text.encode()
    assert engine.decrypt(engine.encrypt(bytearray(b"[1]"))) == b"[1]"


def test_documents_of_subclasses(engine: leafseal.Engine) -> None:
    class Number(int):
        def __str__(self) -> str:
            raise AssertionError("called")

        __repr__ = __str__

    document = OrderedDict(b=(1, Number(2), Number(2**70)), a=[])
    assert engine.decrypt(engine.encrypt(document)) == {"b": [1, 2, 2**70], "a": []}


def test_reports(engine: leafseal.Engine) -> None:
    sealed, report = engine.encrypt({"a": "x", "b": ["y", None]}, ["$.a", "$.b[*]", "$.c"], report=True)
    assert (report.count, report.matched, report.resealed) == (2, [1, 2, 0], 0)
    _, report = engine.encrypt(sealed, report=True)
    assert report.resealed == 2
    again, report = engine.encrypt(sealed, skip_sealed=True, report=True)
    assert again == sealed and report.skipped == 2
    arrived = engine.encrypt(["x", 1], role="card")
    resealed, report = engine.encrypt(arrived, role="card", reseal="symmetric", report=True)
    assert (report.rewrapped, report.symmetric, report.resealed) == (2, 2, 0)
    assert all(text.startswith("ev:WEFN:") for text in resealed) and engine.decrypt(resealed) == ["x", 1]
    assert engine.encrypt_many(resealed, role="card", reseal="symmetric") == resealed
    forged = sealed["a"][:-10] + ("A" if sealed["a"][-10] != "A" else "B") + sealed["a"][-9:]
    opened, report = engine.decrypt([forged, sealed["a"]], on_failure="null", report=True)
    assert opened == [None, "x"] and (report.failed, report.failures) == (1, ["$[0]"])
    opened, report = engine.decrypt_many([sealed["a"], forged, 1], on_failure="leave", report=True)
    assert opened == ["x", forged, 1] and (report.failed, report.failures) == (1, [1])


def test_inspection(engine: leafseal.Engine) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    [text, number] = engine.encrypt_many(["a", 1], role="pci", curve="k1")
    outside = engine.inspect(text)
    assert (outside.version, outside.curve, outside.type, outside.role) == ("S0lS", "k1", "string", None)
    inside = engine.inspect([text, number], app="py")
    assert [one.type for one in inside] == ["string", "number"]
    assert inside[0].role == "pci" and inside[0].key_version == 1 and len(inside[0].ephemeral) == 33
    assert inside[0].encrypted_at is not None and inside[0].encrypted_at >= before
    assert engine.inspect([]) == []
    with pytest.raises(leafseal.InvalidEnvelope) as caught:
        engine.inspect([text, "no envelope"])
    assert caught.value.index == 1


def test_a_local_and_a_remote_engine_read_each_other(local: leafseal.Engine, remote: leafseal.Engine) -> None:
    assert remote.decrypt_many(local.encrypt_many(VALUES)) == VALUES
    assert local.decrypt_many(remote.encrypt_many(VALUES)) == VALUES
    text = json.dumps(DOCUMENT, ensure_ascii=False)
    assert local.decrypt(remote.encrypt(text)) == text
