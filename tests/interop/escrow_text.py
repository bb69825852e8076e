#!/usr/bin/env python3
"""Key versions in escrow: an independent writer and reader.

Written from docs/format.md alone (rules 14 and 18 to 21), RFC 7516, RFC 7518 and RFC 8032; no other implementation was read. Needs Python
3.10 and `cryptography`. Without arguments it writes the vectors of `vectors/escrow`.
"""

import base64
import json
import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.concatkdf import ConcatKDFHash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KINDS = ("public-key", "symmetric", "from-public-key")
NUMBER = "(?:0|[1-9][0-9]*)"
FIELDS = {
    "store": "[0-9a-f]{32}",
    "epoch": NUMBER,
    "app": "[a-z0-9_-]+",
    "version": NUMBER,
    "created_at": NUMBER,
    "accept": "all|none|[a-z,-]+",
    "r1": "0[23][0-9a-f]{64}",
    "k1": "0[23][0-9a-f]{64}",
    "key_id": "none|[0-9a-f]{32}",
}
STATEMENT = re.compile("leafseal-escrow-1" + "".join(f" {name}=(?P<{name}>{form})" for name, form in FIELDS.items()))
PEM = "-----BEGIN PRIVATE KEY-----\n(?:[A-Za-z0-9+/=]{1,64}\n)+-----END PRIVATE KEY-----\n"
ROOT = "leafseal-symmetric-root-1 root="
TEXT = re.compile(f"(?P<signed>[^\n]*) signature=(?P<signature>[0-9a-f]{{128}})\n(?P<r1>{PEM})(?P<k1>{PEM})(?:{ROOT}(?P<root>[^\n]*)\n)?")


class Refused(Exception):
    """The format refuses this text."""


def require(condition, reason):
    """Refuse, unless the condition holds."""
    if not condition:
        raise Refused(reason)


def key_id(root):
    """Rule 14."""
    return HKDF(SHA256(), 32, salt=None, info=b"leafseal-symmetric-1 key id").derive(root)[:16].hex()


def compressed(private):
    """The public key, as a statement has it."""
    form = serialization.PublicFormat.CompressedPoint
    return private.public_key().public_bytes(serialization.Encoding.X962, form).hex()


def pem(private):
    """Rule 19."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private.private_bytes(*form).decode()


def public_bytes(signer):
    """The signer, as `keys export` prints it."""
    return signer.public_key().public_bytes_raw().hex()


def write(facts, keys, root, signer):
    """Rules 18 and 19. `facts`: of the statement, without what follows from the keys."""
    r1, k1 = keys
    facts = facts | {"r1": compressed(r1), "k1": compressed(k1), "key_id": key_id(root) if root else "none"}
    signed = "leafseal-escrow-1" + "".join(f" {name}={facts[name]}" for name in FIELDS)
    text = f"{signed} signature={signer.sign(signed.encode()).hex()}\n" + pem(r1) + pem(k1)
    return text + (f"{ROOT}{base64.b64encode(root).decode()}\n" if root else "")


def read(text, signer):
    """Rule 20: the facts of the statement, if all of it is right and this key (hexadecimal) has signed it."""
    parts = TEXT.fullmatch(text)
    require(parts, "the text is not whole")
    statement = STATEMENT.fullmatch(parts["signed"])
    require(statement, "the statement is not one")
    facts = statement.groupdict()
    words = facts["accept"].split(",")
    some = [kind for kind in KINDS if kind in words]
    require(facts["accept"] in ("all", "none") or (words == some and words != list(KINDS)), "no list of kinds")
    keys = {}
    for name, curve in (("r1", ec.SECP256R1), ("k1", ec.SECP256K1)):
        try:
            key = serialization.load_pem_private_key(parts[name].encode(), None)
        except (ValueError, UnsupportedAlgorithm):
            raise Refused("a private key is damaged") from None
        require(isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, curve), "another curve")
        require(pem(key) == parts[name], "a private key is written in another way")
        require(compressed(key) == facts[name], "a private key is not that of the statement")
        keys[name] = key
    if parts["root"] is None:
        require(facts["key_id"] == "none", "the root is missing")
    else:
        try:
            root = base64.b64decode(parts["root"], validate=True)
        except ValueError:
            raise Refused("the root is not base64") from None
        require(len(root) == 32 and base64.b64encode(root).decode() == parts["root"], "no root")
        require(key_id(root) == facts["key_id"], "the root is not that of the statement")
        keys["root"] = root
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer))
        key.verify(bytes.fromhex(parts["signature"]), parts["signed"].encode())
    except InvalidSignature:
        raise Refused("the signature is wrong") from None
    return facts, keys


def decode(part):
    """Base64 of a JWE."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def open_jwe(jwe, recipient):
    """Rule 21: the header and the text of a JWE."""
    head, encrypted_key, nonce, ciphertext, tag = jwe.split(".")
    require(encrypted_key == "", "direct agreement has no encrypted key")
    header = json.loads(decode(head))
    require((header["alg"], header["enc"], header["epk"]["crv"]) == ("ECDH-ES", "A256GCM", "P-256"), "another method")
    x, y = (int.from_bytes(decode(header["epk"][name]), "big") for name in "xy")
    ephemeral = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    shared = recipient.exchange(ec.ECDH(), ephemeral)
    # RFC 7518, 4.6.2: the algorithm with its length, no names of parties, 256 bits.
    info = b"\0\0\0\x07A256GCM" + bytes(8) + (256).to_bytes(4, "big")
    key = ConcatKDFHash(SHA256(), 32, info).derive(shared)
    try:
        return header, AESGCM(key).decrypt(decode(nonce), decode(ciphertext) + decode(tag), head.encode()).decode()
    except InvalidTag:
        raise Refused("the JWE does not open") from None


def main():
    """Writes the vectors: their keys are small numbers."""
    folder = Path(__file__).resolve().parents[2] / "vectors" / "escrow"
    signer = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
    facts = {"store": "07" * 16, "epoch": 2, "app": "acme"}
    versions = {
        "acme-1": ({"version": 1, "created_at": 1790000000, "accept": "symmetric,from-public-key"}, bytes([11] * 32)),
        "acme-2": ({"version": 2, "created_at": 1790086400, "accept": "symmetric,from-public-key"}, bytes([12] * 32)),
        "old-1": ({"app": "old", "version": 1, "created_at": 0, "accept": "all"}, None),
    }
    for number, (name, (more, root)) in enumerate(versions.items(), 1000):
        keys = [ec.derive_private_key(number, curve) for curve in (ec.SECP256R1(), ec.SECP256K1())]
        text = write(facts | more, keys, root, signer)
        read(text, public_bytes(signer))
        (folder / f"{name}.txt").write_text(text)
    print(public_bytes(signer))


if __name__ == "__main__":
    main()
