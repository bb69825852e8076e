"""Runs curl."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS_MAX = 60
# curl's exit codes: https://curl.se/libcurl/c/libcurl-errors.html
PARTIAL_FILE, RECEIVE_ERROR, HTTP2_STREAM = 18, 56, 92


@dataclass(frozen=True)
class Result:
    """`code` is curl's exit code; `version` is "1.1" or "2"."""

    code: int
    status: int
    version: str
    headers: list[tuple[str, str]]
    body: bytes
    connects: int
    message: str

    def values(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known.lower() == name]

    def header(self, name: str) -> str | None:
        values = self.values(name)
        return values[0] if values else None

    def json(self) -> object:
        return json.loads(self.body)


def curl(url: str, *arguments: str, data: bytes | None = None, ca: Path | None = None) -> Result:
    """`data` is the body, sent as it is."""
    with tempfile.TemporaryDirectory() as folder:
        body, head = Path(folder, "body"), Path(folder, "head")
        command = ["curl", "--silent", "--show-error", "--globoff", "--max-time", str(SECONDS_MAX)]
        command += ["--output", str(body), "--dump-header", str(head), "--write-out", "%{json}"]
        if ca:
            command += ["--cacert", str(ca)]
        if data is not None:
            command += ["--data-binary", "@-"]
        command += [*arguments, url]
        done = subprocess.run(command, input=data or b"", capture_output=True, timeout=SECONDS_MAX + 10, check=False)
        details = json.loads(done.stdout)
        return Result(
            code=done.returncode,
            status=details["response_code"],
            version=details["http_version"],
            headers=_last_head(head.read_bytes() if head.exists() else b""),
            body=body.read_bytes() if body.exists() else b"",
            connects=details["num_connects"],
            message=done.stderr.decode(errors="replace"),
        )


def _last_head(dumped: bytes) -> list[tuple[str, str]]:
    """Header fields of the final response, after those of a proxy and of `100 Continue`; trailers come last."""
    fields: list[tuple[str, str]] = []
    for line in dumped.decode("latin-1").split("\r\n"):
        if line.startswith("HTTP/"):
            fields = []
        elif ":" in line:
            name, value = line.split(":", 1)
            fields.append((name, value.strip()))
    return fields
