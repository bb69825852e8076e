"""Runs the blocks of documentation pages in an empty folder, with the engine that the page starts."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import leafseal
from ports import free_ports

ROOT = Path(__file__).parents[2]
NODE_MODULES = Path(__file__).parent / "node" / "node_modules"
START = "leafseal dev &"
SECONDS_MAX = 120
# The ports in pages, and the ports that the engine reports instead.
PORTS = {"3443": ("address",), "8443": ("api",), "8444": ("relay", "inbound"), "8445": ("relay", "outbound"), "8446": ("relay", "upstream")}
# The ports on which programs of a page listen: the test replaces them by free ones.
OWN_PORTS = ("8080", "3447")
# Kinds of blocks with data, whose syntax is checked.
DATA = {"json": json.loads}


@dataclass(frozen=True)
class Block:
    """A fenced block: the reason in the comment before it why it is not run, its language, its file name, and its text."""

    not_run: str
    language: str
    name: str
    text: str


def indented(page: str) -> list[str]:
    """First lines of blocks that are indented instead of fenced. The continuation of a list's item follows no empty line."""
    outside = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"(?<=\n\n) {4,}[^\n]+", outside)


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^(?:<!-- not run: ([^\n]+) -->\n)?```([\w-]*) ?([\w./-]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert not indented(page), f"an indented block, which no test runs: {indented(page)}"
    assert len(found) * 2 == len(re.findall(r"^```", page, re.MULTILINE)), "a block is not closed"
    return [Block(*block) for block in found]


def starts_engine(page: str) -> bool:
    return START in page


@contextmanager
def _engine(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, object]]:
    """The ports of `leafseal dev`, started on free ports."""
    command = [str(leafseal.binary()), "dev", "--port", "0", "--json"]
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
    """The replacement of each port in a page."""
    ports = dict(zip(OWN_PORTS, map(str, free_ports(len(OWN_PORTS)))))
    for port, place in PORTS.items():
        address = ready
        for key in place:
            address = address[key]
        ports[port] = address.rsplit(":", 1)[1]
    return ports


def _with_ports(script: str, ports: dict[str, str]) -> str:
    """Replaces in one pass, so that no port is replaced twice."""
    named = "|".join(ports)
    return re.sub(rf"\b(127\.0\.0\.1|localhost):({named})\b", lambda found: f"{found[1]}:{ports[found[2]]}", script)


def run(page: str, folder: Path) -> None:
    """Writes the blocks that are files, then runs the shell blocks as one script; the first failing command fails the test.

    A block of kind `console` is not run: the comment before it must state the reason."""
    # Background programs of the page end with it.
    script = "set -euo pipefail\ntrap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT\n"
    files = []
    for block in blocks(page):
        if block.not_run:
            continue
        if block.language == "sh":
            script += block.text
        elif block.name:
            files.append(block)
        else:
            assert block.language in DATA, f"a block of kind {block.language!r} without the name of a file: no test runs it"
            DATA[block.language](block.text)
    python = Path(os.environ.get("PYTHON", "python3")).parent
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(leafseal.binary().parent), str(python), os.environ["PATH"]]),
        "HOME": str(folder),
    }
    (folder / "node_modules").symlink_to(NODE_MODULES)
    (folder / "examples").symlink_to(ROOT / "examples")
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
