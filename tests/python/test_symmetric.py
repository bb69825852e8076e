"""Symmetric envelopes open as they were made, in their context, and in no other form."""

import json
from pathlib import Path

import leafseal
import pytest

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "symmetric" / "refused.json").read_text())
CONTEXT = VECTORS["context"]


@pytest.fixture
def sealed(engine: leafseal.Engine) -> list[str]:
    return engine.encrypt_many([VECTORS["value"], VECTORS["other"]], scheme="symmetric", context=CONTEXT)


def test_what_is_refused(engine: leafseal.Engine, sealed: list[str]) -> None:
    assert engine.decrypt_many(sealed, context=CONTEXT) == [VECTORS["value"], VECTORS["other"]]
    one, other = (text.split(":") for text in sealed)
    parts = {"id": one[2], "nonce": one[3], "ciphertext": one[4], "other_nonce": other[3], "other_ciphertext": other[4]}
    for vector in VECTORS["refused"]:
        with pytest.raises(leafseal.Error) as caught:
            engine.decrypt_many([vector["template"].format(**parts)], context=vector.get("context", CONTEXT))
        assert caught.value.code == vector["code"], vector["name"]
    assert len(VECTORS["refused"]) > 30


def test_what_anyone_can_make_is_refused_where_it_is_not_accepted(engine: leafseal.Engine) -> None:
    public = engine.encrypt_many(["a"], scheme="public-key")
    for options in ({"context": CONTEXT}, {"accept": "symmetric"}, {"accept": "symmetric,from-public-key"}):
        with pytest.raises(leafseal.Error, match="decrypt failed"):
            engine.decrypt_many(public, **options)
    assert engine.decrypt_many(public, accept="public-key") == ["a"]
    with pytest.raises(leafseal.InvalidParams, match="some of"):
        engine.decrypt_many(public, accept="symetric")


def test_what_inspection_shows(engine: leafseal.Engine, sealed: list[str]) -> None:
    shown = engine.inspect(sealed[0])
    assert (shown.scheme, shown.version, shown.curve, shown.ephemeral) == ("symmetric", "WEFF", None, None)
    assert len(shown.symmetric_key_id) == 16 and not shown.from_public_key
