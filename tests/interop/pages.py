"""Pages of documentation as programs: their blocks, run in an empty folder beside an engine that the page starts."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fieldseal

ROOT = Path(__file__).parents[2]
NODE_MODULES = Path(__file__).parent / "node" / "node_modules"
START = "fieldseal dev &"
SECONDS_MAX = 120
# The ports that pages name, and what the engine reports in their place.
PORTS = {"3443": ("address",), "8443": ("api",), "8444": ("relay", "inbound"), "8445": ("relay", "outbound"), "8446": ("relay", "upstream")}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the name of the file that it is, and its text."""

    language: str
    name: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^```([\w-]*) ?([\w./-]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(found) * 2 == len(re.findall(r"^```", page, re.MULTILINE)), "a block is not closed"
    return [Block(*block) for block in found]


def starts_engine(page: str) -> bool:
    return START in page


@contextmanager
def _engine(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, object]]:
    """What `fieldseal dev` starts, on free ports."""
    command = [str(fieldseal.binary()), "dev", "--port", "0", "--json"]
    with (folder / "engine.log").open("wb") as errors:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors)
    try:
        line = process.stdout.readline()
        assert line, (folder / "engine.log").read_text()
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS_MAX)
        finally:
            process.kill()
            process.stdout.close()


def _with_ports(script: str, ready: dict[str, object]) -> str:
    for port, place in PORTS.items():
        address = ready
        for key in place:
            address = address[key]
        script = re.sub(rf"\b(127\.0\.0\.1|localhost):{port}\b", rf"\1:{address.rsplit(':', 1)[1]}", script)
    return script


def run(page: str, folder: Path) -> None:
    """Writes the blocks that are files, then runs the shell blocks in their order as one script; the first command that fails fails the test."""
    script = "set -euo pipefail\n"
    files = []
    for block in blocks(page):
        if block.language == "sh":
            script += block.text
        else:
            assert block.name, f"a block of kind {block.language!r} without the name of a file: no test runs it"
            files.append(block)
    python = Path(os.environ.get("PYTHON", "python3")).parent
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(fieldseal.binary().parent), str(python), os.environ["PATH"]]),
        "HOME": str(folder),
    }
    (folder / "node_modules").symlink_to(NODE_MODULES)
    with _engine(folder, environment) as ready:
        for block in files:
            assert block.name in script, f"no command of the page uses {block.name}"
            (folder / block.name).write_text(_with_ports(block.text, ready))
        script = _with_ports(script.replace(START, "true"), ready)
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, timeout=SECONDS_MAX, check=False, text=True
        )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
