"""An independent parser of the `ev:` format for tests: strings and files, without keys.

Written from the format's description alone, over `cryptography` and the standard library, with none of Leafseal's code. The
DER prefixes of the KDF are read from `vectors/der-prefix.txt`. `decryptor` and `sealer` stand on this.
"""

import base64
import binascii
import hashlib
import re
import struct
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def _der_prefixes() -> dict[str, bytes]:
    prefixes = {}
    for line in (VECTORS / "der-prefix.txt").read_text().splitlines():
        name, size, digits = line.split()
        prefixes[name] = bytes.fromhex(digits)
        assert len(prefixes[name]) == int(size)
    return prefixes


_DER_PREFIXES = _der_prefixes()


class Curve(Enum):
    """The curves, with the names of the format."""

    R1 = "r1"
    K1 = "k1"

    @property
    def parameters(self) -> ec.EllipticCurve:
        return ec.SECP256R1() if self is Curve.R1 else ec.SECP256K1()

    def public(self, point: bytes) -> ec.EllipticCurvePublicKey:
        """Returns the key of a SEC1 point; raises ValueError if it is not on the curve."""
        return ec.EllipticCurvePublicKey.from_encoded_point(self.parameters, point)

    def der(self, public: ec.EllipticCurvePublicKey) -> bytes:
        """SubjectPublicKeyInfo with explicit parameters, as the KDF requires it."""
        return _DER_PREFIXES[self.value] + public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def compressed(public: ec.EllipticCurvePublicKey) -> bytes:
    """SEC1, 33 bytes."""
    return public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


class ValueType(Enum):
    """The types, with their numbers in the flag of the associated data."""

    STRING = 0
    NUMBER = 1
    BOOLEAN = 2


class Derivation(Enum):
    """How the AES key is derived from the shared X coordinate."""

    KDF = "kdf"
    RAW = "raw"
    KDF_OVER_APP_KEY = "kdf over the app key"


class Binding(Enum):
    """The associated data."""

    NONE = "none"
    APP_KEY = "app key"
    EPHEMERAL_KEY = "ephemeral key"
    FLAGGED = "version 2"


@dataclass(frozen=True)
class Version:
    """A row of the format's table. `ways` contains the rule first, then tolerated variants."""

    name: str
    curve: Curve
    has_metadata: bool
    ways: tuple[tuple[Derivation, Binding], ...]


def _version(name: str, curve: Curve, has_metadata: bool, *ways: tuple[Derivation, Binding]) -> Version:
    return Version(name, curve, has_metadata, ways)


# The tolerated variants: early r1 data; a client SDK on k1 that uses one key for both versions.
# T1JL never fixed its associated data, so all variants are tried.
VERSIONS = {
    version.name: version
    for version in (
        _version(
            "Tk9D",
            Curve.R1,
            False,
            (Derivation.KDF, Binding.APP_KEY),
            (Derivation.KDF_OVER_APP_KEY, Binding.EPHEMERAL_KEY),
        ),
        _version("QkTC", Curve.R1, True, (Derivation.KDF, Binding.FLAGGED)),
        _version("RFVC", Curve.K1, False, (Derivation.RAW, Binding.NONE), (Derivation.KDF, Binding.NONE)),
        _version("S0lS", Curve.K1, True, (Derivation.KDF, Binding.FLAGGED), (Derivation.RAW, Binding.FLAGGED)),
        _version("QlJV", Curve.K1, True, (Derivation.KDF, Binding.APP_KEY), (Derivation.RAW, Binding.APP_KEY)),
        _version("TENZ", Curve.R1, True, (Derivation.KDF, Binding.APP_KEY)),
        _version(
            "T1JL",
            Curve.R1,
            False,
            (Derivation.RAW, Binding.NONE),
            (Derivation.RAW, Binding.APP_KEY),
            (Derivation.RAW, Binding.EPHEMERAL_KEY),
        ),
    )
}


def derive(
    derivation: Derivation,
    curve: Curve,
    shared: bytes,
    ephemeral: ec.EllipticCurvePublicKey,
    app: ec.EllipticCurvePublicKey,
) -> bytes:
    """The AES key, 32 bytes."""
    if derivation is Derivation.RAW:
        return shared
    hashed = app if derivation is Derivation.KDF_OVER_APP_KEY else ephemeral
    return hashlib.sha256(shared + b"\x00\x00\x00\x01" + curve.der(hashed)).digest()


def associated_data(
    binding: Binding, curve: Curve, value_type: ValueType, is_debug: bool, ephemeral: bytes, app: bytes
) -> bytes | None:
    """`ephemeral` and `app` are compressed points."""
    if binding is Binding.NONE:
        return None
    if binding is Binding.APP_KEY:
        return app
    if binding is Binding.EPHEMERAL_KEY:
        return ephemeral
    flag = 0x80 if is_debug else value_type.value << 4 | (curve is Curve.R1)
    return bytes([flag]) + ephemeral + app


_TEXT = re.compile(
    r"ev:(?P<debug>debug:)?(?P<version>[A-Za-z0-9]{4}):((?P<type>string|number|boolean):)?"
    r"(?P<iv>[A-Za-z0-9+/]{16}):(?P<ephemeral>[A-Za-z0-9+/]{44}):(?P<sealed>[A-Za-z0-9+/]{22,}={0,2}):\$"
)


@dataclass(frozen=True)
class Envelope:
    """A parsed string."""

    version: Version
    value_type: ValueType
    is_debug: bool
    iv: bytes
    ephemeral: bytes
    sealed: bytes

    @classmethod
    def parse(cls, text: str) -> "Envelope":
        """Raises ValueError if it is not an envelope."""
        parts = _TEXT.fullmatch(text)
        if parts is None or parts["version"] not in VERSIONS:
            raise ValueError("not an envelope")
        sealed = parts["sealed"].rstrip("=")
        return cls(
            version=VERSIONS[parts["version"]],
            value_type=ValueType[(parts["type"] or "string").upper()],
            is_debug=parts["debug"] is not None,
            iv=base64.b64decode(parts["iv"], validate=True),
            ephemeral=base64.b64decode(parts["ephemeral"], validate=True),
            sealed=base64.b64decode(sealed + "=" * (-len(sealed) % 4), validate=True),
        )

    def text(self) -> str:
        """Encodes it in the shortest form."""
        debug = "debug:" if self.is_debug else ""
        name = "" if self.value_type is ValueType.STRING else self.value_type.name.lower() + ":"
        parts = [base64.b64encode(part).decode().rstrip("=") for part in (self.iv, self.ephemeral, self.sealed)]
        return f"ev:{debug}{self.version.name}:{name}{':'.join(parts)}:$"


FILE_MAGIC = b"%EVENC"
FILE_HEADER_SIZE = 55
FILE_VERSIONS = {2: VERSIONS["RFVC"], 3: VERSIONS["Tk9D"]}


@dataclass(frozen=True)
class EncryptedFile:
    """A parsed file; key and associated data are those of `version`."""

    version: Version
    is_debug: bool
    iv: bytes
    ephemeral: bytes
    sealed: bytes

    @classmethod
    def parse(cls, content: bytes) -> "EncryptedFile":
        """Raises ValueError if it is not an encrypted file, or its checksum is wrong."""
        if len(content) < FILE_HEADER_SIZE + 16 + 4 or not content.startswith(FILE_MAGIC):
            raise ValueError("not an encrypted file")
        number, offset = struct.unpack_from("<BH", content, len(FILE_MAGIC))
        body, (checksum,) = content[:-4], struct.unpack("<I", content[-4:])
        flags = content[54]
        if number not in FILE_VERSIONS or offset != FILE_HEADER_SIZE or flags > 1:
            raise ValueError("not an encrypted file of a known version")
        if binascii.crc32(body) != checksum:
            raise ValueError("wrong checksum")
        return cls(FILE_VERSIONS[number], flags == 1, content[42:54], content[9:42], body[FILE_HEADER_SIZE:])
