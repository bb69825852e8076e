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
REQUIRED = ["php", "symfony", "express", "python", "go", "tomcat"]
COMMANDS: dict[str, Callable[[], list[str]]] = {
    "express": lambda: ["node", str(HERE / "express" / "upstream.mjs")],
    "python": lambda: [str(BUILT / "venv" / "bin" / "python"), str(HERE / "python" / "upstream.py")],
    "go": lambda: [str(BUILT / "go-upstream")],
    "rack": lambda: ["ruby", str(HERE / "rack" / "upstream.rb")],
    "tomcat": lambda: ["java", "-Xmx128m", "-cp", f"{BUILT}/tomcat/classes:{BUILT}/tomcat/lib/*", "Upstream"],
}
# Scripts of PHP's built-in server, by upstream.
PHP = {"php": "upstream.php", "symfony": "symfony.php"}
LANGUAGES = [*PHP, *COMMANDS]


def installed() -> list[str]:
    """The languages that run.sh found."""
    return os.environ["UPSTREAMS"].split()


@contextmanager
def running(folder: Path, routes: list[str]) -> Iterator[dict[str, int]]:
    """The port of each application, of every language that is installed, which has these routes; logs go to `folder`."""
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        environment = os.environ | {"ROUTES": " ".join(routes)}
        others = [name for name in installed() if name not in PHP]
        started = {name: stack.enter_context(_process(COMMANDS[name](), folder / f"{name}.log", environment)) for name in others}
        for name in PHP:
            if name in installed():
                ports[name] = stack.enter_context(_php(name, folder, environment))
        for name, process in started.items():
            line = process.stdout.readline()
            assert line, f"{name} did not start: {(folder / f'{name}.log').read_text()}"
            ports |= json.loads(line)
        yield ports


@contextmanager
def _process(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def _php(name: str, folder: Path, environment: dict[str, str]) -> Iterator[int]:
    """PHP's server does not report the port it was given, so it gets one that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # As without a php.ini, which PHP's containers do not have, `$_REQUEST` holds cookies.
    settings = ["-d", "request_order=GPC", "-d", "display_errors=0", "-d", "log_errors=0"]
    command = ["php", *settings, "-S", f"127.0.0.1:{port}", str(HERE / "php" / PHP[name])]
    log = folder / f"{name}.log"
    with _process(command, log, environment) as process:
        wait_until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, log.read_text()
        yield port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
