"""A running engine, started as `leafseal dev` starts one, with clients of different permissions."""

import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leafseal import Leafseal
from flood import limited
from rpc_client import Client, Identity

STOP_SECONDS_MAX = 30


@dataclass
class Engine:
    """`ready` is the line that the program prints; `log` what it wrote to standard error."""

    leafseal: Leafseal
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
        """A client whose certificate is in the engine's folder."""
        return Identity(self.ca, self.ca.with_name(f"{client}.pem"), self.ca.with_name(f"{client}.key"))

    def connect(self, client: str = "dev") -> Client:
        return self.connect_with(self.identity(client).context())

    def connect_with(self, context: ssl.SSLContext) -> Client:
        return Client(self.address, context)


def start(leafseal: Leafseal, app: str, port: int = 0, *settings: str, descriptors: int | None = None) -> Engine:
    """`settings` are `KEY=VALUE` of the configuration, `descriptors` is a resource limit. The caller must stop it."""
    log = leafseal.folder.parent / "engine.log"
    # A given port applies only to the RPC listener.
    settings = ("operator.address=127.0.0.1:0", *settings)
    flags = [flag for setting in settings for flag in ("--set", setting)]
    command = leafseal.command(*flags, "dev", "--app", app, "--port", str(port), "--api-port", "0", "--no-relay", "--json")
    if descriptors is not None:
        command = limited(command, descriptors)
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    line = process.stdout.readline()
    if not line:
        process.wait()
        process.stdout.close()
        raise AssertionError(f"the engine did not start: {log.read_text()}")
    return Engine(leafseal, process, json.loads(line), log)


def kill(engine: Engine) -> None:
    """Kills the engine, like a crash."""
    engine.process.kill()
    engine.process.wait()
    engine.process.stdout.close()


@contextmanager
def running(leafseal: Leafseal, app: str, descriptors: int | None = None) -> Iterator[Engine]:
    """Stops it with SIGTERM and requires a clean exit."""
    engine = start(leafseal, app, descriptors=descriptors)
    try:
        yield engine
        engine.process.send_signal(signal.SIGTERM)
        rest, _ = engine.process.communicate(timeout=STOP_SECONDS_MAX)
        assert (engine.process.returncode, rest) == (0, b""), engine.log.read_text()
    finally:
        kill(engine)
