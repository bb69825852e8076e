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
from rolling import free_ports

ROOT = Path(__file__).parents[2]
NODE_MODULES = Path(__file__).parent / "node" / "node_modules"
START = "fieldseal dev &"
SECONDS_MAX = 120
# The ports that pages name, and what the engine reports in their place.
PORTS = {"3443": ("address",), "8443": ("api",), "8444": ("relay", "inbound"), "8445": ("relay", "outbound"), "8446": ("relay", "upstream")}
# The ports on which programs of a page listen: the test chooses free ones in their place.
OWN_PORTS = ("8080", "3447")
# Kinds of blocks that show data, which must have their form.
DATA = {"json": json.loads}


@dataclass(frozen=True)
class Block:
    """A fenced block: why no test runs it, if the comment before it says so; its language; the name of the file that it is; its text."""

    not_run: str
    language: str
    name: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^(?:<!-- not run: ([^\n]+) -->\n)?```([\w-]*) ?([\w./-]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
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


def _ports(ready: dict[str, object]) -> dict[str, str]:
    """The port to use in place of each that a page names."""
    ports = dict(zip(OWN_PORTS, map(str, free_ports(len(OWN_PORTS)))))
    for port, place in PORTS.items():
        address = ready
        for key in place:
            address = address[key]
        ports[port] = address.rsplit(":", 1)[1]
    return ports


def _with_ports(script: str, ports: dict[str, str]) -> str:
    """One pass, so that no port is replaced twice."""
    named = "|".join(ports)
    return re.sub(rf"\b(127\.0\.0\.1|localhost):({named})\b", lambda found: f"{found[1]}:{ports[found[2]]}", script)


def run(page: str, folder: Path) -> None:
    """Writes the blocks that are files, then runs the shell blocks in their order as one script; the first command that fails fails the test.

    A block of kind `console` is not run: a comment before it must say why."""
    # Programs that the page starts in the background end with it.
    script = "set -euo pipefail\ntrap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT\n"
    files = []
    for block in blocks(page):
        if block.language == "sh":
            script += block.text
        elif block.language == "console":
            assert block.not_run, f"no reason why this is not run:\n{block.text}"
        elif block.name:
            files.append(block)
        else:
            assert block.language in DATA, f"a block of kind {block.language!r} without the name of a file: no test runs it"
            DATA[block.language](block.text)
    python = Path(os.environ.get("PYTHON", "python3")).parent
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(fieldseal.binary().parent), str(python), os.environ["PATH"]]),
        "HOME": str(folder),
    }
    (folder / "node_modules").symlink_to(NODE_MODULES)
    with _engine(folder, environment) as ready:
        ports = _ports(ready)
        for block in files:
            assert block.name in script, f"no command of the page uses {block.name}"
            (folder / block.name).write_text(_with_ports(block.text, ports))
        script = _with_ports(script.replace(START, "true"), ports)
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, timeout=SECONDS_MAX, check=False, text=True
        )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
