"""The demo upstream of compose.yaml: returns the JSON that it receives."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_SIZE_MAX = 1 << 20


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= BODY_SIZE_MAX:
            self.send_error(413)
            return
        body = self.rfile.read(length)
        self.send_response(200)
        self.send_header("Content-Type", self.headers.get("Content-Type") or "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8000), Echo).serve_forever()
