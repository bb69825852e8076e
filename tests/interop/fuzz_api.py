"""Runs calls generated from the OpenAPI document against an engine: no response is a 5xx, and all conform to the document.

    fuzz_api.py SCHEMATHESIS SECONDS

SCHEMATHESIS is that program, as `scripts/fuzz-api.sh` installs it; the engine is the one that `LEAFSEAL` names.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import api
from leafseal import Leafseal

APP = "app_fuzz"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,"
    "unsupported_method,allow_header_conformance,ignored_auth"
)


def main() -> int:
    program, seconds = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="leafseal-fuzz-") as folder:
        with api.running(Leafseal(Path(folder) / "store"), APP) as running:
            key = running.key()
            environment = {**os.environ, "REQUESTS_CA_BUNDLE": str(running.ca), "SSL_CERT_FILE": str(running.ca)}
            command = [program, "run", running.url + "/openapi.json", "--auth", f"{APP}:{key}", "--checks", CHECKS]
            command += ["--tls-verify", str(running.ca), "--max-time", seconds, "--continue-on-failure", "--seed", "17"]
            done = subprocess.run([*command, *("--phases", "coverage,fuzzing")], env=environment, cwd=folder, check=False)
            answer = running.curl("/encrypt", "-u", f"{APP}:{key}", "-H", "Content-Type: application/json", data=b'"after"')
            assert answer.status == 200, "the engine still works"
            return done.returncode


if __name__ == "__main__":
    sys.exit(main())
