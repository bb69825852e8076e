"""Symmetric envelopes open as they were made, in their context, and in no other form."""

import asyncio
import json
from pathlib import Path

import leafseal
import pandas
import polars
import pyarrow as pa
import pytest
from program import Program

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
    assert engine.inspect(sealed[0], app="py", context=CONTEXT).key_version == 1
    for other in (None, CONTEXT + "x"):
        with pytest.raises(leafseal.Error, match="decrypt failed"):
            engine.inspect(sealed, app="py", context=other)
    for alone in ({"context": CONTEXT}, {"accept": "symmetric"}):
        with pytest.raises(leafseal.InvalidParams, match="needs an app"):
            engine.inspect(sealed[0], **alone)
    assert engine.inspect(sealed[0], app="py", context=CONTEXT, accept="symmetric").key_version == 1
    public = engine.encrypt_many(["a"], scheme="public-key")[0]
    for envelope, options in ((sealed[0], {"accept": "public-key"}), (public, {})):
        with pytest.raises(leafseal.Error, match="decrypt failed"):
            engine.inspect(envelope, app="py", context=CONTEXT, **options)


ROWS = ["row 1", "row 2", "row 3", 4, -5]
VALUES = ["one", 2, None, True, "five"]


def sealed_by_row(engine: leafseal.Engine) -> list[str | None]:
    return engine.encrypt_many(VALUES, scheme="symmetric", contexts=ROWS)


def test_a_value_opens_in_its_own_context(engine: leafseal.Engine) -> None:
    sealed = sealed_by_row(engine)
    assert engine.decrypt_many(sealed, contexts=ROWS) == VALUES
    assert engine.decrypt_many(sealed, contexts=tuple(str(row) for row in ROWS)) == VALUES  # Integers are their digits.
    assert engine.decrypt_many(sealed[:1], context="row 1") == ["one"]  # One context for all is the same context.
    kept = engine.encrypt_many(sealed, scheme="symmetric", contexts=ROWS, skip_sealed=True, report=True)
    assert kept[0] == sealed and kept[1].skipped == 4


def test_a_value_does_not_open_in_another_row(engine: leafseal.Engine) -> None:
    sealed = sealed_by_row(engine)
    moved = [sealed[1], sealed[0], *sealed[2:]]
    for contexts, values, index in [(ROWS, moved, 0), ([*ROWS[:4], 5], sealed, 4), (None, sealed, 0)]:
        with pytest.raises(leafseal.DecryptFailed) as caught:
            engine.decrypt_many(values, contexts=contexts)
        assert caught.value.index == index
    opened, report = engine.decrypt_many(moved, contexts=ROWS, on_failure="null", report=True)
    assert opened == [None, None, *VALUES[2:]] and (report.failed, report.failures) == (2, [0, 1])
    left = engine.decrypt_many(moved, contexts=ROWS, on_failure="leave")
    assert left == [*moved[:2], *VALUES[2:]]
    both = engine.encrypt_many(moved, scheme="symmetric", contexts=ROWS, skip_sealed=True)
    assert both[0] != moved[0] and both[3:] == moved[3:]


@pytest.mark.parametrize(
    ("contexts", "index"),
    [
        (ROWS[1:], None),
        ([], None),
        ([*ROWS, "more"], None),
        ("12345", None),
        (["row 1", "", *ROWS[2:]], 1),
        (["row 1", "x" * 1025, *ROWS[2:]], 1),
        (["row 1", "ä" * 513, *ROWS[2:]], 1),
        (["row 1", "row 2", None, 4, 5], 2),
        (["row 1", "row 2", "row 3", True, 5], 3),
        (["row 1", "row 2", "row 3", 4.0, 5], 3),
        (["row 1", "row 2", "row 3", "\ud800", 5], 3),
        (pa.array([1, 2, None, 4, 5]), 2),
        (pa.array([1.0, 2.0, 3.0, 4.0, 5.0]), 0),
        (pa.array([b"1", b"\xff", b"3", b"4", b"5"]), 1),
        (pa.chunked_array([["1", "2"], ["3", "", "5"]]), 3),
    ],
)
def test_contexts_that_are_refused(engine: leafseal.Engine, contexts: object, index: int | None) -> None:
    for call in (engine.encrypt_many, engine.decrypt_many):
        with pytest.raises(leafseal.InvalidParams) as caught:
            call(VALUES, contexts=contexts)
        assert caught.value.index == index


def test_contexts_go_with_symmetric_lists_alone(engine: leafseal.Engine) -> None:
    with pytest.raises(leafseal.InvalidParams, match="one for each value"):
        engine.encrypt_many(VALUES, contexts=ROWS, context="row 1", scheme="symmetric")
    with pytest.raises(leafseal.InvalidParams):
        engine.encrypt_many(VALUES, contexts=ROWS, scheme="public-key")
    with pytest.raises(leafseal.InvalidParams, match="contexts"):
        engine.encrypt([1, 2], contexts=["1", "2"])
    assert engine.encrypt_many([], contexts=[], scheme="symmetric") == []
    limit = ["x" * 1024, 2**64, -(2**63) - 1]
    assert engine.decrypt_many(engine.encrypt_many(["a", "b", "c"], contexts=limit, scheme="symmetric"), contexts=limit) == ["a", "b", "c"]


def test_columns_of_contexts(engine: leafseal.Engine) -> None:
    count = 25_000  # Several requests, and steps, with contexts of their own.
    values = pa.chunked_array([[f"value {index}" for index in range(7)], [f"value {index}" for index in range(7, count)]])
    ids = pa.chunked_array([list(range(count - 3)), list(range(count - 3, count))], pa.int32())
    sealed = engine.encrypt_many(values, contexts=ids, scheme="symmetric")
    assert engine.decrypt_many(sealed, contexts=ids) == values
    assert engine.decrypt_many(sealed.to_pylist(), contexts=[str(index) for index in range(count)]) == values.to_pylist()
    # A value that moves is found wherever it is: one of the last chunk's last part.
    other = [*range(count - 2), count - 1, count - 2]
    with pytest.raises(leafseal.DecryptFailed) as caught:
        engine.decrypt_many(sealed, contexts=pa.array(other))
    assert caught.value.index == count - 2
    opened, report = engine.decrypt_many(sealed, contexts=pa.array(other), on_failure="null", report=True)
    assert report.failures == [count - 2, count - 1] and opened.to_pylist()[:-2] == values.to_pylist()[:-2]
    for column in (pa.array([str(index) for index in range(count)], pa.large_string()), polars.Series(range(count)), pandas.Series(range(count))):
        assert engine.decrypt_many(sealed, contexts=column) == values


def test_pandas_values_and_contexts_have_one_index(engine: leafseal.Engine) -> None:
    frame = pandas.DataFrame({"id": [7, 8, 9], "name": ["a", "b", "c"]}, index=[2, 1, 0])
    sealed = engine.encrypt_many(frame["name"], contexts=frame["id"], scheme="symmetric")
    assert list(engine.decrypt_many(sealed, contexts=frame["id"])) == ["a", "b", "c"]
    with pytest.raises(leafseal.InvalidParams, match="same index"):
        engine.decrypt_many(sealed, contexts=frame["id"].sort_index())


def test_asyncio_has_contexts_too(program: Program) -> None:
    async def both() -> None:
        async with await leafseal.AsyncEngine.open(program.folder, app="py") as engine:
            sealed = await engine.encrypt_many(VALUES, scheme="symmetric", contexts=ROWS)
            assert await engine.decrypt_many(sealed, contexts=ROWS) == VALUES
            with pytest.raises(leafseal.DecryptFailed):
                await engine.decrypt_many(sealed[::-1], contexts=ROWS)

    asyncio.run(both())
