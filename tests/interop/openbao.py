"""OpenBao with a Transit secrets engine, over TLS on 127.0.0.1, without anything on disk."""

import json
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from certificates import Authority
from ports import free_ports

START_SECONDS_MAX = 60
ROOT_TOKEN = "root-token-of-the-tests"


def binary() -> str:
    """From the environment, as `run.sh` sets it."""
    path = os.environ.get("OPENBAO")
    if not path:
        pytest.skip("set OPENBAO to the path of bao")
    return path


@dataclass
class OpenBao:
    """A running server, and the file of the authority that issued its certificate."""

    url: str
    ca: Path
    process: "subprocess.Popen[bytes]"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def call(self, method: str, path: str, content: dict[str, object] | None = None) -> dict[str, object]:
        """Calls the API with the root token; raises HTTPError for an error."""
        body = json.dumps(content or {}).encode()
        headers = {"X-Vault-Token": ROOT_TOKEN, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/{path}", body, headers, method=method)
        context = ssl.create_default_context(cafile=self.ca)
        with urllib.request.urlopen(request, timeout=START_SECONDS_MAX, context=context) as answer:
            return json.loads(answer.read() or b"{}")

    def token(self, *operations: str) -> str:
        """A token that may do these operations with the key `leafseal`."""
        name = "-".join(operations) or "nothing"
        rules = "".join(f'path "transit/{operation}/leafseal" {{ capabilities = ["update"] }}\n' for operation in operations)
        self.call("PUT", f"sys/policies/acl/{name}", {"policy": rules or 'path "x" { capabilities = ["deny"] }'})
        return self.call("POST", "auth/token/create", {"policies": [name]})["auth"]["client_token"]

    def environment(self) -> dict[str, str]:
        """For the program `bao`, with the root token."""
        return {"BAO_ADDR": self.url, "BAO_CACERT": str(self.ca), "BAO_TOKEN": ROOT_TOKEN}


@contextmanager
def running(folder: Path) -> Iterator[OpenBao]:
    """A server without a Transit secrets engine."""
    authority = Authority.fresh()
    ca = authority.write(folder)
    certificate = authority.issue_server(folder, "openbao", ["localhost", "127.0.0.1"])
    plain, port = free_ports(2)
    listener = {"address": f"127.0.0.1:{port}", "tls_cert_file": str(certificate.certificate), "tls_key_file": str(certificate.key)}
    config = folder / "openbao.json"
    config.write_text(json.dumps({"listener": {"tcp": listener}}))
    command = [binary(), "server", "-dev", f"-dev-root-token-id={ROOT_TOKEN}", "-dev-no-store-token"]
    command += [f"-dev-listen-address=127.0.0.1:{plain}", f"-config={config}"]
    environment = {**os.environ, "HOME": str(folder)}
    with (folder / "openbao.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    server = OpenBao(f"https://127.0.0.1:{port}", ca, process)
    try:
        _wait(server, folder / "openbao.log")
        yield server
    finally:
        server.stop()


def _wait(server: OpenBao, log: Path) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            server.call("GET", "sys/mounts")
            return
        except (urllib.error.URLError, ConnectionError, socket.timeout):
            assert server.process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
