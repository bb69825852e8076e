"""The examples of the README run as they are printed, against an engine that `leafseal dev` started."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program import Program, running

README = Path(__file__).resolve().parents[2] / "bindings" / "python" / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    program = Program(folder / ".leafseal")
    with running(program, "app_dev") as server:
        (folder / "app_dev.json").write_bytes(program.run("keys", "public", "app_dev", "--json"))
        program.run("store", "extract", "app_dev", "--to", str(folder / "extract"), "--root-key-file", str(folder / "extract.key"))
        (folder / "port").write_text(str(server.port))
        yield folder


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples(place: Path, number: int) -> None:
    # The port of the example may be in use on this machine.
    code = EXAMPLES[number].replace("localhost:3443", f"localhost:{(place / 'port').read_text()}")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=place, env=os.environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
