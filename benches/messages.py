#!/usr/bin/env python3
"""CPU time of a relay for one message of 1 MB, by its content and the rules that read it.

    benches/messages.py --leafseal target/release/leafseal [--rounds 7] [--json]

Each message is sent several times alone through a relay to an upstream on this machine; the least CPU time of all threads of the relay
is reported, and what it has above the same message on a route without rules. Messages of many small parts cost most: their bound is the
formula of docs/relay-http.md. Nothing is asserted.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

SIZE = 1 << 20
JSON, LINES, FORM = "application/json", "application/x-ndjson", "application/x-www-form-urlencoded"
RULES = {
    "none": None,
    "names": '{ action = "redact", json = ["$.card.number"] }',
    "filter": '{ action = "redact", json = ["$.payments[?@.kind == \'card\'].number"] }',
    "from the end": '{ action = "redact", json = ["$.cards[-1].number"] }',
    "form": '{ action = "redact", form = ["card_number"], json = ["$.card.number"] }',
}
CONFIGURATION = """
[relay]
operator_address = "127.0.0.1:0"
access_log = false
[engine]
addresses = ["127.0.0.1:1"]
authorities = "certs/ca.pem"
certificate = "certs/dev.pem"
private_key = "certs/dev.key"
[[inbound]]
name = "front"
address = "127.0.0.1:0"
upstream = "http://127.0.0.1:{upstream}"
unmatched = "pass"
"""
ROUTE = """
[[inbound.route]]
app = "app_dev"
path = "/{place}"
request = [{rule}]
"""


def filled(line: str) -> bytes:
    return (line * (SIZE // len(line))).encode()


def listed(item: str) -> str:
    """As many items as fit, separated by commas; `{}` in one is its number, and `\\0` and `\\1` are braces."""
    count = SIZE // (len(item.format(99999)) + 1)
    return ",".join(item.format(at) for at in range(count)).translate({0: "{", 1: "}"})


MESSAGES = {
    "a text": (JSON, ('{"x":"' + "a" * (SIZE - 10) + '"}').encode()),
    "a list of lists": (JSON, ("[" + listed("[1]") + "]").encode()),
    "objects": (JSON, ("[" + listed('\0"a":{}\1') + "]").encode()),
    "names like paths": (JSON, ("{" + listed('"a{}.b":1') + "}").encode()),
    "strings that begin like JSON": (JSON, ("[" + listed('"[{}"') + "]").encode()),
    "lines 1": (LINES, filled("1\n")),
    "lines {}": (LINES, filled("{}\n")),
    'lines "a"': (LINES, filled('"a"\n')),
    "lines [1]": (LINES, filled("[1]\n")),
    'lines {"a":1}': (LINES, filled('{"a":1}\n')),
    "lines with an escape": (LINES, filled('{"\\n":1}\n')),
    "lines that a filter visits": (LINES, filled('{"payments":[{"number":1}]}\n')),
    "short fields": (FORM, filled("a=1&")),
    "names with brackets": (FORM, filled("a[b][c]=1&")),
}


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def cpu_ms(process: int) -> float:
    """CPU time of all threads so far."""
    total = 0
    for thread in os.listdir(f"/proc/{process}/task"):
        try:
            total += int(Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e6


def measure(process: int, port: int, path: str, message: tuple[str, bytes], rounds: int) -> tuple[int, float]:
    """The status, and the least CPU time."""
    least, status = float("inf"), 0
    for _ in range(rounds):
        before = cpu_ms(process)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", path, message[1], {"Content-Type": message[0]})
        answer = connection.getresponse()
        answer.read()
        status = answer.status
        connection.close()
        # What is left after the answer.
        time.sleep(0.02)
        least = min(least, cpu_ms(process) - before)
    return status, least


def run(leafseal: str, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    result: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Its certificates are all that is needed: no rule calls an engine.
        command = [leafseal, "--dir", folder, "dev", "--port", str(port), "--no-relay", "--json"]
        settings = ["--set", "operator.address=127.0.0.1:0", "--set", "api.address=127.0.0.1:0"]
        engine = subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert engine.stdout is not None
        engine.stdout.readline()
        engine.terminate()
        engine.wait()
        routes = [ROUTE.format(place=place, rule=rule) for place, rule in enumerate(RULES.values()) if rule]
        Path(folder, "relay.toml").write_text(CONFIGURATION.format(upstream=upstream.server_address[1]) + "".join(routes))
        relay = subprocess.Popen([leafseal, "--dir", folder, "relay", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert relay.stdout is not None
        address = json.loads(relay.stdout.readline())
        front = int(address["front"].rsplit(":", 1)[1])
        try:
            for name, message in MESSAGES.items():
                row = result.setdefault(name, {})
                for place, (rule, text) in enumerate(RULES.items()):
                    # Other rules refuse forms unread.
                    if message[0] == FORM and text and "form" not in text:
                        continue
                    status, spent = measure(relay.pid, front, f"/{place}", message, rounds)
                    row[rule] = {"status": status, "ms": round(spent, 1)}
        finally:
            relay.terminate()
            relay.wait()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leafseal", default="target/release/leafseal")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    arguments = parser.parse_args()
    result = run(arguments.leafseal, arguments.rounds)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print("CPU time of one message of 1 MB in ms, without rules and what rules add; (status) where it is refused\n")
    print(f"{'':30}" + "".join(f"{rule:>16}" for rule in RULES))
    for name, row in result.items():
        base = row["none"]["ms"]
        cells = [f"{base:.1f}"]
        for rule in list(RULES)[1:]:
            if rule not in row:
                cells.append("")
                continue
            mark = "" if row[rule]["status"] == 200 else f" ({row[rule]['status']:.0f})"
            cells.append(f"{row[rule]['ms'] - base:+.1f}{mark}")
        print(f"{name:30}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
