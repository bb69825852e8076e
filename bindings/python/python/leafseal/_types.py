"""Reports and other results of calls besides values."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a call."""

    count: int | None
    """Values of a document that were encrypted or decrypted; None for lists and columns."""
    matched: list[int]
    """How many values each selector matched, in the order of the selectors; empty without selectors."""
    resealed: int
    """Encrypted values that were envelopes already: they are now encrypted twice."""
    skipped: int
    """Envelopes that `skip_sealed` left unchanged."""
    failed: int
    """Envelopes that did not decrypt, with `on_failure` other than `fail`."""
    failures: list[str] | list[int]
    """The first of those: paths in a document, indexes in a list or column."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The metadata of an envelope, never its value. None means unknown, or known only if `app` is given."""

    version: str
    curve: Literal["r1", "k1"]
    type: Literal["string", "number", "boolean"]
    debug: bool
    """Whether it is marked as created in debug mode."""
    ephemeral: bytes
    """The ephemeral public key, SEC1-compressed."""
    role: str | None
    origin: int | None
    """The number of the software that created it."""
    encrypted_at: datetime | None
    key_version: int | None
    """The app's key version that decrypts it."""


def inspection(
    version: str,
    curve: Literal["r1", "k1"],
    kind: Literal["string", "number", "boolean"],
    debug: bool,
    ephemeral: bytes,
    role: str | None,
    origin: int | None,
    encrypted_at: int | None,
    key_version: int | None,
) -> Inspection:
    """Converts what the native part knows."""
    time = None if encrypted_at is None else datetime.fromtimestamp(encrypted_at, timezone.utc)
    return Inspection(version, curve, kind, debug, ephemeral, role, origin, time, key_version)
