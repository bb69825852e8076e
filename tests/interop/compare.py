"""Comparing values as JSON has them, where Python would take `True`, `1` and `1.0` for the same."""

import json
from collections.abc import Callable


def same(left: object, right: object) -> bool:
    """Types and all; the order of members does not count."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def map_strings(value: object, change: Callable[[str], object]) -> object:
    """The same shape with every string, but not the names of members, changed."""
    if isinstance(value, dict):
        return {name: map_strings(member, change) for name, member in value.items()}
    if isinstance(value, list):
        return [map_strings(element, change) for element in value]
    return change(value) if isinstance(value, str) else value


def leaves(value: object) -> list[object]:
    """Every scalar but null, in order."""
    if isinstance(value, (dict, list)):
        members = value.values() if isinstance(value, dict) else value
        return [leaf for member in members for leaf in leaves(member)]
    return [] if value is None else [value]
