"""Sinks of the audit log over TLS: Python's ssl, http.server and hmac are at the other end."""

import hashlib
import hmac
import http.server
import json
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import engine as engines
from certificates import Authority, Server
from conftest import APP
from leafseal import Leafseal

SECONDS_MAX = 60
SECRET = b"hunter2"


@pytest.fixture(name="tls")
def fixture_tls(tmp_path):
    """A server certificate for 127.0.0.1, and its authority's file."""
    authority = Authority.fresh()
    server: Server = authority.issue_server(tmp_path, "sink", ["127.0.0.1"])
    return server, authority.write(tmp_path)


@contextmanager
def sending(tmp_path: Path, sink: str, requests: int) -> Iterator[None]:
    """Runs an engine with a sink, which has served requests."""
    settings = ("audit.folder=audit", "server.name=one", "audit.checkpoint_interval=10ms", f"audit.sinks={sink}")
    engine = engines.start(Leafseal(tmp_path / "dev"), APP, 0, *settings)
    try:
        with engine.connect() as client:
            for _ in range(requests):
                client.call("encrypt", app=APP, values=["x"])
        yield
    finally:
        engines.kill(engine)


def test_webhooks_are_signed(tmp_path, tls):
    server, authority = tls
    posts = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        """Keeps what is posted."""

        def do_POST(self):
            posts.put((self.path, self.headers, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Prints nothing."""

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.socket = server.context().wrap_socket(listener.socket, server_side=True)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    sink = f"webhook+https://127.0.0.1:{listener.server_port}/audit?a=b;ca={authority};secret={secret};format=ecs"
    seen, requests = [], 0
    with sending(tmp_path, sink, 30):
        while requests < 30:
            path, headers, body = posts.get(timeout=SECONDS_MAX)
            assert path == "/audit?a=b"
            seconds, code = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["leafseal-signature"]).groups()
            signed = f"{seconds}\n{path}\n{headers['idempotency-key']}\n".encode() + body
            assert hmac.compare_digest(hmac.new(SECRET, signed, hashlib.sha256).hexdigest(), code)
            assert abs(time.time() - int(seconds)) < SECONDS_MAX
            message = json.loads(body)
            for record in message["records"]:
                assert record["event"]["id"] == f"{message['origin']}/{record['leafseal']['index']}"
            seen += [record["leafseal"]["index"] for record in message["records"]]
            requests += sum(record["event"]["action"] == "encrypt" for record in message["records"])
    # The start and the changes of the keystore are before them.
    assert len(seen) > 30
    assert seen == list(range(len(seen)))
    listener.shutdown()
    listener.server_close()


def test_syslog_over_tls(tmp_path, tls):
    server, authority = tls
    listener = socket.create_server(("127.0.0.1", 0))
    sink = f"syslog+tls://127.0.0.1:{listener.getsockname()[1]};ca={authority};kinds=request"
    with listener, sending(tmp_path, sink, 20):
        connection, _ = listener.accept()
        with server.context().wrap_socket(connection, server_side=True) as stream, stream.makefile("rb") as lines:
            first = None
            for number in range(20):
                size = b""
                while not size.endswith(b" "):
                    size += lines.read(1)
                message = lines.read(int(size)).decode()
                # RFC 5424, section 6.
                form = r'<110>1 \S+Z - leafseal - request \[leafseal@32473 origin="(\S+)" index="(\d+)"\] (.*)'
                origin, index, line = re.fullmatch(form, message).groups()
                first = int(index) if first is None else first
                assert (int(index), json.loads(line)["origin"]) == (first + number, origin)


def test_another_authority_is_refused(tmp_path, tls):
    """Nothing is sent to a server that the authority has not certified."""
    server, _ = tls
    (tmp_path / "other").mkdir()
    other = Authority.fresh().write(tmp_path / "other")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(SECONDS_MAX)
    sink = f"syslog+tls://127.0.0.1:{listener.getsockname()[1]};ca={other}"
    with listener, sending(tmp_path, sink, 1):
        connection, _ = listener.accept()
        with connection, pytest.raises(OSError):
            server.context().wrap_socket(connection, server_side=True).read()
