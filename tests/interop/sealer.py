"""An independent encryptor of every version, including legacy versions and tolerated variants that no SDK writes any more."""

import binascii
import os
import struct
from dataclasses import dataclass

import msgpack
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from envelope import (
    FILE_HEADER_SIZE,
    FILE_MAGIC,
    FILE_VERSIONS,
    Envelope,
    ValueType,
    Version,
    associated_data,
    compressed,
    derive,
)


@dataclass(frozen=True)
class Style:
    """The spelling of a string where the format permits several."""

    way: int = 0
    is_debug: bool = False
    is_padded: bool = False
    names_string: bool = False


@dataclass(frozen=True)
class SealedBytes:
    iv: bytes
    ephemeral: bytes
    sealed: bytes


def seal(
    version: Version,
    app: ec.EllipticCurvePublicKey,
    value_type: ValueType,
    text: str,
    metadata: dict[str, object] | None = None,
    style: Style = Style(),
) -> str:
    """Encrypts a value under a fresh ephemeral key, with `metadata` if the version supports it."""
    plaintext = text.encode()
    if version.has_metadata:
        packed = msgpack.packb(metadata or {})
        plaintext = struct.pack("<H", len(packed)) + packed + plaintext
    parts = _seal_bytes(version, app, value_type, plaintext, style)
    text = Envelope(version, value_type, style.is_debug, parts.iv, parts.ephemeral, parts.sealed).text()
    if style.is_padded:
        text = text.removesuffix(":$") + "=" * (-len(parts.sealed) % 3) + ":$"
    if style.names_string and value_type is ValueType.STRING:
        text = text.replace(f"{version.name}:", f"{version.name}:string:", 1)
    return text


def seal_file(number: int, app: ec.EllipticCurvePublicKey, content: bytes, style: Style = Style()) -> bytes:
    """Encrypts a file in version `number` (2 or 3)."""
    parts = _seal_bytes(FILE_VERSIONS[number], app, ValueType.STRING, content, style)
    header = FILE_MAGIC + struct.pack("<BH", number, FILE_HEADER_SIZE)
    body = header + parts.ephemeral + parts.iv + bytes([style.is_debug]) + parts.sealed
    return body + struct.pack("<I", binascii.crc32(body))


def _seal_bytes(
    version: Version, app: ec.EllipticCurvePublicKey, value_type: ValueType, plaintext: bytes, style: Style
) -> SealedBytes:
    derivation, binding = version.ways[style.way]
    private = ec.generate_private_key(version.curve.parameters)
    public = private.public_key()
    key = derive(derivation, version.curve, private.exchange(ec.ECDH(), app), public, app)
    ephemeral, iv = compressed(public), os.urandom(12)
    data = associated_data(binding, version.curve, value_type, style.is_debug, ephemeral, compressed(app))
    return SealedBytes(iv, ephemeral, AESGCM(key).encrypt(iv, plaintext, data))
