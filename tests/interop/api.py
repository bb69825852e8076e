"""A running engine with its HTTPS API, API keys for it, and curl as a caller."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import certifi
from jsonschema import Draft202012Validator

from leafseal import Leafseal

STOP_SECONDS_MAX = 30
CALL_SECONDS_MAX = 60
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Answer:
    """A response of curl: `status`, headers in lower case, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    version: str

    @property
    def json(self) -> object:
        return json.loads(self.body)


OPEN_API = json.loads((HERE / "../../docs/openapi.json").read_text())


def check_described(method: str, path: str, answer: Answer, is_head: bool = False) -> None:
    """Checks status, content type and body against the OpenAPI document, if it contains the call; for HEAD all except the body."""
    # A second slash at the start comes from a base URL.
    path = path[1:] if path.startswith("//") else path
    found = [item for known, item in OPEN_API["paths"].items() if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), path)]
    if not found or method.lower() not in found[0]:
        assert answer.status in (204, 403, 404, 405), (method, path, answer)
        return
    responses = found[0][method.lower()]["responses"]
    assert str(answer.status) in responses, (method, path, answer)
    response = responses[str(answer.status)]
    if "$ref" in response:
        response = OPEN_API["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    content_type = answer.headers["content-type"]
    # Other names of a type are in its description.
    also = (known for known, it in response["content"].items() if content_type in re.split(r"[ ,.]+", it["schema"].get("description", "")))
    described = content_type if content_type in response["content"] else next(also, None)
    assert described, (method, path, answer)
    if is_head:
        assert answer.body == b""
        return
    is_json = content_type in ("application/json", "application/problem+json")
    body = answer.json if is_json else answer.body.decode("latin-1")
    # References of a schema are resolved in the components.
    schema = {"components": OPEN_API["components"], **response["content"][described]["schema"]}
    Draft202012Validator(schema).validate(body)


@dataclass(frozen=True)
class Api:
    """The URL of the API and the authority of its certificate."""

    leafseal: Leafseal
    app: str
    url: str
    ca: Path
    log: Path

    def key(self, *arguments: str, app: str | None = None) -> str:
        """A new API key, by the command line."""
        command = ("api-keys", "create", app or self.app, *(arguments or ("--allow", "encrypt,decrypt,inspect,client-side-tokens")))
        return self.leafseal.run(*command).decode().strip()

    def curl(self, path: str, *arguments: str, data: bytes | None = None, version: str = "--http2") -> Answer:
        """Makes a call with curl; fails the test if curl fails."""
        command = ["curl", "--silent", "--show-error", "--include", version, "--cacert", str(self.ca), *arguments]
        if data is not None:
            command += ["--data-binary", "@-"]
        limit = ["--max-time", str(CALL_SECONDS_MAX)]
        done = subprocess.run([*command, *limit, self.url + path], input=data, capture_output=True, check=False)
        assert done.returncode == 0, (done.returncode, done.stderr.decode())
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        while head.startswith((b"HTTP/1.1 100", b"HTTP/2 100")):
            head, _, body = body.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        spoken, status = first.split(" ")[:2]
        answer = Answer(int(status), headers, body, spoken)
        method = arguments[arguments.index("-X") + 1] if "-X" in arguments else "GET" if data is None else "POST"
        check_described(method, path.split("?")[0], answer, "--head" in arguments)
        return answer

    def trusting_python(self, folder: Path) -> dict[str, str]:
        """The environment of a Python whose `certifi` is a copy with our authority in its bundle. Libraries that verify against
        `certifi.where()` have no other setting. Installed packages are not changed."""
        copy = folder / "certifi"
        if not copy.exists():
            shutil.copytree(Path(certifi.__file__).parent, copy)
            with (copy / "cacert.pem").open("ab") as bundle:
                bundle.write(b"\n" + self.ca.read_bytes())
        return {**os.environ, "PYTHONPATH": str(folder), "EV_API_URL": self.url + "/", "APP": self.app}

    def python_sdk(self, folder: Path, key: str, cases: list[dict[str, object]], curve: str = "SECP256R1") -> list[dict[str, object]]:
        """Runs `cases` with the Python SDK and returns the results."""
        environment = {**self.trusting_python(folder), "KEY": key, "CURVE": curve}
        command = [os.environ.get("PYTHON", "python3"), str(HERE / "python_sdk_calls.py")]
        done = subprocess.run(
            command, input=json.dumps(cases).encode(), env=environment, capture_output=True, timeout=CALL_SECONDS_MAX, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)


@contextmanager
def running(leafseal: Leafseal, app: str, *settings: str) -> Iterator[Api]:
    """An engine started like `dev` does and shut down gracefully."""
    log = leafseal.folder.parent / "api.log"
    flags = [part for setting in settings for part in ("--set", setting)]
    command = leafseal.command(*flags, "dev", "--app", app, "--port", "0", "--json")
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        line = process.stdout.readline()
        assert line, f"the engine did not start: {log.read_text()}"
        ready = json.loads(line)
        yield Api(leafseal, app, f"https://{ready['api']}", Path(ready["ca"]), log)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=STOP_SECONDS_MAX)
        assert process.returncode == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
