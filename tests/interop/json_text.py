"""JSON by its text: scalars in the order in which they stand, so that a test can see that every other byte stayed.

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
    """One value: `source` as it stands, `kind` one of string, number, boolean, null."""

    kind: str
    source: bytes

    @property
    def text(self) -> str:
        """A string without quotes and escapes, anything else as it stands."""
        return json.loads(self.source) if self.kind == "string" else self.source.decode()


def scalars(document: bytes) -> Iterator[Scalar]:
    """Every scalar but the keys of objects. `document` is valid JSON."""
    for token in _TOKEN.finditer(document):
        if token["key"] is None:
            kind = token.lastgroup
            yield Scalar(kind, token[kind])


def replace(document: bytes, new: Callable[[Scalar], bytes]) -> bytes:
    """The document with `new` of each scalar in its place."""

    def one(token: re.Match[bytes]) -> bytes:
        if token["key"] is not None:
            return token[0]
        return new(Scalar(token.lastgroup, token[token.lastgroup]))

    return _TOKEN.sub(one, document)


def is_envelope(scalar: Scalar) -> bool:
    return scalar.kind == "string" and scalar.source.startswith(b'"ev:') and scalar.source.endswith(b':$"')
