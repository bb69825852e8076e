"""Arrow columns of pyarrow, pandas and Polars, by the C data interface."""

from collections.abc import Iterator

import columns
import leafseal
import pandas
import polars
import pyarrow as pa
import pytest
from decryptor import Decryptor

COLUMNS = {
    "string": pa.array(["a", None, "", "😀", "x" * 1000]),
    "large_string": pa.array(["a", None, "b"], pa.large_string()),
    "string_view": pa.array(["a", None, "a long string that is not inline"], pa.string_view()),
    "bool": pa.array([True, None, False]),
    "int8": pa.array([-128, None, 127], pa.int8()),
    "int16": pa.array([-(2**15), 2**15 - 1], pa.int16()),
    "int32": pa.array([-(2**31), 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**63), None, 2**63 - 1]),
    "uint8": pa.array([0, 255], pa.uint8()),
    "uint16": pa.array([0, 2**16 - 1], pa.uint16()),
    "uint32": pa.array([0, 2**32 - 1], pa.uint32()),
    "uint64": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "float16": pa.array([0.5, None, -65504.0], pa.float16()),
    "float32": pa.array([0.1, None, -1.5], pa.float32()),
    "float64": pa.array([0.1, None, 1e300]),
    "binary": pa.array([b"a", None, "ü".encode()]),
    "large_binary": pa.array([b"a", None], pa.large_binary()),
    "binary_view": pa.array([b"a", None, b"a long string that is not inline"], pa.binary_view()),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_every_type(engine: leafseal.Engine, decryptor: Decryptor, kind: str) -> None:
    column = COLUMNS[kind]
    sealed = engine.encrypt_many(column)
    assert sealed.type in (pa.string(), pa.large_string()) and sealed.null_count == column.null_count
    for value, envelope in zip(column.to_pylist(), sealed.to_pylist(), strict=True):
        if value is not None:
            opened = decryptor.open(envelope).value
            expected = value.decode() if isinstance(value, bytes) else value
            assert opened == pytest.approx(expected, rel=1e-6) if kind == "float32" else opened == expected
    opened = engine.decrypt_many(sealed, type=column.type)
    assert opened.type == column.type and opened.equals(column)
    assert engine.decrypt_many(sealed, type=kind).equals(column)


def test_types_are_found(engine: leafseal.Engine) -> None:
    for kind, expected in [("int8", pa.int64()), ("uint64", pa.uint64()), ("float32", pa.float64()), ("bool", pa.bool_())]:
        assert engine.decrypt_many(engine.encrypt_many(COLUMNS[kind])).type == expected
    mixed = pa.array(engine.encrypt_many(["a", 1]))
    with pytest.raises(leafseal.InvalidParams, match="different types"):
        engine.decrypt_many(mixed)
    with pytest.raises(leafseal.InvalidParams) as caught:
        engine.decrypt_many(mixed, type="string")
    assert caught.value.index == 1
    with pytest.raises(leafseal.NumberOutOfRange) as caught:
        engine.decrypt_many(engine.encrypt_many(pa.array([1, 300])), type="int8")
    assert caught.value.index == 1


@pytest.mark.parametrize("column", [pa.array([], pa.string()), pa.array([None, None], pa.string()), pa.nulls(3)])
def test_columns_without_values(engine: leafseal.Engine, column: pa.Array) -> None:
    sealed = engine.encrypt_many(column)
    assert len(sealed) == len(column) and sealed.null_count == len(column)
    assert engine.decrypt_many(sealed).to_pylist() == column.to_pylist()


def test_slices_and_chunks(engine: leafseal.Engine) -> None:
    values = [f"value {index}" if index % 7 else None for index in range(25_000)]
    column = pa.array(values)[3:24_001]
    sealed = engine.encrypt_many(column)
    assert engine.decrypt_many(sealed[5:]).to_pylist() == values[8:24_001]
    assert engine.decrypt_many(engine.encrypt_many(pa.array([1, None, 3, 4])[1:3])).to_pylist() == [None, 3]
    assert engine.decrypt_many(engine.encrypt_many(pa.array([True, None, False])[1:])).to_pylist() == [None, False]
    chunked = pa.chunked_array([["a", None], [], ["b"]])
    sealed = engine.encrypt_many(chunked)
    assert [len(chunk) for chunk in sealed.chunks] == [2, 0, 1]
    assert engine.decrypt_many(sealed).equals(chunked)
    assert engine.encrypt_many(pa.chunked_array([], pa.string())).to_pylist() == []
    broken = pa.chunked_array([sealed.to_pylist(), ["b", "ev:Tk9D:x:$"]])
    with pytest.raises(leafseal.InvalidEnvelope) as caught:
        engine.decrypt_many(broken)
    assert caught.value.index == 4
    opened, report = engine.decrypt_many(broken, on_failure="null", report=True)
    assert opened.to_pylist() == ["a", None, "b", "b", None] and report.failures == [4]


NOT_UTF8 = b"\xff not UTF-8"


@pytest.mark.parametrize("name", columns.TEXTS)
def test_only_the_values_of_a_column_are_read(engine: leafseal.Engine, name: str) -> None:
    """Bytes outside of a slice and under nulls mean nothing."""
    column = columns.over_junk(columns.KINDS[name], [NOT_UTF8, b"a", None, "ü".encode(), NOT_UTF8], NOT_UTF8)
    for part, values in [(column[1:4], ["a", None, "ü"]), (column[2:3], [None]), (column[5:], []), (column[1:4][2:], ["ü"])]:
        assert engine.decrypt_many(engine.encrypt_many(part)).to_pylist() == values
    chunks = pa.chunked_array([column[1:2], column[2:2], column[2:4]])
    assert engine.decrypt_many(engine.encrypt_many(chunks)).to_pylist() == ["a", None, "ü"]
    for call in (engine.encrypt_many, engine.decrypt_many):
        with pytest.raises(leafseal.InvalidParams, match="value 3: the string is not UTF-8") as caught:
            call(column[1:])
        assert caught.value.index == 3
        with pytest.raises(leafseal.InvalidParams) as caught:
            call(pa.chunked_array([column[1:4], column[1:3], column[3:]]))
        assert caught.value.index == 6


def test_runs_are_decoded(engine: leafseal.Engine) -> None:
    values = pa.array(["a", None, "b"])
    column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), values)[1:4]
    sealed = engine.encrypt_many(column)
    assert engine.decrypt_many(sealed).to_pylist() == ["a", None, "b"]
    envelopes = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 5], pa.int16()), sealed)
    assert engine.decrypt_many(envelopes).to_pylist() == ["a", None, "b", "b", "b"]
    equal = pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), values[:1])
    assert len(set(engine.encrypt_many(equal).to_pylist())) == 3, "equal values have different envelopes"


def test_extension_types(engine: leafseal.Engine) -> None:
    """Text is text, and booleans of a byte are booleans; other values mean something else than their storage."""
    for storage, kind, values in [
        (pa.array(["{}", None]), pa.json_(), ["{}", None]),
        (pa.array([1, None, 0], pa.int8()), pa.bool8(), [True, None, False]),
    ]:
        column = pa.ExtensionArray.from_storage(kind, storage)
        runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), column)
        for one in (column, runs):
            opened = engine.decrypt_many(engine.encrypt_many(one)).to_pylist()
            assert opened == values and [type(value) for value in opened] == [type(value) for value in values]
    with pytest.raises(leafseal.InvalidParams, match="extension type example.money"):
        engine.encrypt_many(pa.ExtensionArray.from_storage(Money(), pa.array([1])))


class Money(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "example.money")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def test_types_do_not_depend_on_chunks(engine: leafseal.Engine) -> None:
    for kind in (pa.large_string(), pa.large_binary(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())):
        for column in (pa.chunked_array([], kind), pa.chunked_array([pa.nulls(1, kind)])):
            sealed = engine.encrypt_many(column)
            assert sealed.type == pa.large_string()
            assert engine.decrypt_many(column).type == (pa.string_view() if kind == pa.string_view() else pa.large_string())
    with pytest.raises(leafseal.InvalidParams, match="Date32"):
        engine.encrypt_many(pa.chunked_array([], pa.date32()))


def test_messages_contain_no_values(engine: leafseal.Engine) -> None:
    """Those of other libraries do."""

    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError("4111-secret")

    def parts() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": ["b"]})
        raise ValueError("4111-secret")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.string()}), parts())
    for values in (Broken(), pandas.Series([1, "4111-secret"], dtype=object), pandas.Index([1, "4111-secret"], dtype=object), reader):
        with pytest.raises(leafseal.InvalidParams) as caught:
            engine.encrypt_many(values)
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None


def test_dictionaries_are_decoded(engine: leafseal.Engine, decryptor: Decryptor) -> None:
    column = pa.array(["a", "b", "a", None]).dictionary_encode()
    sealed = engine.encrypt_many(column)
    assert len(set(sealed.to_pylist())) == 4, "equal values have different envelopes"
    assert [one and decryptor.open(one).value for one in sealed.to_pylist()] == ["a", "b", "a", None]


@pytest.mark.parametrize(
    ("column", "index"),
    [
        (pa.array([b"ok", None, b"\xff"]), 2),
        (pa.array([b"\xff"], pa.binary_view()), 0),
        (pa.array([1.0, None, float("nan")]), 2),
        (pa.array([1.0, float("-inf")], pa.float32()), 1),
        (pa.array([[1]]), None),
        (pa.array([0], pa.timestamp("s")), None),
        (pa.array([{"a": 1}]), None),
    ],
)
def test_columns_without_a_form(engine: leafseal.Engine, column: pa.Array, index: int | None) -> None:
    with pytest.raises(leafseal.InvalidParams) as caught:
        engine.encrypt_many(column)
    assert caught.value.index == index


def test_only_strings_are_decrypted(engine: leafseal.Engine) -> None:
    with pytest.raises(leafseal.InvalidParams, match="strings"):
        engine.decrypt_many(pa.array([1]))


def test_pandas(engine: leafseal.Engine) -> None:
    frame = pandas.DataFrame({"name": ["a", None, "c"], "age": [1, 2, 3]}, index=[10, 20, 30])
    sealed = frame.assign(name=engine.encrypt_many(frame["name"]), age=engine.encrypt_many(frame["age"]))
    assert list(sealed.index) == [10, 20, 30] and sealed["name"].str.startswith("ev:").sum() == 2
    opened = engine.decrypt_many(sealed["name"])
    assert opened.name == "name" and opened[10] == "a" and pandas.isna(opened[20])
    assert engine.decrypt_many(sealed["age"]).tolist() == [1, 2, 3]


STRINGS_OF_PANDAS = ["object", "str", "string[python]", "string[pyarrow]", pandas.ArrowDtype(pa.string()), "category"]


@pytest.mark.parametrize("dtype", STRINGS_OF_PANDAS, ids=str)
def test_indexes_and_arrays_of_pandas(engine: leafseal.Engine, dtype: object) -> None:
    values = ["a", None, "c"]
    for column in (pandas.Index(values, dtype=dtype, name="name"), pandas.array(values, dtype=dtype), pandas.Series(values, dtype=dtype)):
        sealed = engine.encrypt_many(column[1:])
        opened = engine.decrypt_many(sealed)
        for result in (sealed, opened):
            assert isinstance(result, pandas.Index) == isinstance(column, pandas.Index)
            assert isinstance(result, pandas.Series) == isinstance(column, pandas.Series)
            assert dtype in ("object", "category") or result.dtype == column.dtype
        assert pandas.isna(opened[1 if isinstance(column, pandas.Series) else 0]) and list(opened)[1] == "c"
        assert not isinstance(column, pandas.Index) or opened.name == sealed.name == "name"
    numbers = pandas.Index([1, 2**62, 3])
    assert list(engine.decrypt_many(engine.encrypt_many(numbers))) == list(numbers)


def test_nulls_of_polars(engine: leafseal.Engine) -> None:
    """Polars exports the type with a buffer that the interface forbids."""
    for values in ([None, None], []):
        column = polars.Series("name", values, dtype=polars.Null)
        sealed = engine.encrypt_many(column)
        assert sealed.name == "name" and sealed.to_list() == values
        assert engine.decrypt_many(column).to_list() == engine.decrypt_many(sealed).to_list() == values


def test_polars(engine: leafseal.Engine) -> None:
    frame = polars.DataFrame({"name": ["a", None, "c"], "age": [1, 2, None]})
    sealed = frame.with_columns(engine.encrypt_many(frame["name"]), engine.encrypt_many(frame["age"]))
    assert sealed["name"].null_count() == 1 and sealed.schema["age"] == polars.String
    opened = sealed.with_columns(engine.decrypt_many(sealed["name"]), engine.decrypt_many(sealed["age"]))
    assert opened.equals(frame)


def test_other_libraries_get_the_interface(engine: leafseal.Engine) -> None:
    class Foreign:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return pa.array(["a"]).__arrow_c_array__(requested_schema)

    sealed = engine.encrypt_many(Foreign())
    assert pa.array(sealed).to_pylist()[0].startswith("ev:")

    class Broken:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return 1, 2

    with pytest.raises(leafseal.InvalidParams, match="cannot be read"):
        engine.encrypt_many(Broken())


def test_numbers_are_exact_or_refused(engine: leafseal.Engine) -> None:
    least, largest, limit = -(2**63), 2**64 - 1, 2**53
    exact = [
        ([1, -1], pa.int64()),
        ([least, 2**63 - 1], pa.int64()),
        ([0, largest], pa.uint64()),
        ([limit, -limit, 0.5], pa.float64()),
        ([0.5, None], pa.float64()),
    ]
    for values, kind in exact:
        opened = engine.decrypt_many(pa.array(engine.encrypt_many(values)))
        assert opened.type == kind and opened.to_pylist() == values
    for values in ([largest, -1], [limit + 1, 0.5], [least, 0.5]):
        sealed = pa.array(engine.encrypt_many(values))
        with pytest.raises(leafseal.InvalidParams, match="no type holds all numbers"):
            engine.decrypt_many(sealed)
        assert engine.decrypt_many(sealed.to_pylist()) == values
    sealed = pa.array(engine.encrypt_many([0.5, 3e38, 1e39]))
    with pytest.raises(leafseal.NumberOutOfRange, match="value 2 is beyond the range of Float32"):
        engine.decrypt_many(sealed, type=pa.float32())
    assert engine.decrypt_many(sealed[:2], type=pa.float32()).to_pylist()[0] == 0.5


def test_a_time_limit_is_that_of_all_requests_of_a_column(engine: leafseal.Engine) -> None:
    """Each of the 500 requests to a remote engine takes a small part of the time. A busy engine refuses those that would miss its end."""
    with pytest.raises((leafseal.DeadlineExceeded, leafseal.Overloaded)):
        engine.encrypt_many(pa.repeat("x", 5_000_000), keying="session", timeout=0.05)
    assert engine.decrypt_many(engine.encrypt_many(pa.array(["a"]), timeout=60)).to_pylist() == ["a"]
