"""The requests of vectors/ambiguous, and a client that sends their exact bytes."""

import base64
import json
import socket
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "vectors" / "ambiguous"
SECRET = "4111111111111111"
SECONDS_MAX = 60


@dataclass(frozen=True)
class Case:
    """`is_accepted`: the request is plain, so the relay must not refuse it. `topic`: the name of its file."""

    topic: str
    name: str
    about: str
    method: str
    content: bytes
    is_accepted: bool


@dataclass(frozen=True)
class Answer:
    """`report` is the data that an upstream's application read; None if none ran."""

    status: int
    code: str | None
    report: dict[str, object] | None


def cases() -> list[Case]:
    return [_case(file.stem, entry) for file in sorted(FOLDER.glob("*.json")) for entry in json.loads(file.read_text())]


def _case(topic: str, entry: dict[str, object]) -> Case:
    body = base64.b64decode(entry["body_base64"]) if "body_base64" in entry else entry.get("body", "").encode()
    fields = [("Host", "front.test"), *entry["fields"]]
    if "body" in entry or "body_base64" in entry:
        fields.append(("Content-Length", str(len(body))))
    lines = [f"{entry['method']} {entry['target']} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
    content = "\r\n".join(lines).encode("latin-1") + body
    return Case(topic, entry["name"], entry["about"], entry["method"], content, entry.get("accepted", False))


class Client:
    """A persistent connection, reopened when the peer closes it."""

    def __init__(self, port: int):
        self.port = port
        self.stream: socket.socket | None = None

    def send(self, case: Case) -> Answer:
        is_kept = self.stream is not None
        try:
            return self._exchange(case)
        except (ConnectionError, HTTPException):
            self.close()
            # A kept connection may close while it is idle.
            if not is_kept:
                raise
            return self._exchange(case)

    def close(self) -> None:
        if self.stream:
            self.stream.close()
            self.stream = None

    def _exchange(self, case: Case) -> Answer:
        if not self.stream:
            self.stream = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS_MAX)
            self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.stream.sendall(case.content)
        except ConnectionError:
            # The peer may have refused the head and closed.
            pass
        with HTTPResponse(self.stream, method=case.method) as response:
            response.begin()
            body = response.read()
            will_close = response.will_close
        if will_close:
            self.close()
        return _answer(response, body)


def _answer(response: HTTPResponse, body: bytes) -> Answer:
    kind = response.getheader("Content-Type", "")
    if response.getheader("X-Upstream") and response.status == 200 and body:
        return Answer(response.status, None, json.loads(body))
    code = json.loads(body)["code"] if kind.startswith("application/problem+json") and body else None
    return Answer(response.status, code, None)
