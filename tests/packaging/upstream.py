"""The service behind the relay under test: answers each POST with the body that it receives.

    upstream.py PORT
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Echo(BaseHTTPRequestHandler):
    """Over HTTP/1.1, so that the relay may keep its connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"{}")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Does not log requests, so that the test's log stays readable."""


HTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
