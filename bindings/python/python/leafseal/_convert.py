"""Results in the form of the input: JSON texts as objects, and Arrow arrays as those of the caller's library."""

import json
import math
from typing import Any

from leafseal._error import make


def load(text: str) -> Any:
    """Reads the JSON text of a result."""
    try:
        return json.loads(text, parse_float=_finite)
    except ValueError:
        raise make("number_out_of_range", "a number of the result is beyond what Python reads", "never") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError
    return value


def arrow(values: Any) -> Any:
    """The values themselves, or what has their interface of Arrow: pandas has none for its indexes and arrays, nor pandas 2 for a Series."""
    library = _library(values)
    if library == "polars" and str(getattr(values, "dtype", None)) == "Null":
        import polars

        # Polars exports this type with a buffer, which the C data interface forbids.
        return values.cast(polars.String)
    if library != "pandas" or hasattr(values, "__arrow_c_stream__"):
        return values
    import pyarrow

    try:
        return pyarrow.Array.from_pandas(values)
    except Exception as error:
        # The message may contain values.
        raise make("invalid_params", f"the values have no common type of Arrow: {type(error).__name__}", "never") from None


def contexts_for(values: Any, contexts: Any) -> Any:
    """The contexts of values, which belong to them by position."""
    both = [getattr(one, "index", None) if _library(one) == "pandas" else None for one in (values, contexts)]
    if all(index is not None and not callable(index) for index in both) and not both[0].equals(both[1]):
        # pandas would align them by label, which a caller who gives both expects.
        raise make("invalid_params", "the values and their contexts must have the same index", "never")
    return None if contexts is None else arrow(contexts)


def _library(values: Any) -> str:
    return type(values).__module__.partition(".")[0]


def like(original: Any, result: Any) -> Any:
    """Converts an array of the native part to the library of `original`: pyarrow, pandas or Polars. For other libraries the result is an
    object with the methods of the Arrow PyCapsule interface."""
    library = _library(original)
    if library == "pyarrow":
        return _pyarrow(result)
    if library == "polars":
        import polars

        return polars.Series(result).alias(original.name)
    if library == "pandas":
        return _pandas(original, _pyarrow(result))
    return result


def _pyarrow(result: Any) -> Any:
    import pyarrow

    return pyarrow.chunked_array(result) if hasattr(type(result), "__arrow_c_stream__") else pyarrow.array(result)


def _pandas(original: Any, column: Any) -> Any:
    import pandas
    import pyarrow

    kind, is_text = original.dtype, pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
    if is_text and not isinstance(kind, pandas.ArrowDtype):
        # The library's own type of strings, unless the input has a type of Arrow.
        values = column.to_pandas().array
        values = values.astype(kind) if isinstance(kind, pandas.StringDtype) else values
    else:
        # A type of Arrow keeps integers exact beside missing values.
        values = pandas.arrays.ArrowExtensionArray(column)
    if isinstance(original, pandas.Series):
        return pandas.Series(values, index=original.index, name=original.name)
    return pandas.Index(values, name=original.name) if isinstance(original, pandas.Index) else values
