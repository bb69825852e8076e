"""A local key endpoint, from which the SDKs fetch an app's public keys before they encrypt.

    key_endpoint.py < KEYS.json

reads what `leafseal keys public APP --json` prints, listens on a free port of 127.0.0.1, prints `{"url": …}` on one line, and
serves until standard input ends. `GET /requests` lists the requests so far. Everything an SDK might send is answered as the
real API does: status 200 and `application/json`, or `application/problem+json` with `code`, `title`, `status`, `detail`.
"""

import base64
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from envelope import Curve

API_KEY = "interop-api-key"


def key_material(public_keys: dict[str, object]) -> dict[str, str]:
    """Converts Leafseal's output to the API's response: `r1` and `k1` as compressed points in hexadecimal."""
    r1, k1 = (bytes.fromhex(public_keys[curve.value]) for curve in (Curve.R1, Curve.K1))
    uncompressed = Curve.R1.public(r1).public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    encoded = [base64.b64encode(key).decode() for key in (k1, r1, uncompressed)]
    names = ("ecdhKey", "ecdhP256Key", "ecdhP256KeyUncompressed")
    return {"teamUuid": "team_interop", **dict(zip(names, encoded, strict=True))}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        if self.path == "/requests":
            self._answer(200, "application/json", self.server.requests)
            return
        self.server.requests.append(self.path)
        may_read = {
            "/cages/key": self.headers.get("Api-Key") == API_KEY,
            "/keys": (self.headers.get("x-evervault-app-id") or "").startswith("app_"),
        }
        if self.path not in may_read:
            self._problem(404, "resource-not-found", "Not Found")
        elif not may_read[self.path]:
            self._problem(401, "unauthorized", "Unauthorized")
        else:
            self._answer(200, "application/json", self.server.material)

    def do_POST(self) -> None:
        self.server.requests.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._problem(404, "resource-not-found", "Not Found")

    def _problem(self, status: int, code: str, title: str) -> None:
        body = {"code": code, "title": title, "status": status, "detail": f"{title}: {self.command} {self.path}"}
        self._answer(status, "application/problem+json", body)

    def _answer(self, status: int, content_type: str, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Logs nothing: the tests use `/requests`."""


class Server(ThreadingHTTPServer):
    """A server on a free port; `requests` are the requested paths."""

    daemon_threads = True

    def __init__(self, material: dict[str, str]):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.material = material
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running(public_keys: dict[str, object]) -> Iterator[Server]:
    """Serves from a thread until the block ends."""
    server = Server(key_material(public_keys))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Reads keys from the first line of standard input and serves until it ends."""
    with running(json.loads(sys.stdin.readline())) as server:
        print(json.dumps({"url": server.url}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
