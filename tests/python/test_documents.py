"""Columns of JSON texts, which Spark uses: each row is a document of its own, and all are one call."""

from typing import Any

import leafseal
import pyarrow as pa
import pytest

DOCUMENTS = ['{"card":{"number":"4111"},"amount":1.50}', None, '{"card":{"number":"é"}}', " [] "]


def call(engine: leafseal.Engine, encrypts: bool, column: Any, select: list[str], **options: Any) -> Any:
    return pa.array(engine._core.call("documents", encrypts, column, engine._options(select, **options)))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_documents_keep_their_rows_and_bytes(engine: leafseal.Engine, kind: pa.DataType) -> None:
    column = pa.array(DOCUMENTS, kind)
    sealed = call(engine, True, column, ["$.card.number"])
    assert sealed.type == kind and sealed.to_pylist()[1] is None and sealed.to_pylist()[3] == " [] "
    assert sealed.to_pylist()[0].endswith('"},"amount":1.50}') and "4111" not in sealed.to_pylist()[0]
    assert call(engine, False, sealed, ["$"]).equals(column)
    assert engine.decrypt(sealed.to_pylist()[0]) == DOCUMENTS[0]
    part = sealed.slice(2, 2)
    assert call(engine, False, part, ["$.card"]).equals(column.slice(2, 2))


def test_many_documents_stay_in_order(engine: leafseal.Engine) -> None:
    column = pa.array([f'{{"a":"{index}","b":{index}}}' if index % 5 else None for index in range(500)])
    sealed = call(engine, True, column, ["$.a"], keying="session")
    assert sealed.null_count == 100 and call(engine, False, sealed, ["$"]).equals(column)
    assert call(engine, True, column.slice(0, 0), ["$.a"]).equals(column.slice(0, 0))


def test_rows_cannot_reach_into_each_other(engine: leafseal.Engine) -> None:
    """A text that would be valid between two others is refused where it stands alone."""
    with pytest.raises(leafseal.InvalidDocument, match="row 1:") as caught:
        call(engine, True, pa.array(['{"a":1}', '{"a":1},{"a":2}']), ["$.a"])
    assert caught.value.index == 1 and caught.value.offset == 7


def test_errors_name_the_row(engine: leafseal.Engine) -> None:
    good, bad = '{"a":"x"}', '{"b":"x"}'
    with pytest.raises(leafseal.UnmatchedSelector, match="row 2:"):
        call(engine, True, pa.array([good, None, bad, good]), ["$.a"], strict=True)
    with pytest.raises(leafseal.InvalidSelector):
        call(engine, True, pa.array([good]), ["a"])
    sealed = call(engine, True, pa.array([good, good]), ["$.a"]).to_pylist()
    sealed[1] = sealed[1][:40] + ("A" if sealed[1][40] != "A" else "B") + sealed[1][41:]
    with pytest.raises(leafseal.Error, match="row 1:") as caught:
        call(engine, False, pa.array(sealed), ["$"])
    assert caught.value.index == 1 and caught.value.code in ("decrypt_failed", "invalid_envelope")
    with pytest.raises(leafseal.InvalidParams, match="must contain strings"):
        call(engine, True, pa.array([1]), ["$"])
