"""The test keys of `vectors/ev-sdk`, as keys of `cryptography` and as PEM files in common forms."""

import base64
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from decryptor import PrivateKeys
from envelope import VECTORS, Curve, compressed

FORMS = {"sec1": PrivateFormat.TraditionalOpenSSL, "pkcs8": PrivateFormat.PKCS8}


def of_the_vectors() -> PrivateKeys:
    """The key pair of the SDKs' vectors."""
    pairs = json.loads((VECTORS / "ev-sdk" / "keys.json").read_text())
    keys = {}
    for curve in Curve:
        pair = pairs[curve.value]
        keys[curve] = ec.derive_private_key(int(pair["d"], 16), curve.parameters)
        assert compressed(keys[curve].public_key()) == base64.b64decode(pair["pub"])
    return keys


def fresh() -> PrivateKeys:
    """Fresh keys."""
    return {curve: ec.generate_private_key(curve.parameters) for curve in Curve}


def write_pem(keys: PrivateKeys, folder: Path, form: str) -> dict[Curve, Path]:
    """Writes one file per curve to `folder`; `form` is one of FORMS."""
    paths = {}
    for curve, key in keys.items():
        paths[curve] = folder / f"{curve.value}.{form}.pem"
        paths[curve].write_bytes(key.private_bytes(Encoding.PEM, FORMS[form], NoEncryption()))
    return paths
