"""Random columns for test_differential.py: the values of a column, and arrays that contain them in every layout that Arrow allows.

A layout never changes the values: it slices a longer array, puts meaningless bytes under nulls, stores a dictionary with unused values or
runs, wraps the array into an extension type, and cuts the column into chunks."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow as pa
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NOT_UTF8 = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"longer than twelve bytes \xf8"]
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]


@dataclass(frozen=True)
class Kind:
    """A type, the values that it may have, values without a form in an envelope, and the value that a list would contain."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    faulty: list[Any]
    element: Callable[[Any], Any] = lambda value: value


def integers(kind: pa.DataType, bits: int, signed: bool) -> Kind:
    least = -(2 ** (bits - 1)) if signed else 0
    return Kind(kind, st.integers(least, least + 2**bits - 1), [])


def floats(kind: pa.DataType, width: int, element: Callable[[Any], Any] = float) -> Kind:
    return Kind(kind, st.floats(width=width, allow_nan=False, allow_infinity=False), NOT_FINITE, element)


def text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


# Strings are bytes here: arrays of strings are made from them without a check, as other libraries may.
KINDS = {
    "null": Kind(pa.null(), st.none(), []),
    "bool": Kind(pa.bool_(), st.booleans(), []),
    **{f"int{bits}": integers(getattr(pa, f"int{bits}")(), bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": integers(getattr(pa, f"uint{bits}")(), bits, False) for bits in (8, 16, 32, 64)},
    "float16": floats(pa.float16(), 16),
    # The shortest decimal text of a 32-bit float, as in the protocol.
    "float32": floats(pa.float32(), 32, lambda value: float(str(numpy.float32(value)))),
    "float64": floats(pa.float64(), 64),
    **{
        name: Kind(getattr(pa, name)(), TEXT.map(str.encode), NOT_UTF8, text)
        for name in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    },
}
TEXTS = [name for name in KINDS if "string" in name or "binary" in name]


@dataclass(frozen=True)
class Column:
    """A column, and its values as they would be in a list."""

    kind: str
    column: Any
    values: list[Any]

    @property
    def elements(self) -> list[Any]:
        return [None if value is None else KINDS[self.kind].element(value) for value in self.values]


def plain(kind: Kind, values: list[Any]) -> pa.Array:
    """An array without nulls under which bytes lie."""
    if kind.element is not text:
        return pa.array(values, kind.type)
    if pa.types.is_string(kind.type) or pa.types.is_large_string(kind.type):
        binary = pa.binary() if pa.types.is_string(kind.type) else pa.large_binary()
        return pa.Array.from_buffers(kind.type, len(values), pa.array(values, binary).buffers())
    array = pa.array(values, pa.binary_view() if kind.type == pa.string_view() else kind.type)
    return array.view(kind.type)


def over_junk(kind: Kind, values: list[Any], junk: Any) -> pa.Array:
    """The same with `junk` under the nulls."""
    full = plain(kind, [junk if value is None else value for value in values])
    bits = numpy.packbits(numpy.array([value is not None for value in values], bool), bitorder="little").tobytes()
    return pa.Array.from_buffers(kind.type, len(values), [pa.py_buffer(bits), *full.buffers()[1:]])


@st.composite
def arrays(draw: Any, kind: Kind, values: list[Any]) -> pa.Array:
    """An array without an encoding: a slice of a slice of a longer one."""
    extra = st.lists(st.none() | kind.values | st.sampled_from(kind.faulty or [None]), max_size=10)
    front, back = draw(extra), draw(extra)
    every = front + values + back
    if kind.type == pa.null():
        array = plain(kind, every)
    else:
        junk = draw(st.sampled_from(kind.faulty) if kind.faulty else kind.values)
        array = over_junk(kind, every, junk) if draw(st.booleans()) else plain(kind, every)
    cut = draw(st.integers(0, len(front)))
    return array.slice(cut).slice(len(front) - cut, len(values))


@st.composite
def dictionaries(draw: Any, kind: Kind, values: list[Any], index: pa.DataType) -> pa.Array:
    """Equal values may be there twice, nulls in the dictionary or the indexes, and indexes under nulls beyond the dictionary."""
    entries = draw(st.lists(st.none() | kind.values, max_size=3)) + values
    start = len(entries) - len(values)
    every = [draw(st.sampled_from([start + at, None])) if value is None else start + at for at, value in enumerate(values)]
    numbers = Kind(index, st.integers(0, 100), [])
    indexes = over_junk(numbers, every, 100) if draw(st.booleans()) else plain(numbers, every)
    return pa.DictionaryArray.from_arrays(indexes, draw(arrays(kind, entries)), safe=False)


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (struct.pack("d", one) == struct.pack("d", other) if isinstance(one, float) else one == other)


@st.composite
def runs(draw: Any, kind: Kind, values: list[Any], ends: pa.DataType, inner: Any) -> pa.Array:
    """A slice of an array of runs, which need not be as long as possible."""
    extra = st.lists(st.none() | kind.values, max_size=5)
    front, back = draw(extra), draw(extra)
    every = front + values + back
    begins = [at == 0 or not same(every[at - 1], value) or draw(st.booleans()) for at, value in enumerate(every)]
    heads = [value for value, begin in zip(every, begins, strict=True) if begin]
    limits = [at for at, begin in enumerate(begins) if begin and at > 0] + [len(every)] * bool(every)
    # RunEndEncodedArray.from_arrays would refuse strings that are not UTF-8.
    parts = [pa.array(limits, ends), draw(inner(kind, heads))]
    array = pa.Array.from_buffers(pa.run_end_encoded(ends, parts[1].type), len(every), [None], children=parts)
    return array.slice(len(front), len(values))


INDEXES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
ENDS = [pa.int16(), pa.int32(), pa.int64()]
ENCODINGS = ["plain", "dictionary", "runs", "runs of a dictionary", "extension"]
Layout = Callable[[Kind, list[Any]], st.SearchStrategy[pa.Array]]


def extension(kind: Kind, values: list[Any]) -> st.SearchStrategy[pa.Array]:
    """Extension types of text and of booleans; for other types an array without one."""
    if kind.type == pa.bool_():
        bytes_ = Kind(pa.int8(), st.integers(-128, 127), [])
        numbers = [None if value is None else int(value) for value in values]
        return arrays(bytes_, numbers).map(lambda array: pa.ExtensionArray.from_storage(pa.bool8(), array))
    if not pa.types.is_string(kind.type) and not pa.types.is_large_string(kind.type) and kind.type != pa.string_view():
        return arrays(kind, values)
    wrapper = pa.opaque(kind.type, "mail", "example")
    return arrays(kind, values).map(lambda array: pa.ExtensionArray.from_storage(wrapper, array))


@st.composite
def layouts(draw: Any, encoding: str) -> Layout:
    """How the chunks of one column are made: they have the same type."""
    index, ends = draw(st.sampled_from(INDEXES)), draw(st.sampled_from(ENDS))

    def coded(kind: Kind, values: list[Any]) -> st.SearchStrategy[pa.Array]:
        return dictionaries(kind, values, index)

    return {
        "plain": arrays,
        "dictionary": coded,
        "runs": lambda kind, values: runs(kind, values, ends, arrays),
        "runs of a dictionary": lambda kind, values: runs(kind, values, ends, coded),
        "extension": extension,
    }[encoding]


@st.composite
def chunked(draw: Any, kind: str, values: list[Any]) -> Any:
    """A column of the values: an array, or chunks of which some are empty."""
    one, layout = KINDS[kind], draw(st.sampled_from(ENCODINGS).flatmap(layouts))
    if kind == "null" and layout is not arrays:
        layout = arrays
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = [values[start:end] for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    if len(parts) == 1 and draw(st.booleans()):
        return draw(layout(one, values))
    extra = draw(st.lists(st.none() | one.values, max_size=3))
    made = [draw(layout(one, part)) for part in [extra + parts[0], *parts[1:]]]
    if not values and draw(st.booleans()):
        return pa.chunked_array([], made[0].type)
    return pa.chunked_array(made, made[0].type).slice(len(extra))


@st.composite
def columns(draw: Any) -> Column:
    """A column of any type and layout, rarely with values that have no form."""
    name = draw(st.sampled_from(list(KINDS)))
    kind = KINDS[name]
    some = st.none() | kind.values
    if kind.faulty and draw(st.integers(0, 9)) == 0:
        some |= st.sampled_from(kind.faulty)
    values = draw(st.lists(some, max_size=draw(st.sampled_from([0, 1, 8, 20]))))
    return Column(name, draw(chunked(name, values)), values)
