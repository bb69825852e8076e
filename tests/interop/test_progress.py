"""Progress of long operations is shown only on a terminal; the tests use a pseudo-terminal."""

import os
import pty
import re
import subprocess
import termios
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import APP
from leafseal import COMMAND_SECONDS_MAX, Leafseal

LINE = b'{"name": "Ada", "card": "4000001234567899"}\n'
# More than one block, although the first is drawn immediately.
LINES = LINE * 20_000
COLUMNS = 100
# The prefix of every drawing of the bar or the spinner.
NAME = b"lines "
BAR = re.compile(rb"lines .* [0-9.]+ [KM]?i?B/[0-9.]+ [KM]iB ")
CLEAR_LINE = b"\x1b[2K"


@dataclass(frozen=True)
class Written:
    """The output of a successful command."""

    stdout: bytes
    stderr: bytes


def at_a_terminal(leafseal: Leafseal, arguments: list[str], stdin: Path, folder: Path) -> Written:
    """Runs with a terminal as standard error, and with files as the other two."""
    reader, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, COLUMNS))
    environment = {**os.environ, "TERM": "xterm"}
    out = folder / "out"
    with stdin.open("rb") as source, out.open("wb") as target:
        process = subprocess.Popen(
            leafseal.command(*arguments), stdin=source, stdout=target, stderr=terminal, env=environment
        )
    os.close(terminal)
    # Reading ends when the process ends.
    deadline = threading.Timer(COMMAND_SECONDS_MAX, process.kill)
    deadline.start()
    stderr = bytearray()
    while part := _read(reader):
        stderr += part
    os.close(reader)
    code = process.wait()
    deadline.cancel()
    assert code == 0, bytes(stderr)
    return Written(out.read_bytes(), bytes(stderr))


def _read(terminal: int) -> bytes:
    """Reads from the terminal; empty at the end, which Linux reports as an error once the other end is closed."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(LINES)
    return path


def encrypt(*more: str) -> list[str]:
    return ["encrypt", "--app", APP, "--format", "jsonl", *more]


def test_a_terminal_shows_a_bar_and_clears_it(leafseal: Leafseal, lines: Path, tmp_path: Path) -> None:
    written = at_a_terminal(leafseal, encrypt(str(lines)), Path(os.devnull), tmp_path)
    assert BAR.search(written.stderr), written.stderr
    _, _, after = written.stderr.rpartition(NAME)
    assert CLEAR_LINE in after, written.stderr
    assert leafseal.decrypt(APP, written.stdout, "--format", "jsonl") == LINES


def test_a_terminal_shows_a_spinner_where_the_size_is_not_known(
    leafseal: Leafseal, lines: Path, tmp_path: Path
) -> None:
    written = at_a_terminal(leafseal, encrypt(), lines, tmp_path)
    assert NAME in written.stderr and not BAR.search(written.stderr), written.stderr
    assert CLEAR_LINE in written.stderr.rpartition(NAME)[2], written.stderr


def test_a_pipe_shows_nothing(leafseal: Leafseal, lines: Path) -> None:
    done = subprocess.run(
        leafseal.command(*encrypt(str(lines))), capture_output=True, timeout=COMMAND_SECONDS_MAX, check=True
    )
    assert done.stderr == b"encrypted 40000 values\n", "the closing line alone"
