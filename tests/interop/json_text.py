"""JSON as text: scalars in document order, so that a test can check that every other byte is unchanged.

`json` loses white space, doubled keys and the spelling of numbers; here nothing is lost.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    rb'(?P<string>"(?:[^"\\]|\\.)*")(?P<key>\s*:)?|(?P<number>-?[0-9][0-9.eE+-]*)|(?P<boolean>true|false)|(?P<null>null)'
)


@dataclass(frozen=True)
class Scalar:
    """A value: `source` is its text, `kind` one of string, number, boolean, null."""

    kind: str
    source: bytes

    @property
    def text(self) -> str:
        """A string without quotes and escapes; other values as their text."""
        return json.loads(self.source) if self.kind == "string" else self.source.decode()


def scalars(document: bytes) -> Iterator[Scalar]:
    """Returns every scalar except keys of objects. `document` must be valid JSON."""
    for token in _TOKEN.finditer(document):
        if token["key"] is None:
            kind = token.lastgroup
            yield Scalar(kind, token[kind])


def replace(document: bytes, new: Callable[[Scalar], bytes]) -> bytes:
    """Replaces each scalar by `new` of it."""

    def one(token: re.Match[bytes]) -> bytes:
        if token["key"] is not None:
            return token[0]
        return new(Scalar(token.lastgroup, token[token.lastgroup]))

    return _TOKEN.sub(one, document)


def is_envelope(scalar: Scalar) -> bool:
    return scalar.kind == "string" and scalar.source.startswith(b'"ev:') and scalar.source.endswith(b':$"')
