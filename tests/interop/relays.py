"""A running relay, and the sections of its configuration."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from engine import Engine
from leafseal import Leafseal
from flood import limited
from upstream import wait_until

STOP_SECONDS_MAX = 30


@dataclass(frozen=True)
class Listening:
    """The address of a listener, and whether it uses TLS."""

    port: int
    is_tls: bool

    def url(self, path: str, host: str = "localhost") -> str:
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{path}"


@dataclass
class Relay:
    """`access_log` has one line of JSON for each request; `log` is the program's log."""

    process: subprocess.Popen[bytes]
    file: Path
    ready: dict[str, str]
    access_log: Path
    log: Path

    def at(self, name: str, is_tls: bool = True) -> Listening:
        return Listening(int(self.ready[name].rsplit(":", 1)[1]), is_tls)

    def requests(self) -> list[dict[str, object]]:
        """The access log so far."""
        return [json.loads(line) for line in self.access_log.read_text().splitlines()]

    def logged(self, path: str, count: int = 1) -> list[dict[str, object]]:
        """Waits for `count` lines about `path`: a line is written at the end of its response."""

        def found() -> list[dict[str, object]]:
            return [line for line in self.requests() if line["path"] == path]

        wait_until(lambda: len(found()) >= count)
        return found()

    def written(self) -> str:
        """The content of all logs."""
        return self.access_log.read_text() + self.log.read_text()

    def operator(self, path: str) -> tuple[int, str]:
        host, port = self.ready["operator"].rsplit(":", 1)
        connection = HTTPConnection(host, int(port), timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, sample: str) -> float:
        """The value of a sample, by its name with labels; 0 if it is missing."""
        for line in self.operator("/metrics")[1].splitlines():
            if line.startswith(sample + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def reload(self, text: str) -> None:
        """Writes another configuration and signals the relay, which logs the result."""
        self.file.write_text(text)
        before = len(self.log.read_text())
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any(word in self.log.read_text()[before:] for word in ("relay reloaded", "relay not reloaded")))


@contextmanager
def running(leafseal: Leafseal, folder: Path, text: str, descriptors: int | None = None) -> Iterator[Relay]:
    """Runs a relay, optionally with a limit of descriptors. Stops it with SIGTERM and requires a clean exit."""
    file, access_log, log = folder / "relay.toml", folder / "access.log", folder / "relay.log"
    file.write_text(text)
    command = leafseal.command("relay", "--file", str(file), "--access-log", str(access_log), "--json")
    if descriptors is not None:
        command = limited(command, descriptors)
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        line = process.stdout.readline()
        assert line, f"the relay did not start: {log.read_text()}"
        yield Relay(process, file, json.loads(line), access_log, log)
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=STOP_SECONDS_MAX)
        assert (process.returncode, rest) == (0, b""), log.read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def process_section(**settings: object) -> str:
    """`[relay]`, on free ports, with two threads, without a delay before it stops, and with room in the log for the line of every refusal
    that a test looks for."""
    settings = {"refusal_lines_max": 100_000, "drain_delay": "0s", **settings}
    return section("relay", threads=2, operator_address="127.0.0.1:0", **settings)


def engine_section(engine: Engine, client: str = "relay", **settings: object) -> str:
    """`[engine]`, with the certificate of `client`."""
    identity = engine.identity(client)
    return section(
        "engine",
        addresses=[engine.ready["address"]],
        authorities=str(identity.ca),
        certificate=str(identity.certificate),
        private_key=str(identity.key),
        **settings,
    )


def section(heading: str, /, **settings: object) -> str:
    """A section of TOML; `[route]` as a heading begins another one of a list."""
    return "\n".join([f"[{heading}]", *(f"{key} = {_toml(value)}" for key, value in settings.items()), ""]) + "\n"


def _toml(value: object) -> str:
    """Strings, numbers and truths are written as in JSON; tables stand in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(member)}" for key, member in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
