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
    symmetric: int = 0
    """Values that were sealed, or opened, with a symmetric key; the others have envelopes to a public key."""
    rewrapped: int = 0
    """Envelopes to a public key that ``reseal`` made symmetric ones of."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The metadata of an envelope, never its value. None means unknown, or known only if `app` is given."""

    version: str
    curve: Literal["r1", "k1"] | None
    """None for a symmetric envelope."""
    type: Literal["string", "number", "boolean"]
    debug: bool
    """Whether it is marked as created in debug mode."""
    ephemeral: bytes | None
    """The ephemeral public key, SEC1-compressed; None for a symmetric envelope."""
    role: str | None
    origin: int | None
    """The number of the software that created it."""
    encrypted_at: datetime | None
    key_version: int | None
    """The app's key version that decrypts it."""
    scheme: Literal["public-key", "symmetric"] = "public-key"
    symmetric_key_id: bytes | None = None
    """The id of the key that a symmetric envelope names."""
    from_public_key: bool = False
    """Whether a symmetric envelope was resealed from one to a public key."""


_Seal = tuple[
    Literal["public-key", "symmetric"], str, Literal["r1", "k1"] | None, bytes | None, bytes | None, bool
]


def inspection(
    seal: _Seal,
    kind: Literal["string", "number", "boolean"],
    debug: bool,
    role: str | None,
    origin: int | None,
    encrypted_at: int | None,
    key_version: int | None,
) -> Inspection:
    """Converts what the native part knows."""
    scheme, version, curve, ephemeral, key_id, from_public_key = seal
    time = None if encrypted_at is None else datetime.fromtimestamp(encrypted_at, timezone.utc)
    return Inspection(
        version, curve, kind, debug, ephemeral, role, origin, time, key_version, scheme, key_id, from_public_key
    )
