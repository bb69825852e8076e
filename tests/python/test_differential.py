"""Columns agree with lists: whatever the layout of a column, a call gives what calls for each value alone give, and refuses what they
refuse.

CASES sets the number of columns: one for each 20."""

import datetime
import decimal
import math
import os
from collections.abc import Callable
from typing import Any

import leafseal
import numpy
import pandas
import polars
import pyarrow as pa
import pytest
from columns import KINDS, TEXT, TEXTS, Column, chunked, columns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

COUNT = max(int(os.environ.get("CASES", "20000")) // 20, 100)


def checks(part: float) -> Any:
    """The settings of a test with a part of the columns."""
    return settings(max_examples=max(round(COUNT * part), 20), deadline=None, suppress_health_check=list(HealthCheck), database=None)


def outcome(call: Callable[[], Any]) -> Any:
    """The result, or the code and the index of the error."""
    try:
        return call()
    except leafseal.Error as error:
        return error.code, error.index


def each(call: Callable[[list[Any]], list[Any]], values: list[Any]) -> Any:
    """The results of calls for each value, or the code and the index of the first error."""
    results = []
    for index, value in enumerate(values):
        result = outcome(lambda value=value: call([value]))
        if isinstance(result, tuple):
            return result[0], index
        results += result
    return results


def as_list(column: Any) -> list[Any]:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.to_pylist()
    if isinstance(column, polars.Series):
        return column.to_list()
    return [None if pandas.isna(value) else value for value in column]


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same; an envelope has one form for whole floats and integers."""
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, (int, float)):
        return type(one) is type(other) and one == other
    return isinstance(other, (int, float)) and one == other and math.copysign(1, one) == math.copysign(1, other)


def all_equal(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(equal, some, others))


def has_a_type(values: list[Any]) -> bool:
    """Whether some type of a column holds all values exactly."""
    kinds = {str if isinstance(value, str) else bool if isinstance(value, bool) else float for value in values if value is not None}
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    whole = [value for value in numbers if isinstance(value, int)]
    if len(whole) == len(numbers):
        fits = not whole or min(whole) >= 0 or max(whole) < 2**63
    else:
        fits = all(abs(value) <= 2**53 for value in whole)
    return len(kinds) <= 1 and fits


def check(engine: leafseal.Engine, column: Any, elements: list[Any], kind: Any = None) -> Any:
    """Encrypts and decrypts a column and its values."""
    wanted = each(lambda one: engine.encrypt_many(one, keying="session"), elements)
    sealed = outcome(lambda: engine.encrypt_many(column, keying="session"))
    if isinstance(wanted, tuple):
        assert sealed == wanted
        return None
    assert not isinstance(sealed, tuple), sealed
    envelopes = as_list(sealed)
    assert [one is None for one in envelopes] == [one is None for one in elements]
    opened = each(engine.decrypt_many, wanted)
    assert all_equal(each(engine.decrypt_many, envelopes), opened)
    check_opened(engine, sealed, opened)
    if kind is None:
        return None
    if kind == pa.null():
        kind = pa.string()
    typed = engine.decrypt_many(sealed, type=kind)
    assert typed.type == kind
    return typed


def check_opened(engine: leafseal.Engine, sealed: Any, wanted: Any) -> None:
    """Decrypts a column without a type."""
    opened = outcome(lambda: engine.decrypt_many(sealed))
    if isinstance(opened, tuple):
        assert opened == wanted if isinstance(wanted, tuple) else opened == ("invalid_params", None) and not has_a_type(wanted)
    else:
        assert all_equal(as_list(opened), wanted)


def check_typed(engine: leafseal.Engine, given: Column) -> None:
    kind = KINDS[given.kind]
    typed = check(engine, given.column, given.elements, kind.type)
    if typed is not None:
        assert isinstance(typed, pa.ChunkedArray) == isinstance(given.column, pa.ChunkedArray)
        is_string = given.kind in TEXTS and "string" in given.kind
        # The text of -0 is 0, as in ECMAScript.
        values = [value + 0.0 if isinstance(value, float) else value for value in given.values]
        assert all_equal(as_list(typed), given.elements if is_string else values)


@checks(0.5)
@given(column=columns())
def test_arrow(local: leafseal.Engine, column: Column) -> None:
    check_typed(local, column)


@checks(0.05)
@given(column=columns())
def test_arrow_remote(remote: leafseal.Engine, column: Column) -> None:
    check_typed(remote, column)


@checks(0.2)
@given(data=st.data())
def test_envelopes(local: leafseal.Engine, data: st.DataObject) -> None:
    """Columns of envelopes in every layout, with texts between them that are none, and some that are broken."""
    draw = data.draw
    values = draw(st.lists(st.none() | draw(st.sampled_from([TEXT, st.booleans(), st.integers(-(2**63), 2**64 - 1)])), max_size=12))
    texts = [text and text.encode() for text in local.encrypt_many(values, keying="session")]
    # One kind of fault: calls check that all values are text before they decrypt one.
    others = [b"no envelope", "ü".encode(), draw(st.sampled_from([b"", b"", b"ev:Tk9D:x:$", b"\xff"]))]
    for place in draw(st.lists(st.integers(0, len(texts)), max_size=2)):
        texts.insert(place, draw(st.sampled_from(others)))
    name = draw(st.sampled_from(TEXTS))
    column = draw(chunked(name, texts))
    elements = Column(name, column, texts).elements
    check_opened(local, column, each(local.decrypt_many, elements))


def some(name: str, faulty: list[Any]) -> st.SearchStrategy[list[Any]]:
    kind = KINDS[name]
    values = st.lists(st.none() | kind.values, max_size=12)
    return values | st.lists(st.none() | kind.values | st.sampled_from(faulty), max_size=6) if faulty else values


def native(name: str, values: list[Any]) -> list[Any]:
    """Strings as str: those libraries check them."""
    return [value.decode() if name == "string" and value is not None else value for value in values]


NUMBERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)] + ["float32", "float64"]
POLARS = {
    polars.Null: "null",
    polars.Boolean: "bool",
    polars.String: "string",
    polars.Categorical: "string",
    polars.Binary: "binary",
    polars.Float16: "float16",
    **{getattr(polars, name.replace("int", "Int").replace("uI", "UI").replace("float", "Float")): name for name in NUMBERS},
}


@checks(0.1)
@given(data=st.data())
def test_polars(local: leafseal.Engine, data: st.DataObject) -> None:
    dtype, name = data.draw(st.sampled_from(list(POLARS.items())))
    values = data.draw(some(name, [] if name == "string" else KINDS[name].faulty))
    front, cut = data.draw(some(name, [])), data.draw(st.integers(0, len(values)))
    series = [polars.Series("name", native(name, part), dtype=dtype) for part in (front + values[:cut], values[cut:])]
    column = polars.concat(series, rechunk=data.draw(st.booleans()))[len(front) :]
    check(local, column, Column(name, column, values).elements)
    if not any(value in KINDS[name].faulty for value in values if value is not None):
        sealed = local.encrypt_many(column)
        assert isinstance(sealed, polars.Series) and sealed.name == "name" and sealed.dtype == polars.String


PANDAS = [
    *[(dtype, "string") for dtype in ("object", "str", "string[python]", "string[pyarrow]", "category")],
    *[("object", name) for name in ("null", "bool", "int32", "binary")],
    ("boolean", "bool"),
    *[(name.replace("int", "Int").replace("uI", "UI").replace("float", "Float"), name) for name in NUMBERS],
    *[(name, name) for name in NUMBERS],
    *[(pandas.ArrowDtype(kind.type), name) for name, kind in KINDS.items() if name not in TEXTS],
    *[(pandas.ArrowDtype(KINDS[name].type), "binary" if "binary" in name else "string") for name in TEXTS],
]


@checks(0.15)
@given(data=st.data())
def test_pandas(local: leafseal.Engine, data: st.DataObject) -> None:
    dtype, name = data.draw(st.sampled_from(PANDAS))
    # A NaN is a missing value of pandas.
    faulty = {"binary": [b"\xff"], "float": [math.inf]}.get(name.rstrip("0123456789"), [])
    values, front = data.draw(some(name, faulty)), data.draw(some(name, []))
    if dtype in NUMBERS and "int" in name:
        values, front = [[value or 0 for value in part] for part in (values, front)]
    make = data.draw(st.sampled_from([pandas.Series, pandas.array, pandas.Index]))
    if make is pandas.Index and name == "float16":
        make = pandas.Series
    every: Any = native(name, front + values)
    if dtype in NUMBERS:
        # pandas.array makes floats of a list of large integers.
        every = numpy.array([math.nan if value is None else value for value in every], dtype)
    column = make(every, dtype=dtype)[len(front) :]
    elements = Column(name, column, values).elements
    check(local, column, elements)
    if all(value not in faulty for value in values):
        sealed = local.encrypt_many(column)
        check_container(sealed, column)
        check_container(local.decrypt_many(sealed, type=None if "float" not in name else "float64"), column)


def check_container(result: Any, column: Any) -> None:
    """Results are of the same class, with the same labels."""
    if isinstance(column, (pandas.Series, pandas.Index)):
        assert isinstance(result, pandas.Series if isinstance(column, pandas.Series) else pandas.Index) and result.name == column.name
        assert not isinstance(column, pandas.Series) or result.index.equals(column.index)
    else:
        assert isinstance(result, pandas.api.extensions.ExtensionArray)


# Types whose values have no form in an envelope, each with one of them as a list would contain it.
REFUSED: list[tuple[pa.DataType, Any]] = [
    (pa.date32(), datetime.date(2020, 1, 1)),
    (pa.date64(), datetime.date(2020, 1, 1)),
    (pa.timestamp("s"), datetime.datetime(2020, 1, 1)),
    (pa.timestamp("ns", "UTC"), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
    (pa.time32("ms"), datetime.time(1)),
    (pa.time64("ns"), datetime.time(1)),
    (pa.duration("us"), datetime.timedelta(1)),
    (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3])),
    *[(kind(5, 2), decimal.Decimal("1.25")) for kind in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)],
    (pa.binary(2), b"ab"),
    *[(kind(pa.string()), ["a"]) for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)],
    (pa.list_(pa.string(), 1), ["a"]),
    (pa.struct([("a", pa.string())]), {"a": "b"}),
    (pa.map_(pa.string(), pa.string()), [("a", "b")]),
    (pa.uuid(), b"0123456789abcdef"),
    (pa.opaque(pa.int64(), "money", "example"), 1),
    (pa.fixed_shape_tensor(pa.int8(), [1]), [1]),
]


@checks(0.05)
@given(data=st.data())
def test_types_without_a_form(local: leafseal.Engine, data: st.DataObject) -> None:
    """They are refused by their type, also where a column has no value."""
    kind, value = data.draw(st.sampled_from(REFUSED))
    values = data.draw(st.lists(st.sampled_from([None, value]), max_size=9))
    cut = data.draw(st.integers(0, len(values)))
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    array = pa.array(values, storage)
    array = pa.ExtensionArray.from_storage(kind, array) if storage != kind else array
    column = data.draw(st.sampled_from([array[cut:], pa.chunked_array([array[:cut], array[cut:]]), pa.chunked_array([], kind)]))
    for call in (local.encrypt_many, local.decrypt_many):
        assert outcome(lambda call=call: call(column)) == ("invalid_params", None)
    if not isinstance(kind, pa.BaseExtensionType):
        assert outcome(lambda: local.encrypt_many([value])) == ("invalid_params", 0)


@pytest.mark.parametrize(
    "values", [[datetime.date(2020, 1, 1)], [datetime.timedelta(1)], [decimal.Decimal(1)], [["a"]], [{"a": 1}], [object()]], ids=repr
)
def test_types_of_polars_without_a_form(local: leafseal.Engine, values: list[Any]) -> None:
    for column in (polars.Series(values), polars.Series(values)[1:]):
        assert outcome(lambda column=column: local.encrypt_many(column)) == ("invalid_params", None)


@pytest.mark.parametrize(
    "values",
    [
        pandas.period_range("2020", periods=2, freq="D"),
        pandas.interval_range(0, 2),
        pandas.date_range("2020", periods=2),
        pandas.MultiIndex.from_tuples([(1, 2)]),
        pandas.array([1j, 2j]),
        pandas.Series(["a", 1]),
        pandas.Index(["a", 1], dtype=object),
        pandas.Series(["\ud800"], dtype=object),
        pandas.Index(["\ud800"], dtype=object),
        pandas.Index([2**64, -1], dtype=object),
        pandas.DataFrame({"a": ["b"]}),
    ],
    ids=lambda values: type(values).__name__,
)
def test_values_of_pandas_without_a_form(local: leafseal.Engine, values: Any) -> None:
    for call in (local.encrypt_many, local.decrypt_many):
        assert outcome(lambda call=call: call(values)) == ("invalid_params", None)
