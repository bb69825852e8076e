"""Resealed values: the implementation written from docs/format.md alone opens what the engine resealed, with its mark, and the engine treats
marked ones that it makes as the page says (rule 16)."""

import base64
import json
import os
import random

import pytest

import app_keys
import sealer
import symmetric_envelope
from conftest import APP
from envelope import VERSIONS, ValueType
from leafseal import CommandFailed, Leafseal
from sealer import Style

ORIGIN = 70
ROLE = "card"
CONTEXT = "row 17"
VALUES = [
    (ValueType.STRING, "4242 4242"),
    (ValueType.STRING, ""),
    (ValueType.STRING, "ü\U0001f600" * 200),
    (ValueType.NUMBER, "-1.50e3"),
    (ValueType.BOOLEAN, "true"),
]


# How a writer may spell the mark, and whether it is one.
MARKS = [({"pk": True}, True), ({"pk": False}, False), ({}, False), (None, False)]
# Whether marked ones open, and the others, by what is accepted.
ACCEPTED = {
    "public-key,symmetric,from-public-key": (True, True),
    "symmetric": (False, True),
    "from-public-key": (True, False),
    "public-key": (False, False),
    "public-key,symmetric": (False, True),
    "symmetric,from-public-key": (True, True),
    "public-key,from-public-key": (True, False),
}


@pytest.fixture
def app(empty: Leafseal) -> Leafseal:
    """A keystore with the app APP, which has the private keys of the vectors and a symmetric root of its own."""
    empty.import_keys(APP, app_keys.of_the_vectors())
    return empty


def opened(root: bytes, envelope: str, context: str | None = None) -> tuple[str, bool, dict[str, object] | None, str]:
    """Type, debug, metadata and text."""
    binding = [] if context is None else [(1, context.encode())]
    kind, debug, metadata, text = symmetric_envelope.open(root, envelope, binding)
    return kind, debug, metadata, text.decode()


def arrived() -> list[tuple[str, ValueType, str, bool]]:
    """Envelopes to a public key in every version that has a role, each with its type, its text and whether it is for debugging."""
    keys = app_keys.of_the_vectors()
    made = []
    for version in VERSIONS.values():
        for kind, text in VALUES if version.has_metadata else []:
            for debug in (False, True):
                metadata = {"dr": ROLE, "eo": 1, "et": 1_600_000_000, "pk": False}
                public = keys[version.curve].public_key()
                made.append((sealer.seal(version, public, kind, text, metadata, Style(is_debug=debug)), kind, text, debug))
    assert len(made) >= 20
    return made


def reseal(app: Leafseal, envelopes: list[str], *flags: str) -> list[str]:
    out = app.run("encrypt", "--app", APP, "--role", ROLE, "--reseal", "symmetric", *flags, stdin=json.dumps(envelopes).encode())
    return json.loads(out)


@pytest.mark.parametrize("context", [None, CONTEXT])
def test_resealed_values_open_with_their_mark(app: Leafseal, context: str | None) -> None:
    [root] = app.symmetric_roots(APP)
    given = arrived()
    bound = [] if context is None else ["--context", context]
    resealed = reseal(app, [envelope for envelope, *_ in given], *bound)
    for (_, kind, text, debug), envelope in zip(given, resealed, strict=True):
        found_kind, found_debug, metadata, found = opened(root, envelope, context)
        assert (found_kind, found_debug, found) == (kind.name.lower(), debug, text)
        assert metadata is not None and metadata.pop("et") > 1_700_000_000
        assert metadata == {"dr": ROLE, "eo": ORIGIN, "pk": True}
        for other in {None, CONTEXT, "row 18"} - {context}:
            with pytest.raises(symmetric_envelope.Refused):
                opened(root, envelope, other)
    # What was not to a public key has no mark, made by the same call.
    [plain] = reseal(app, ["plain"], *bound)
    assert opened(root, plain, context)[2].keys() == {"dr", "eo", "et"}
    # The mark stays in a new key version, and none appears.
    app.run("keys", "rotate", APP)
    document = json.dumps([*resealed, plain]).encode()
    accept = ["--accept", "symmetric,from-public-key"]
    rewrapped = json.loads(app.run("rewrap", "--app", APP, *bound, *accept, stdin=document))
    newest = app.symmetric_roots(APP)[-1]
    assert newest != root
    marks = [opened(newest, envelope, context)[2].get("pk") for envelope in rewrapped]
    assert marks == [True] * len(resealed) + [None]
    # Where values are bound, marked ones open only if the call says so: they are bound to wherever they were found.
    for command in ("decrypt", "rewrap"):
        if context is None:
            app.run(command, "--app", APP, stdin=document)
        else:
            with pytest.raises(CommandFailed):
                app.run(command, "--app", APP, *bound, stdin=document)


def test_the_mark_is_authenticated(app: Leafseal) -> None:
    """Who changes the ciphertext changes the plaintext under it at will: here from true to false. Neither opens it then."""
    [root] = app.symmetric_roots(APP)
    envelope = reseal(app, [arrived()[0][0]])[0]
    *head, ciphertext, end = envelope.split(":")
    data = bytearray(base64.b64decode(ciphertext + "=" * (-len(ciphertext) % 4)))
    metadata = symmetric_envelope.encode_metadata(opened(root, envelope)[2])
    data[metadata.index(b"\xa2pk\xc3") + 3] ^= 1
    forged = ":".join([*head, base64.b64encode(data).decode().rstrip("="), end])
    assert len(forged) == len(envelope) and forged != envelope
    with pytest.raises(symmetric_envelope.Refused):
        opened(root, forged)
    for accept in ACCEPTED:
        with pytest.raises(CommandFailed):
            app.decrypt(APP, json.dumps([forged]).encode(), "--accept", accept)


@pytest.mark.parametrize("is_of_the_app", [False, True])
def test_the_engine_opens_what_the_mark_allows(app: Leafseal, is_of_the_app: bool) -> None:
    """Marked and unmarked ones of the independent implementation, under every choice of a call and of the app."""
    [root] = app.symmetric_roots(APP)
    draw = random.Random(16)
    made = []
    for mark, is_marked in MARKS:
        for kind, text in VALUES:
            for debug in (False, True):
                metadata = None if mark is None else {"dr": ROLE, "eo": draw.randrange(128), "et": draw.randrange(1 << 32), **mark}
                if metadata and draw.random() < 0.5:
                    # In any order, beside keys that mean nothing.
                    metadata = dict(reversed([*metadata.items(), ("later", 1.5)]))
                nonce = draw.randbytes(24)
                made.append((symmetric_envelope.seal(root, nonce, text.encode(), kind.name.lower(), debug, metadata), is_marked, text))
    document = json.dumps([envelope for envelope, *_ in made]).encode()
    for accept, (opens_marked, opens_own) in ACCEPTED.items():
        if is_of_the_app:
            app.run("keys", "accept", APP, "--kinds", accept)
        flags = [] if is_of_the_app else ["--accept", accept]
        found = json.loads(app.decrypt(APP, document, "--on-failure", "null", *flags))
        for (envelope, is_marked, text), value in zip(made, found, strict=True):
            is_opened = opens_marked if is_marked else opens_own
            expected = (text if ":number:" not in envelope and ":boolean:" not in envelope else json.loads(text)) if is_opened else None
            assert value == expected, (accept, is_marked)


def test_the_engine_keeps_the_mark_of_others(app: Leafseal) -> None:
    """Resealing and rewrapping leave marked and unmarked ones as they are, and inspection shows which are marked."""
    [root] = app.symmetric_roots(APP)
    marked, own = (
        symmetric_envelope.seal(root, os.urandom(24), b"4242", metadata={"dr": ROLE, "eo": ORIGIN, "et": 1, **mark})
        for mark in ({"pk": True}, {})
    )
    assert reseal(app, [marked, own]) == [marked, own]
    facts = [json.loads(line) for line in app.run("inspect", "--app", APP, "--json", marked, own).splitlines()]
    assert [one.get("from_public_key", False) for one in facts] == [True, False]
    app.run("keys", "rotate", APP)
    newest = app.symmetric_roots(APP)[-1]
    out = json.loads(app.run("rewrap", "--app", APP, stdin=json.dumps([marked, own]).encode()))
    assert [opened(newest, envelope)[2].get("pk", False) for envelope in out] == [True, False]
