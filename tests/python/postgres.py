"""A real PostgreSQL in a temporary folder, with a certificate of the authority that `leafseal certs init` creates."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ports import free_ports

ROLE, PASSWORD = "leafseal", "correct horse battery staple"
SECONDS_MAX = 60
# Debian's user, because the server refuses to run as root.
USER = "postgres"


def _tool(name: str) -> str:
    """Debian keeps the programs of the server out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    tool = str(found[-1]) if found else shutil.which(name)
    assert tool, f"{name} is missing: run `make setup` as root, or install Debian's package postgresql"
    return tool


def _command(*arguments: str) -> list[str]:
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"] if os.getuid() == 0 else []
    return [*user, *arguments]


def _run(*arguments: str) -> None:
    done = subprocess.run(_command(*arguments), capture_output=True, cwd="/", timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")


@dataclass
class Postgres:
    """A server with one database of the role `leafseal`, at localhost."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgres://{ROLE}@localhost:{self.port}/{ROLE}"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(_command(_tool("postgres"), "-D", str(self.data)), cwd="/", stdout=log, stderr=log)
        began = time.monotonic()
        while subprocess.run(self._psql("SELECT 1"), capture_output=True, check=False).returncode != 0:
            assert self.process.poll() is None and time.monotonic() - began < SECONDS_MAX, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends all connections, too. With a signal of our own: the process runs as another user, but is our child."""
        if self.process is not None:
            self.process.send_signal(2)
            self.process.wait(timeout=SECONDS_MAX)
            self.process = None

    def sql(self, text: str) -> None:
        done = subprocess.run(self._psql(text), capture_output=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def _psql(self, text: str) -> list[str]:
        to = ["--host", str(self.folder), "--port", str(self.port), "--username", USER, "--dbname", USER]
        return [_tool("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *to, "--command", text]


@contextmanager
def running(certificate: Path, key: Path) -> Iterator[Postgres]:
    """A server with this certificate. Its folder is short, because the path of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="leafseal-pg-") as place:
        folder = Path(place)
        if os.getuid() == 0:
            shutil.chown(folder, USER, USER)
        server = Postgres(folder, free_ports(1)[0])
        _run(_tool("initdb"), "-D", str(server.data), "-U", USER, "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8")
        for source, name in ((certificate, "server.pem"), (key, "server.key")):
            target = server.data / name
            target.write_bytes(source.read_bytes())
            target.chmod(0o600)
            if os.getuid() == 0:
                shutil.chown(target, USER, USER)
        with (server.data / "postgresql.conf").open("a") as file:
            file.write(
                f"listen_addresses = '127.0.0.1'\nport = {server.port}\nunix_socket_directories = '{folder}'\nfsync = off\n"
                "shared_buffers = 16MB\nssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n"
            )
        (server.data / "pg_hba.conf").write_text("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        try:
            server.start()
            server.sql(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
            server.sql(f"CREATE DATABASE {ROLE} OWNER {ROLE}")
            yield server
        finally:
            server.stop()
