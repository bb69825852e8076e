"""Key versions in escrow: an implementation written from docs/format.md alone reads what the program exports, and the program imports
what it writes. Both refuse the same edits."""

import json
import random
from pathlib import Path

import escrow_text
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from leafseal import CommandFailed, Leafseal

VECTORS = sorted((Path(__file__).resolve().parents[2] / "vectors" / "escrow").glob("*.txt"))


def edits(text, seed, count):
    """Random edits of a text."""
    draw = random.Random(seed)
    for _ in range(count):
        at, size = draw.randrange(len(text)), draw.randrange(1, 30)
        piece = text[at : at + size]
        other = draw.choice(["", piece + piece, piece[::-1], piece.upper(), piece.lower(), draw.choice("0af= \n") + piece])
        yield text[:at] + other + text[at + size :]


@pytest.fixture(name="exported")
def fixture_exported(tmp_path):
    """A keystore, the export of its app's two versions, opened, and what opens it."""
    folder = Leafseal(tmp_path / "from")
    folder.create("acme")
    folder.run("keys", "rotate", "acme")
    folder.run("keys", "accept", "acme", "--kinds", "symmetric")
    recipient = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    to = tmp_path / "to.pem"
    to.write_bytes(recipient.public_key().public_bytes(*form))
    export = json.loads(folder.run("keys", "export", "acme", "--recipient", str(to), "--confirm", "acme"))
    assert [key["version"] for key in export["keys"]] == [2, 1]
    return folder, export, recipient


def test_an_export_is_what_the_page_says(exported):
    folder, export, recipient = exported
    listed = json.loads(folder.run("keys", "list", "--json"))[0]
    for key, version in zip(export["keys"], listed["versions"], strict=True):
        header, text = escrow_text.open_jwe(key["jwe"], recipient)
        assert (header["kid"], header["cty"]) == (f"acme/{key['version']}", "text/plain")
        facts, keys = escrow_text.read(text, export["signer"])
        assert (facts["app"], facts["version"], facts["accept"]) == ("acme", str(version["version"]), "symmetric")
        assert (facts["created_at"], facts["r1"], facts["k1"]) == (str(version["created_at"]), version["r1"], version["k1"])
        assert "root" in keys
        with pytest.raises(escrow_text.Refused, match="signature"):
            escrow_text.read(text, escrow_text.public_bytes(ed25519.Ed25519PrivateKey.generate()))
        for edited in edits(text, 1, 2000):
            if edited != text:
                with pytest.raises(escrow_text.Refused):
                    escrow_text.read(edited, export["signer"])


def test_the_program_imports_what_another_implementation_writes(tmp_path):
    signer = ed25519.Ed25519PrivateKey.generate()
    public = escrow_text.public_bytes(signer)
    draw = random.Random(2)
    folder = Leafseal(tmp_path / "to")
    files, expected = [], []
    for version, accept in ((4, "all"), (7, "public-key,symmetric")):
        facts = {"store": "0a" * 16, "epoch": 0, "app": "acme", "version": version, "created_at": 12, "accept": accept}
        keys = [ec.derive_private_key(draw.getrandbits(250), curve) for curve in (ec.SECP256R1(), ec.SECP256K1())]
        text = escrow_text.write(facts, keys, draw.randbytes(32), signer)
        files.insert(0, tmp_path / str(version))
        files[0].write_text(text)
        expected.insert(0, [escrow_text.compressed(key) for key in keys])
    folder.run("keys", "import", "acme", "--signer", public, "--escrow", *map(str, files))
    listed = json.loads(folder.run("keys", "list", "--json"))[0]
    assert [[version["r1"], version["k1"]] for version in listed["versions"]] == expected
    assert listed["accept"] == ["public-key", "symmetric"]
    folder.run("store", "check")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_both_refuse_the_same_edits(vector, tmp_path):
    signer = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
    public, text = escrow_text.public_bytes(signer), vector.read_text()
    facts, _ = escrow_text.read(text, public)
    folder, edited_file = Leafseal(tmp_path / "to"), tmp_path / "edited"
    folder.create("other")
    for edited in [text[:-1], text + "\n", text.replace("\n", "\r\n"), *edits(text, 3, 60)]:
        if edited == text:
            continue
        with pytest.raises(escrow_text.Refused):
            escrow_text.read(edited, public)
        edited_file.write_bytes(edited.encode())
        with pytest.raises(CommandFailed) as refused:
            folder.run("keys", "import", facts["app"], "--signer", public, "--escrow", str(edited_file))
        assert refused.value.code == 1
    folder.run("keys", "import", facts["app"], "--signer", public, "--escrow", str(vector))
