"""Compares values as JSON does; in Python `True`, `1` and `1.0` are equal."""

import json
from collections.abc import Callable


def same(left: object, right: object) -> bool:
    """Whether values and types are equal; the order of members is ignored."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def map_strings(value: object, change: Callable[[str], object]) -> object:
    """Returns the same structure with every string changed, except member names."""
    if isinstance(value, dict):
        return {name: map_strings(member, change) for name, member in value.items()}
    if isinstance(value, list):
        return [map_strings(element, change) for element in value]
    return change(value) if isinstance(value, str) else value


def leaves(value: object) -> list[object]:
    """Returns every scalar except null, in order."""
    if isinstance(value, (dict, list)):
        members = value.values() if isinstance(value, dict) else value
        return [leaf for member in members for leaf in leaves(member)]
    return [] if value is None else [value]
