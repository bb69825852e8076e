"""A running engine, started as `fieldseal dev` starts one, with clients of several rights."""

import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fieldseal import Fieldseal
from rpc_client import Client, Identity

STOP_SECONDS_MAX = 30


@dataclass
class Engine:
    """`ready` is the line that the program prints; `log` what it wrote to standard error."""

    fieldseal: Fieldseal
    process: subprocess.Popen[bytes]
    ready: dict[str, str]
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.ready["address"].rsplit(":", 1)
        return host, int(port)

    @property
    def ca(self) -> Path:
        return Path(self.ready["ca"])

    def identity(self, client: str = "dev") -> Identity:
        """A client whose certificate lies with the engine's."""
        return Identity(self.ca, self.ca.with_name(f"{client}.pem"), self.ca.with_name(f"{client}.key"))

    def connect(self, client: str = "dev") -> Client:
        return self.connect_with(self.identity(client).context())

    def connect_with(self, context: ssl.SSLContext) -> Client:
        return Client(self.address, context)


@contextmanager
def running(fieldseal: Fieldseal, app: str) -> Iterator[Engine]:
    """Ends with SIGTERM, as an operator ends it, and insists on a clean end."""
    log = fieldseal.folder.parent / "engine.log"
    command = fieldseal.command("dev", "--app", app, "--port", "0", "--json")
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        line = process.stdout.readline()
        assert line, f"the engine did not start: {log.read_text()}"
        yield Engine(fieldseal, process, json.loads(line), log)
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=STOP_SECONDS_MAX)
        assert (process.returncode, rest) == (0, b""), log.read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
