"""Symmetric envelopes and files for readers that do not know them: each refuses them, and says that it is the version.

`OLD_PROGRAM` is a program of a release without the scheme. The other readers are the independent decryptor of the published format, and
this program with a version that no release knows.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import APP
from decryptor import Decryptor
from leafseal import CommandFailed, Leafseal

DOCUMENT = ["4111111111111111", 12.5, True]
SYMMETRIC = ("--scheme", "symmetric")
UNKNOWN = "an envelope of an unknown version"


@pytest.fixture(scope="module", params=[None, "pci"], ids=["WEFF", "WEFN"])
def sealed(leafseal: Leafseal, request: pytest.FixtureRequest) -> list[str]:
    role = ("--role", request.param) if request.param else ()
    texts = json.loads(leafseal.run("encrypt", "--app", APP, *SYMMETRIC, *role, stdin=json.dumps(DOCUMENT).encode()))
    assert {text.split(":")[1] for text in texts} == {"WEFN" if request.param else "WEFF"}
    return texts


@pytest.fixture(scope="module")
def file(leafseal: Leafseal) -> bytes:
    return leafseal.run("encrypt", "--app", APP, "--file", *SYMMETRIC, stdin=b"content")


def test_a_reader_of_the_published_format_refuses_them(decryptor: Decryptor, sealed: list[str], file: bytes) -> None:
    for text in sealed:
        with pytest.raises(ValueError, match="not an envelope"):
            decryptor.open(text)
    with pytest.raises(ValueError, match="not an encrypted file of a known version"):
        decryptor.open_file(file)


def test_a_version_that_no_release_knows_is_named(leafseal: Leafseal, sealed: list[str]) -> None:
    later = [text.replace(":WEF", ":WEG", 1) for text in sealed]
    assert_refused(leafseal.command(), APP, later)


def test_an_older_release_names_the_version(tmp_path: Path, sealed: list[str], file: bytes) -> None:
    older = os.environ.get("OLD_PROGRAM")
    if not older:
        pytest.skip("OLD_PROGRAM does not name a program without the scheme")
    command = [older, "--dir", str(tmp_path / "store")]
    subprocess.run([*command, "keys", "create", APP], check=True, capture_output=True)
    assert_refused(command, APP, sealed)
    done = subprocess.run([*command, "decrypt", "--app", APP, "--file"], input=file, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b""), done


def assert_refused(command: list[str], app: str, texts: list[str]) -> None:
    """Decryption fails, or leaves each value as it is; inspection and decryption name the version."""
    document = json.dumps(texts).encode()
    decrypt = [*command, "decrypt", "--app", app]
    done = subprocess.run(decrypt, input=document, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"") and UNKNOWN in done.stderr.decode(), done
    left = subprocess.run([*decrypt, "--on-failure", "leave"], input=document, capture_output=True, check=True)
    assert json.loads(left.stdout) == texts
    shown = subprocess.run([*command, "inspect", *texts], capture_output=True, check=False)
    assert shown.returncode == 1 and shown.stdout.decode().count(UNKNOWN) == len(texts), shown
