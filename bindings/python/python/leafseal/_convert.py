"""Results in the form of the input: JSON texts as objects, and Arrow arrays as those of the caller's library."""

import json
import math
from typing import Any

from leafseal._errors import make


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
    """The values themselves, or an array of pyarrow for a Series of pandas 2, which lacks the interface of Arrow."""
    if type(values).__module__.partition(".")[0] != "pandas" or hasattr(values, "__arrow_c_stream__"):
        return values
    import pyarrow

    try:
        return pyarrow.Array.from_pandas(values)
    except pyarrow.ArrowException as error:
        raise make("invalid_params", f"the values have no common type of Arrow: {type(error).__name__}", "never") from None


def like(original: Any, result: Any) -> Any:
    """Converts an array of the native part to the library of `original`: pyarrow, pandas or Polars. For other libraries the result is an
    object with the methods of the Arrow PyCapsule interface."""
    library = type(original).__module__.partition(".")[0]
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

    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        # The library's own type of strings, unless the input has a type of Arrow.
        if not isinstance(original.dtype, pandas.ArrowDtype):
            return column.to_pandas().set_axis(original.index).rename(original.name)
    # A type of Arrow keeps integers exact beside missing values.
    values = pandas.arrays.ArrowExtensionArray(column)
    return pandas.Series(values, index=original.index, name=original.name)
