"""Random values and documents: what goes in comes out, here and in independent decryptors. CASES sets the number of values."""

import json
import os
import random
import string
from decimal import Decimal

import evervault
import leafseal
import key_endpoint
import pyarrow as pa
import pytest
from conftest import APP
from decryptor import Decryptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import Program

CASES = int(os.environ.get("CASES", "20000"))
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)
CHECKS = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@CHECKS
@given(values=st.lists(SCALARS))
def test_lists(engine: leafseal.Engine, values: list[object]) -> None:
    opened = engine.decrypt_many(engine.encrypt_many(values))
    assert [(type(one), repr(one)) for one in opened] == [(type(one), repr(one)) for one in map(written, values)]


def written(value: object) -> object:
    """A whole float is written as ECMAScript writes it, so it comes back as an int if that has 64 bits."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        whole = int(Decimal(repr(value)))
        return whole if -(2**63) <= whole < 2**64 else value
    return value


@CHECKS
@given(document=st.lists(JSON) | st.dictionaries(TEXT, JSON))
def test_documents(engine: leafseal.Engine, document: object) -> None:
    assert engine.decrypt(engine.encrypt(document)) == document
    assert json.loads(engine.decrypt(engine.encrypt(json.dumps(document)))) == document


@CHECKS
@given(values=st.lists(st.none() | TEXT), start=st.integers(0, 5))
def test_columns(engine: leafseal.Engine, values: list[str | None], start: int) -> None:
    column = pa.array(values, pa.string())[start:]
    assert engine.decrypt_many(engine.encrypt_many(column), type="string").equals(column)


def random_text(source: random.Random) -> str:
    alphabet = source.choice([string.printable, "äöü€", "\x00\x1f\"\\", "😀🎉", string.digits])
    return "".join(source.choices(alphabet, k=source.choice([0, 1, 5, 16, 33, 100])))


def random_value(source: random.Random) -> object:
    return source.choice(
        [
            lambda: random_text(source),
            lambda: random_text(source),
            lambda: source.randint(-(2**63), 2**64 - 1),
            lambda: source.random() * 10 ** source.randint(-300, 300),
            lambda: source.random() < 0.5,
        ]
    )()


def test_an_independent_decryptor_opens_random_values(engine: leafseal.Engine, decryptor: Decryptor) -> None:
    """The decryptor is that of the interop tests, which is tested with values of the SDKs."""
    source = random.Random(17)
    left = CASES // 2
    while left > 0:
        values = [random_value(source) for _ in range(min(left, 10_000))]
        sealed = engine.encrypt_many(values, curve=source.choice(["r1", "k1"]), role=source.choice([None, "pii"]))
        for value, envelope in zip(values, sealed, strict=True):
            opened = decryptor.open(envelope)
            expected = written(value)
            assert opened.way == 0 and (opened.value == expected or float(opened.value) == expected)
            assert isinstance(opened.value, str) == isinstance(value, str)
            assert isinstance(opened.value, bool) == isinstance(value, bool)
        assert engine.decrypt_many(sealed) == [written(value) for value in values]
        left -= len(values)


@pytest.mark.parametrize("curve", ["SECP256K1", "SECP256R1"])
def test_values_of_the_sdk(
    engine: leafseal.Engine, program: Program, monkeypatch: pytest.MonkeyPatch, curve: str
) -> None:
    """The SDK decrypts only through an engine's API, so its own encryption is what is independent."""
    source = random.Random(18)
    values = [random_value(source) for _ in range(min(CASES // 40, 25_000))]
    with key_endpoint.running(json.loads(program.run("keys", "public", APP, "--json"))) as endpoint:
        monkeypatch.setenv("EV_API_URL", endpoint.url + "/")
        monkeypatch.setattr(evervault, "ev_client", None)
        evervault.init("app_interop", key_endpoint.API_KEY, curve=curve)
        sealed = evervault.encrypt(values)
    assert engine.decrypt_many(sealed) == values
