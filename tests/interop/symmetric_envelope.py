#!/usr/bin/env python3
"""Symmetric envelopes and symmetric files: an independent reader and writer.

Written from docs/format.md alone (rules 1, 3, 4, 5, 8 and 13 to 17), C2SP's XAES-256-GCM, RFC 5869 and SP 800-38B;
no other implementation was read. Needs Python 3.10 and `cryptography`. Commands, each of JSON lines to JSON lines:

    open       {"root": hex, "envelope", "binding": [[kind, text], ...]}  to  {"type", "debug", "metadata", "text"}
    seal       {"root", "nonce": hex, "text", "type", "debug", "metadata", "binding"}  to  {"envelope"}
    file-open  {"root", "file": base64, "binding"}  to  {"body": base64}
    file-seal  {"root", "nonce", "body": base64, "binding"}  to  {"file": base64}
    self-test  no input

What the format refuses is answered by {"refused": true}. A line that is no such request ends the run, exit status 2.
"""

import base64
import hashlib
import json
import re
import struct
import sys
import zlib
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

TYPES = ("string", "number", "boolean")
NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
ROLE = re.compile(r"[a-z0-9-]{1,20}")
FILE_START, FILE_HEADER, TAG = b"%EVENC\x04", 50, 16
# MessagePack: the first byte of a value, and the form of the number (or of the length) that follows it.
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
INTEGERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
NUMBERS = INTEGERS | {0xCA: ">f", 0xCB: ">d"}
STRINGS, BINARIES = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}, {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}


class Refused(Exception):
    """The format refuses this envelope, file, value or binding."""


def require(condition, reason):
    """Refuse, unless the condition holds."""
    if not condition:
        raise Refused(reason)


@lru_cache(maxsize=256)
def derive(root):
    """Rule 14: the key id, the XAES key and the key for files of a root."""
    if len(root) != 32:
        raise ValueError("a root has 32 bytes")
    labels = (b"key id", b"XAES-256-GCM key", b"file key")
    parts = [HKDF(SHA256(), 32, salt=None, info=b"leafseal-symmetric-1 " + label).derive(root) for label in labels]
    return parts[0][:16], parts[1], parts[2]


@lru_cache(maxsize=256)
def xaes(key, prefix):
    """XAES-256-GCM: AES-256-GCM for the nonces that begin with these 12 bytes. Its key is two CMACs of one block."""
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    first = int.from_bytes(encryptor.update(bytes(16)), "big")
    k1 = (first << 1) % 2**128 ^ (0x87 if first >> 127 else 0)  # SP 800-38B
    blocks = [int.from_bytes(bytes((0, counter)) + b"X\x00" + prefix, "big") ^ k1 for counter in (1, 2)]
    return AESGCM(encryptor.update(b"".join(block.to_bytes(16, "big") for block in blocks)))


def xaes_seal(key, nonce, plaintext, aad):
    """Ciphertext and tag."""
    if len(nonce) != 24:
        raise ValueError("a nonce has 24 bytes")
    return xaes(key, nonce[:12]).encrypt(nonce[12:], plaintext, aad)


def xaes_open(key, nonce, ciphertext, aad):
    """The plaintext."""
    try:
        return xaes(key, nonce[:12]).decrypt(nonce[12:], ciphertext, aad)
    except InvalidTag:
        raise Refused("the tag is wrong") from None


def pack(value):
    """A plain value in MessagePack, in its shortest form."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    require(isinstance(value, (int, str)), "metadata has a value that is not plain")
    text = value.encode("utf-8") if isinstance(value, str) else b""
    number, forms = (len(text), STRINGS) if isinstance(value, str) else (value, INTEGERS)
    if forms is STRINGS and number < 32:
        return bytes((0xA0 + number,)) + text
    if forms is INTEGERS and -32 <= number < 128:
        return struct.pack(">b", number)
    for code, form in forms.items():
        try:
            return bytes((code,)) + struct.pack(form, number) + text
        except struct.error:
            continue
    raise Refused("metadata has a number that is too large")


def unpack(data, at):
    """The plain value at an offset of MessagePack, and the offset after it."""
    code, at = data[at], at + 1
    if code < 0x80 or code >= 0xE0:
        return (code if code < 0x80 else code - 256), at
    if code in CONSTANTS:
        return CONSTANTS[code], at
    form = NUMBERS.get(code) or STRINGS.get(code) or BINARIES.get(code)
    if form:
        number, at = struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
        if code in NUMBERS:
            return number, at
    else:
        require(0xA0 <= code <= 0xBF, "metadata has a value that is not plain")
        number = code - 0xA0
    value = data[at:at + number]
    require(len(value) == number, "metadata is cut off")
    return (value if code in BINARIES else value.decode("utf-8")), at + number


def check_metadata(metadata):
    """Rules 8 and 16: refuse values that the known keys cannot have."""
    for key in ("eo", "et"):
        number = metadata.get(key, 0)
        require(type(number) is int and 0 <= number < 2**32, "`eo` or `et` is not an integer of 32 bits")
    role = metadata.get("dr")
    require(role is None or isinstance(role, str) and ROLE.fullmatch(role), "`dr` is not a role")
    require(isinstance(metadata.get("pk", True), bool), "`pk` is not a boolean")


def encode_metadata(metadata):
    """Rule 8: length and map, its entries in the order given."""
    check_metadata(metadata)
    require(len(metadata) < 16, "this writer has no use for more than 15 entries")
    times = {"et": lambda value: struct.pack(">BI", 0xCE, value)}
    entries = (pack(key) + times.get(key, pack)(value) for key, value in metadata.items())
    data = bytes((0x80 + len(metadata),)) + b"".join(entries)
    require(len(data) < 2**16, "metadata is too long")
    return struct.pack("<H", len(data)) + data


def split_metadata(plaintext):
    """Rule 8: the known entries, and the text after them."""
    try:
        end = 2 + struct.unpack_from("<H", plaintext)[0]
        data, entries = plaintext[2:end], {}
        require(len(plaintext) >= end, "metadata is cut off")
        if data[0] in (0xDE, 0xDF):
            form = ">H" if data[0] == 0xDE else ">I"
            count, at = struct.unpack_from(form, data, 1)[0], 1 + struct.calcsize(form)
        else:
            require(0x80 <= data[0] <= 0x8F, "metadata is not a map")
            count, at = data[0] - 0x80, 1
        for _ in range(count):
            key, at = unpack(data, at)
            require(isinstance(key, str) and key not in entries, "a key of metadata is not text, or there twice")
            entries[key], at = unpack(data, at)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise Refused("metadata is malformed") from None
    require(at == len(data), "metadata has bytes after its map")
    check_metadata(entries)
    return {key: value for key, value in entries.items() if key in ("dr", "eo", "et", "pk")}, plaintext[end:]


def decode_base64(text):
    """Rule 1: canonical standard base64, with all of its padding or with none."""
    bare = text.rstrip("=")
    try:
        data = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        raise Refused("a part is not base64") from None
    canonical = base64.b64encode(data).decode()
    require(text in (canonical, canonical.rstrip("=")), "base64 is not canonical")
    return data


def check_text(text, value_type):
    """Rule 3: refuse a text that is not of its type."""
    require(value_type != "number" or NUMBER.fullmatch(text), "not a number")
    require(value_type != "boolean" or text in (b"true", b"false"), "not a boolean")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("not UTF-8") from None


def encode_binding(binding):
    """Rule 15: count and parts, in the order given."""
    require(len(binding) < 256, "too many parts")
    encoded = bytes((len(binding),))
    for kind, data in binding:
        require(kind in (2, 3) or kind == 1 and 1 <= len(data) <= 1024, "not a part of a binding")
        encoded += struct.pack(">BI", kind, len(data)) + data
    return encoded


def associated_data(version, value_type, debug, key_id, binding):
    """Rule 15."""
    return version.encode() + bytes((TYPES.index(value_type) << 4 | debug,)) + key_id + encode_binding(binding)


def seal(root, nonce, value_text, value_type="string", debug=False, metadata=None, binding=()):
    """The envelope of a text (bytes)."""
    require(value_type in TYPES, "no such type")
    check_text(value_text, value_type)
    key_id, key, _ = derive(root)
    version = "WEFF" if metadata is None else "WEFN"
    plaintext = value_text if metadata is None else encode_metadata(metadata) + value_text
    ciphertext = xaes_seal(key, nonce, plaintext, associated_data(version, value_type, debug, key_id, binding))
    head = ["ev"] + ["debug"] * debug + [version] + [value_type] * (value_type != "string")
    return ":".join(head + [base64.b64encode(x).decode().rstrip("=") for x in (key_id, nonce, ciphertext)] + ["$"])


def open(root, envelope, binding=()):
    """Type, debug, metadata or None, and the text (bytes) of an envelope. (This hides Python's own `open` here.)"""
    own_id, key, _ = derive(root)
    parts = envelope.split(":")
    require(6 <= len(parts) <= 8 and parts[0] == "ev" and parts[-1] == "$", "not an envelope")
    head, debug, value_type = parts[1:-4], parts[1] == "debug", "string"
    if debug:
        head = head[1:]
    if len(head) == 2:
        value_type = head.pop()
    require(head in (["WEFF"], ["WEFN"]) and value_type in TYPES, "unknown version or type")
    require("=" not in parts[-4], "a key id with padding")
    key_id, nonce, ciphertext = [decode_base64(part) for part in parts[-4:-1]]
    require(len(key_id) == 16 and len(nonce) == 24 and len(ciphertext) >= TAG, "a part has a wrong length")
    require(key_id == own_id, "an envelope of another root")
    text = xaes_open(key, nonce, ciphertext, associated_data(head[0], value_type, debug, key_id, binding))
    metadata, text = split_metadata(text) if head == ["WEFN"] else (None, text)
    check_text(text, value_type)
    return value_type, debug, metadata, text


def seal_file(root, nonce, body, binding=()):
    """Rule 17: the file of a body."""
    key_id, _, key = derive(root)
    ciphertext = xaes_seal(key, nonce, body, FILE_START + key_id + encode_binding(binding))
    data = FILE_START + struct.pack("<H", FILE_HEADER) + key_id + nonce + b"\x00" + ciphertext
    return data + struct.pack("<I", zlib.crc32(data))


def open_file(root, data, binding=()):
    """Rule 17: the body of a file."""
    key_id, _, key = derive(root)
    start = FILE_START + struct.pack("<H", FILE_HEADER) + key_id
    require(len(data) >= FILE_HEADER + TAG + 4 and data.startswith(start), "not a symmetric file of this root")
    require(data[FILE_HEADER - 1] == 0, "unknown flags")
    require(data[-4:] == struct.pack("<I", zlib.crc32(data[:-4])), "the checksum is wrong")
    nonce = data[len(start):FILE_HEADER - 1]
    return xaes_open(key, nonce, data[FILE_HEADER:-4], FILE_START + key_id + encode_binding(binding))


def answer(command, request):
    """The answer to one request of the command line."""
    root = bytes.fromhex(request["root"])
    binding = [(kind, text.encode("utf-8")) for kind, text in request["binding"]]
    if command == "open":
        value_type, debug, metadata, text = open(root, request["envelope"], binding)
        return {"type": value_type, "debug": debug, "metadata": metadata, "text": text.decode("utf-8")}
    if command == "file-open":
        body = open_file(root, base64.b64decode(request["file"], validate=True), binding)
        return {"body": base64.b64encode(body).decode()}
    nonce = bytes.fromhex(request["nonce"])
    if command == "file-seal":
        data = seal_file(root, nonce, base64.b64decode(request["body"], validate=True), binding)
        return {"file": base64.b64encode(data).decode()}
    if not isinstance(request["debug"], bool):
        raise TypeError("`debug` is true or false")
    text, metadata = request["text"].encode("utf-8"), request["metadata"]
    return {"envelope": seal(root, nonce, text, request["type"], request["debug"], metadata, binding)}


def refuses(function, *arguments):
    """Whether a call is refused."""
    try:
        function(*arguments)
    except Refused:
        return True
    return False


def self_test():
    """C2SP's vectors, round trips, and refusals."""
    for byte, aad, expected in (
        (b"\x01", b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\x03", b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ):
        assert xaes_seal(byte * 32, b"ABCDEFGHIJKLMNOPQRSTUVWX", b"XAES-256-GCM", aad).hex() == expected
    stream, at, sealed = hashlib.shake_128().digest(10_000 * 568), 0, hashlib.shake_128()
    for _ in range(10_000):  # C2SP's accumulated test: key, nonce, and plaintext and aad after a length byte each
        key, nonce, at = stream[at:at + 32], stream[at + 32:at + 56], at + 56
        plaintext, at = stream[at + 1:at + 1 + stream[at]], at + 1 + stream[at]
        aad, at = stream[at + 1:at + 1 + stream[at]], at + 1 + stream[at]
        sealed.update(xaes_seal(key, nonce, plaintext, aad))
    assert sealed.hexdigest(32) == "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"

    root, other, nonce, binding = bytes(range(32)), bytes(32), bytes(range(24)), [(1, b"tenant"), (2, b"$['a'][*]")]
    expected = b"WEFN\x21" + b"k" * 16 + b"\x02\x01\0\0\0\x06tenant\x02\0\0\0\x09$['a'][*]"
    assert associated_data("WEFN", "boolean", True, b"k" * 16, binding) == expected
    assert len(seal(root, nonce, b"4242424242424242")) == 109
    full = {"dr": "a-role", "eo": 70, "et": 1_760_000_000, "pk": True}
    for value_type, text in ("string", b""), ("string", b"\xc3\xa9:$"), ("number", b"-1.5e+3"), ("boolean", b"true"):
        for debug, metadata in (False, None), (True, None), (False, full), (True, full):
            envelope = seal(root, nonce, text, value_type, debug, metadata, binding)
            assert open(root, envelope, binding) == (value_type, debug, metadata, text)
            changed = [envelope[:i] + c + envelope[i + 1:] for i in range(len(envelope)) for c in "A:=\u00e9"]
            for wrong in [envelope[:-1], envelope + "$", " " + envelope, envelope.replace("WEF", "TEN")] + changed:
                assert wrong == envelope or refuses(open, root, wrong, binding), wrong
            assert refuses(open, root, envelope, binding[:1]) and refuses(open, other, envelope, binding)
    for value_type, text in ("number", b"01"), ("boolean", b"True"), ("null", b"null"), ("string", b"\xff"):
        assert refuses(seal, root, nonce, text, value_type)
    extra = {"eo": 200, "et": 2**31, "x": -1.5, "y": None, "z": "u" * 300, "n": -40000}
    assert open(root, seal(root, nonce, b"t", metadata=extra))[2] == {"eo": 200, "et": 2**31}
    for change in {"dr": "A"}, {"dr": "a\n"}, {"et": True}, {"eo": None}, {"pk": 1}, {"x": []}, {"x": 2**64}:
        assert refuses(seal, root, nonce, b"t", "string", False, full | change), change
    file = seal_file(root, nonce, b"body", binding)
    assert open_file(root, file, binding) == b"body" and refuses(open_file, root, file)
    for i in range(len(file) - 4):
        changed = file[:i] + bytes((file[i] ^ 1,)) + file[i + 1:-4]
        for wrong in changed + file[-4:], changed + struct.pack("<I", zlib.crc32(changed)), file[:i]:
            assert refuses(open_file, root, wrong, binding)


def main(arguments):
    """Run one command; the exit status."""
    if arguments == ["self-test"]:
        self_test()
        print("self-test: ok")
        return 0
    if len(arguments) != 1 or arguments[0] not in ("open", "seal", "file-open", "file-seal"):
        print("usage: symmetric_envelope.py open|seal|file-open|file-seal|self-test", file=sys.stderr)
        return 2
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            result = answer(arguments[0], json.loads(line.decode("utf-8")))
        except (Refused, UnicodeEncodeError):  # or half of a surrogate pair, which is no text
            result = {"refused": True}
        except (ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
            print(f"line {number} is not a request: {error!r}", file=sys.stderr)
            return 2
        sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
