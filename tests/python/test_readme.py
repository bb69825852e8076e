"""The blocks of the README run as they are printed, in their order, in a folder that contains nothing else."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Program, Server, running

README = Path(__file__).resolve().parents[2] / "bindings" / "python" / "README.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
SERVER = "leafseal dev\n"
# tests/python/spark runs the others.
HERE = [block for block in BLOCKS if block[1] != SERVER and "leafseal.spark" not in block[1]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The engine that the first block starts, on a port that is not in use."""
    with running(Program(tmp_path_factory.mktemp("readme") / ".leafseal"), "app_dev") as server:
        yield server


@pytest.mark.parametrize("number", range(len(HERE)))
def test_blocks(server: Server, number: int) -> None:
    language, code = HERE[number]
    commands = {"python": [sys.executable, "-W", "error", "-c"], "sh": ["sh", "-euc"]}
    code = code.replace("localhost:3443", f"localhost:{server.port}")
    path = f"{Path(os.environ['LEAFSEAL']).resolve().parent}:{os.environ['PATH']}"
    place, environment = server.program.folder.parent, os.environ | {"PATH": path}
    done = subprocess.run([*commands[language], code], cwd=place, env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_the_first_block_starts_the_engine() -> None:
    assert BLOCKS[0] == ("sh", SERVER)
