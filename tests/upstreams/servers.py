"""The upstreams as processes: what starts each, and the ports on which its applications listen."""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from upstream import wait_until

HERE = Path(__file__).parent
# The folder of the installations and builds of run.sh.
BUILT = HERE.parents[1] / "target" / "upstreams"
# Languages whose absence is a failure in CI.
REQUIRED = ["php", "express", "python", "go", "tomcat"]
COMMANDS: dict[str, Callable[[], list[str]]] = {
    "express": lambda: ["node", str(HERE / "express" / "upstream.mjs")],
    "python": lambda: [str(BUILT / "venv" / "bin" / "python"), str(HERE / "python" / "upstream.py")],
    "go": lambda: [str(BUILT / "go-upstream")],
    "rack": lambda: ["ruby", str(HERE / "rack" / "upstream.rb")],
    "tomcat": lambda: ["java", "-Xmx128m", "-cp", f"{BUILT}/tomcat/classes:{BUILT}/tomcat/lib/*", "Upstream"],
}
LANGUAGES = ["php", *COMMANDS]


def installed() -> list[str]:
    """The languages that run.sh found."""
    return os.environ["UPSTREAMS"].split()


@contextmanager
def running(folder: Path) -> Iterator[dict[str, int]]:
    """The port of each application, of every language that is installed; logs go to `folder`."""
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        started = {name: stack.enter_context(_process(COMMANDS[name](), folder / f"{name}.log")) for name in installed() if name != "php"}
        if "php" in installed():
            ports |= stack.enter_context(_php(folder))
        for name, process in started.items():
            line = process.stdout.readline()
            assert line, f"{name} did not start: {(folder / f'{name}.log').read_text()}"
            ports |= json.loads(line)
        yield ports


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def _php(folder: Path) -> Iterator[dict[str, int]]:
    """PHP's server does not report the port it was given, so it gets one that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["php", "-d", "display_errors=0", "-d", "log_errors=0", "-S", f"127.0.0.1:{port}", str(HERE / "php" / "upstream.php")]
    with _process(command, folder / "php.log") as process:
        wait_until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, (folder / "php.log").read_text()
        yield {"php": port}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
