"""The program `leafseal` over a folder, and a running engine, started as `leafseal dev` starts one."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import app_keys
from decryptor import PrivateKeys
from envelope import Curve

SECONDS_MAX = 60


@dataclass(frozen=True)
class Program:
    """A folder with keystore, keys and certificates."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        return [os.environ["LEAFSEAL"], "--dir", str(self.folder), *arguments]

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(self.command(*arguments), input=stdin, capture_output=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def create(self, app: str) -> None:
        self.run("keys", "create", app)

    def import_keys(self, app: str, keys: PrivateKeys) -> None:
        pem = app_keys.write_pem(keys, self.folder.parent, "pkcs8")
        self.run("keys", "import", app, "--r1", str(pem[Curve.R1]), "--k1", str(pem[Curve.K1]))


@dataclass
class Server:
    """`ready` is the line that the program prints."""

    program: Program
    process: subprocess.Popen[bytes]
    ready: dict[str, str]

    @property
    def address(self) -> str:
        return self.ready["address"]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def credentials(self, client: str = "dev") -> dict[str, Path]:
        ca = Path(self.ready["ca"])
        return {"ca": ca, "certificate": ca.with_name(f"{client}.pem"), "key": ca.with_name(f"{client}.key")}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def start(program: Program, app: str, port: int = 0, *settings: str) -> Server:
    """The caller must kill it. `settings` are `KEY=VALUE` of the configuration."""
    flags = [flag for setting in ("operator.address=127.0.0.1:0", *settings) for flag in ("--set", setting)]
    flags += ["dev", "--app", app, "--port", str(port), "--api-port", "0", "--no-relay", "--json"]
    log = program.folder.parent / "engine.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(program.command(*flags), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    line = process.stdout.readline()
    if not line:
        process.wait()
        process.stdout.close()
        raise AssertionError(f"the engine did not start: {log.read_text()}")
    return Server(program, process, json.loads(line))


@contextmanager
def running(program: Program, app: str) -> Iterator[Server]:
    """Stops it with SIGTERM and requires a clean exit."""
    server = start(program, app)
    try:
        yield server
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=SECONDS_MAX) == 0
    finally:
        server.kill()
