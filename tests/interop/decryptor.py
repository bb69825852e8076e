"""An independent decryptor: opens strings and files with an app's private keys, by `cryptography` and `msgpack`.

It returns which of the format's variants opened a value, so that a test can require the rule for values of Leafseal and allow
tolerated variants for values of an SDK.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass

import msgpack
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from envelope import Binding, Curve, Derivation, EncryptedFile, Envelope, ValueType, associated_data, compressed, derive

PrivateKeys = dict[Curve, ec.EllipticCurvePrivateKey]


class DecryptFailed(Exception):
    """None of the version's variants opens it."""


@dataclass(frozen=True)
class Opened:
    """A value with its metadata. `way` is 0 for the version's rule, above 0 for tolerated variants."""

    text: str
    value: str | int | float | bool
    envelope: Envelope
    way: int
    role: str | None = None
    origin: int | None = None
    encrypted_at: int | None = None


class Decryptor:
    """Caches shared secrets by ephemeral key, because one key serves many values."""

    def __init__(self, keys: PrivateKeys):
        self._keys = keys
        self._shared: dict[bytes, bytes] = {}

    def open(self, text: str) -> Opened:
        """Raises ValueError if `text` is not an envelope, DecryptFailed if it does not open."""
        envelope = Envelope.parse(text)
        plaintext, way = self._try(
            envelope,
            lambda binding, app: associated_data(
                binding, envelope.version.curve, envelope.value_type, envelope.is_debug, envelope.ephemeral, app
            ),
        )
        metadata: dict[str, object] = {}
        if envelope.version.has_metadata:
            metadata, plaintext = _split(plaintext)
        value_text = plaintext.decode("utf-8")
        return Opened(
            text=value_text,
            value=_value(envelope.value_type, value_text),
            envelope=envelope,
            way=way,
            role=metadata.get("dr"),
            origin=metadata.get("eo"),
            encrypted_at=metadata.get("et"),
        )

    def open_file(self, content: bytes) -> tuple[bytes, int]:
        """Returns the content, and the way as in `Opened`."""
        file = EncryptedFile.parse(content)

        def data(binding: Binding, app: bytes) -> bytes | None:
            return associated_data(binding, file.version.curve, ValueType.STRING, False, file.ephemeral, app)

        return self._try(file, data)

    def _try(self, item: Envelope | EncryptedFile, data: Callable[[Binding, bytes], bytes | None]) -> tuple[bytes, int]:
        app = compressed(self._keys[item.version.curve].public_key())
        for way, (derivation, binding) in enumerate(item.version.ways):
            key = self._key(item, derivation)
            try:
                return AESGCM(key).decrypt(item.iv, item.sealed, data(binding, app)), way
            except InvalidTag:
                continue
        raise DecryptFailed

    def _key(self, item: Envelope | EncryptedFile, derivation: Derivation) -> bytes:
        curve = item.version.curve
        private, ephemeral = self._keys[curve], curve.public(item.ephemeral)
        # The same 33 bytes may be a point of both curves.
        place = curve.value.encode() + item.ephemeral
        if place not in self._shared:
            self._shared[place] = private.exchange(ec.ECDH(), ephemeral)
        return derive(derivation, curve, self._shared[place], ephemeral, private.public_key())


def _split(plaintext: bytes) -> tuple[dict[str, object], bytes]:
    (size,) = struct.unpack_from("<H", plaintext)
    return msgpack.unpackb(plaintext[2 : 2 + size], strict_map_key=True), plaintext[2 + size :]


def _value(value_type: ValueType, text: str) -> str | int | float | bool:
    if value_type is ValueType.STRING:
        return text
    value = json.loads(text)
    if (value_type is ValueType.BOOLEAN) != isinstance(value, bool) or not isinstance(value, (bool, int, float)):
        raise DecryptFailed
    return value
