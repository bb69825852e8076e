"""Symmetric envelopes: an implementation written from docs/format.md alone agrees with the crate `envelope`, in both directions.

`SYMMETRIC_VALUES=1000000` compares a million values each way.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import symmetric_envelope

COUNT = int(os.environ.get("SYMMETRIC_VALUES", "10000"))
OURS = [str(Path(os.environ["LEAFSEAL"]).resolve().parent / "examples" / "symmetric_lines")]
THEIRS = [sys.executable, str(Path(__file__).with_name("symmetric_envelope.py"))]
REFUSED = json.loads((Path(__file__).parents[2] / "vectors" / "symmetric" / "refused.json").read_text())
# What the independent implementation says of an envelope that is well-formed, but that its key does not open.
OF_THE_KEY = {"the tag is wrong", "an envelope of another root"}
with_our_example = pytest.mark.skipif(
    not Path(OURS[0]).exists(), reason="build the example symmetric_lines beside LEAFSEAL, or set WORKSPACE_BUILD"
)


def requests(seed):
    """Random values of every type with every kind of binding; neighbours often share root and prefix."""
    draw = random.Random(seed)
    root = prefix = b""
    for at in range(COUNT):
        if at % 10 == 0:
            root = draw.randbytes(32)
        if at % 3 == 0:
            prefix = draw.randbytes(12)
        kind = draw.choice(["string", "string", "number", "boolean"])
        binding = []
        if draw.random() < 0.5:
            binding.append([1, draw.choice(["17", "ü" * 100, "x" * 1024, "-5"])])
        if draw.random() < 0.3:
            binding.append(draw.choice([[2, "$['a'][*]"], [3, "$['a'][17]"]]))
        metadata = None
        if draw.random() < 0.5:
            metadata = {"eo": draw.randrange(128), "et": draw.randrange(1 << 32)}
            if draw.random() < 0.5:
                metadata = {"dr": draw.choice(["pci", "a-20-characters-long"]), **metadata}
            if draw.random() < 0.5:
                metadata["pk"] = True
        yield {
            "root": root.hex(),
            "nonce": (prefix + draw.randbytes(12)).hex(),
            "text": text(draw, kind),
            "type": kind,
            "debug": draw.random() < 0.2,
            "metadata": metadata,
            "binding": binding,
        }


def text(draw, kind):
    """A value of the type."""
    if kind == "boolean":
        return draw.choice(["true", "false"])
    if kind == "number":
        return draw.choice(["0", "-0.0", "1e+21", str(draw.randrange(10**15))])
    return "".join(draw.choice("4 ax\u00fc\U0001f600\0\"") for _ in range(draw.choice([0, 1, 15, 16, 17, 40, 300])))


def answers(command, lines):
    """What a program makes of the lines."""
    done = subprocess.run(command, input="\n".join(map(json.dumps, lines)) + "\n", capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(lines)
    return found


def damaged(draw, envelope):
    """The envelope with one character changed."""
    at = draw.randrange(3, len(envelope))
    return envelope[:at] + draw.choice("ABCDwx09+/:=$") + envelope[at + 1 :]


@with_our_example
@pytest.mark.parametrize("seed", range(1))
def test_both_seal_the_same_and_open_each_other(seed):
    draw = random.Random(-seed - 1)
    wanted = list(requests(seed))
    ours, theirs = answers(OURS, wanted), answers([*THEIRS, "seal"], wanted)
    assert ours == theirs
    opening = [{"root": w["root"], "binding": w["binding"], **a} for w, a in zip(wanted, ours)]
    expected = [{name: w[name] for name in ("type", "debug", "metadata", "text")} for w in wanted]
    assert answers(OURS, opening) == expected
    assert answers([*THEIRS, "open"], opening) == expected
    # What one refuses the other refuses: changed characters, other bindings, other roots.
    for at, request in enumerate(opening):
        match at % 4:
            case 0 | 1:
                request["envelope"] = damaged(draw, request["envelope"])
            case 2:
                request["binding"] = draw.choice([[], [[1, "17"]], [[1, "17"], [2, "$"]], [[2, "17"]]])
            case _:
                request["root"] = opening[draw.randrange(len(opening))]["root"]
    ours = answers(OURS, opening)
    assert ours == answers([*THEIRS, "open"], opening)
    refused = sum(1 for answer in ours if answer == {"refused": True})
    assert refused > COUNT / 4


def test_the_independent_implementation_passes_published_vectors():
    subprocess.run([*THEIRS, "self-test"], check=True)


def test_the_independent_implementation_refuses_what_engines_refuse():
    root, binding = random.Random(0).randbytes(32), [(1, REFUSED["context"].encode())]
    value, other = (
        symmetric_envelope.seal(root, nonce, REFUSED[name].encode(), binding=binding)
        for name, nonce in (("value", b"1" * 24), ("other", b"2" * 24))
    )
    assert symmetric_envelope.open(root, value, binding)[3] == REFUSED["value"].encode()
    parts = dict(zip(("id", "nonce", "ciphertext"), value.split(":")[2:5]))
    parts |= dict(zip(("other_nonce", "other_ciphertext"), other.split(":")[3:5]))
    for vector in REFUSED["refused"]:
        context = vector.get("context", REFUSED["context"])
        own = [] if context is None else [(1, context.encode())]
        with pytest.raises(symmetric_envelope.Refused) as refused:
            symmetric_envelope.open(root, vector["template"].format(**parts), own)
        is_of_the_key = str(refused.value) in OF_THE_KEY
        assert is_of_the_key == (vector["code"] == "decrypt_failed"), (vector["name"], refused.value)
