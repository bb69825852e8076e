"""Copies of a process: they must not use a nonce of each other under the same key, whatever their process number is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import APP
from program import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces, clone and /proc are Linux's")


@pytest.fixture(scope="module")
def keys(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the app's public keys."""
    path = tmp_path_factory.mktemp("copies") / "keys.json"
    path.write_bytes(program.run("keys", "public", APP, "--json"))
    return path


def copies(scenario: str, keys: Path, preload: Path | None = None) -> Any:
    """The result of a scenario of copies.py."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("copies.py")), scenario, str(keys)]
    environment = os.environ | ({"LD_PRELOAD": str(preload)} if preload else {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    if "skipped" in result:
        pytest.skip(f"needs the rights of root over namespaces and process numbers: {result['skipped']}")
    return result


def check(result: Any, same_number: bool) -> None:
    number, own, [copied_number, inherited, *copied] = result
    assert (number == copied_number) == same_number
    assert inherited == "forked", "the engine of the parent must not work"
    assert len(copied) == 100 and len(set(own + copied)) == len(own) + len(copied)


def test_the_first_process_of_a_namespace(keys: Path) -> None:
    check(copies("first", keys), same_number=True)


def test_a_number_that_is_used_again(keys: Path) -> None:
    check(copies("again", keys), same_number=True)


def test_a_fork_by_the_system_call(keys: Path) -> None:
    check(copies("cloned", keys), same_number=False)


def test_a_restored_checkpoint(keys: Path) -> None:
    result = copies("restored", keys)
    assert result["pages"] >= 1 and result["forked"] == [False, False], "the copies detect nothing"
    assert all(count > 0 for count in result["shared"]), "they share the key of the session"
    assert result["all"] == result["different"] == 1_000_000


REPEATING = """
#include <string.h>
#include <sys/types.h>
ssize_t getrandom(void *out, size_t size, unsigned flags) { memset(out, 7, size); return size; }
int getentropy(void *out, size_t size) { memset(out, 7, size); return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler makes the library")
def test_random_numbers_come_from_the_kernel(keys: Path, tmp_path: Path) -> None:
    """The C library's function may keep a generator in memory, which copies share: here it repeats itself."""
    source, library = tmp_path / "repeating.c", tmp_path / "repeating.so"
    source.write_text(REPEATING)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    first, second = (copies("drawn", keys, library) for _ in range(2))
    assert first["library"] == second["library"] == "07" * 8, "the library is used"
    every = first["pairs"] + second["pairs"]
    assert len(every) == len({pair.split(":")[1] for pair in every}) == 200


def test_a_fork_during_a_call(keys: Path) -> None:
    assert copies("during", keys) == {"parent": 1_000_000, "fork": "forked"}
