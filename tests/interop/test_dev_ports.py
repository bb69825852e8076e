"""`leafseal dev --port-base`: all ports move together, conflicts are reported immediately, and the error's advice works."""

import json
import re
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

from leafseal import Leafseal

SECONDS_MAX = 60
PORTS = 7
# In the order of the help: one port each, from the base.
NAMES = ["the engine", "the operator port", "the relay's operator port", "the API", "the inbound relay", "the outbound relay", "the upstream"]


def free_base() -> int:
    """A base with seven free ports, below the ephemeral range."""
    for base in range(21_000, 29_000, PORTS):
        with ExitStack() as held:
            try:
                for port in range(base, base + PORTS):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return base
    raise AssertionError("no free ports")


def start(folder: Path, base: int) -> subprocess.Popen[bytes]:
    command = Leafseal(folder).command("dev", "--port-base", str(base), "--json")
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ports_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The ports in the line that reports readiness."""
    line = process.stdout.readline()
    assert line, process.stderr.read().decode()
    return sorted({int(port) for port in re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", json.dumps(json.loads(line)))})


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0


def test_all_ports_move_and_every_conflict_is_named(tmp_path: Path) -> None:
    base = free_base()
    first = start(tmp_path / "first", base)
    second = None
    try:
        assert ports_of(first) == list(range(base, base + PORTS))
        refused = start(tmp_path / "second", base)
        output, errors = refused.communicate(timeout=SECONDS_MAX)
        text = errors.decode()
        assert (refused.returncode, output) == (3, b""), text
        for place, name in enumerate(NAMES):
            assert f"cannot listen on 127.0.0.1:{base + place} ({name}): " in text, text
        advised = re.search(r"--port-base (\d+) uses (\d+) to (\d+), which are free", text)
        assert advised, text
        other, begin, end = map(int, advised.groups())
        assert (begin, end) == (other, other + PORTS - 1)
        second = start(tmp_path / "second", other)
        assert ports_of(second) == list(range(other, other + PORTS))
        stop(second)
        stop(first)
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.communicate()
