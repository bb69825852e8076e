"""Starts an engine, an upstream and a relay as the interop tests do, and runs h2spec against the relay's TLS listener.

h2spec.py PATH-OF-H2SPEC [h2spec arguments]
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "interop"))

import engine as engines  # noqa: E402
import relay_parts  # noqa: E402
import relays  # noqa: E402
import upstream as upstreams  # noqa: E402
from leafseal import Leafseal  # noqa: E402

ANSWER_SIZE = 100_000


def main() -> int:
    program, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        leafseal = Leafseal(folder / "store")
        pki = relay_parts.make_pki(folder)
        with (
            engines.running(leafseal, relay_parts.APP) as engine,
            upstreams.running() as plain,
            upstreams.running(pki.server.context("http/1.1")) as tls,
        ):
            # Longer than a stream's first window: what is sent about a stream must not come after its end.
            plain.answer = lambda _: upstreams.ok(bytes(ANSWER_SIZE))
            leafseal.run("certs", "issue", "relay", "--app", relay_parts.APP, "--allow", "encrypt,decrypt")
            text = relay_parts.inbound(pki, plain, tls, engine)
            with relays.running(leafseal, folder, text) as relay:
                return _run(program, relay.at("tls").port, folder / "report.xml", arguments)


def _run(program: str, port: int, report: Path, arguments: list[str]) -> int:
    target = [
        "--tls",
        "--insecure",
        "--host",
        "localhost",
        "--port",
        str(port),
        "--path",
        "/conformance",
        "--timeout",
        "5",
    ]
    subprocess.run([program, *target, "--junit-report", str(report), *arguments], check=False)
    failed, count = [], 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        cases = list(suite.iter("testcase"))
        count += len(cases)
        failed += [
            f"{suite.get('package')}: {case.get('classname')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        ]
    for case in failed:
        print(f"FAILED: {case}")
    if count == 0:
        print("no case was run", file=sys.stderr)
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
