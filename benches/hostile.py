#!/usr/bin/env python3
"""Latency of small requests under hostile load: the effect of a client that sends expensive bodies on all others.

For each listener (relay, API, RPC) a probe sends small requests at a steady rate, first on a quiet machine, then while 24 connections
send one kind of hostile body as fast as they are answered. Reported: p50 and p99 of the probe in both, their ratio, refusals and answers
of the attack, and the memory of the process that is attacked (resident, peak). Nothing is asserted.

    benches/hostile.py --leafseal target/release/leafseal [--seconds 10] [--scheduling idle] [--json]

All run on one machine, with cores of its own for the attackers (`probing.py`). "harmless" sends the same number of bodies of 64 KiB on a
route without rules, to compare with.
"""

import argparse
import base64
import gzip
import http.server
import json
import multiprocessing
import os
import signal
import socket
import socketserver
import struct
import subprocess
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

from probing import CORES_OF_ATTACKED, CORES_OF_ATTACKERS, at, connect, preferred, probe, tls

CONNECTIONS = 24
RELAY_CONF = """
[relay]
operator_address = "127.0.0.1:{operator}"
access_log = false
body_scheduling = "{scheduling}"
[engine]
addresses = ["{engine}"]
authorities = "certs/ca.pem"
certificate = "certs/relay.pem"
private_key = "certs/relay.key"
[[inbound]]
address = "127.0.0.1:{port}"
upstream = "http://127.0.0.1:{upstream}"
[[inbound.route]]
path = "/sealed/**"
app = "bench"
request = [{{ action = "encrypt", json = ["$.card"], form = ["card", "cvc", "holder", "number"] }}]
[[inbound.route]]
path = "/redacted/**"
request = [{{ action = "redact", json = ["$..[?match(@.a, '(a|b)*c')]"] }}]
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self) -> None:
        left = int(self.headers.get("content-length", 0))
        while left > 0:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = answer

    def log_message(self, *_: object) -> None:
        pass


class Upstreams(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(port: int) -> None:
    with preferred():
        Upstreams(("127.0.0.1", port), Upstream).serve_forever()


def many_gzip_members() -> bytes:
    return gzip.compress(b"", mtime=0) * 4000


def deflate_of_empty_blocks() -> bytes:
    body = b"\x00\x00\x00\xff\xff" * 200_000 + b"\x01\x00\x00\xff\xff"
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + body + struct.pack("<II", zlib.crc32(b""), 0)


def post(path: str, media_type: str, body: bytes, coding: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    return (head + (f"Content-Encoding: {coding}\r\n" if coding else "") + "\r\n").encode() + body


def relay_attacks() -> dict[str, bytes]:
    form, document = "application/x-www-form-urlencoded", "application/json"
    sealed = lambda *rest: post("/sealed/x", *rest)
    multipart = b"".join(b'--B\r\nContent-Disposition: form-data; name="x%d"\r\n\r\n\r\n' % at for at in range(9000)) + b"--B--\r\n"
    return {
        "harmless": post("/open", "application/octet-stream", b"x" * (64 << 10)),
        "gzip bomb, 64 KiB to 64 MiB": sealed(document, gzip.compress(b"0" * (64 << 20), mtime=0), "gzip"),
        "gzip bomb, 1 KiB to 1 MiB": sealed(document, gzip.compress(b"0" * (1 << 20), mtime=0), "gzip"),
        "gzip of empty members": sealed(document, many_gzip_members(), "gzip"),
        "gzip of empty blocks": sealed(document, deflate_of_empty_blocks(), "gzip"),
        "brotli, window of 1 GiB": sealed(document, b"\x11\x1e" + b"\xff" * 14, "br"),
        "form of 4 MiB of ;": sealed(form, b"a=" + b";" * (4 << 20)),
        "form of 16 KiB of ;": sealed(form, b"a=" + b";" * (16 << 10)),
        "form of 10,000 fields": sealed(form, b"&".join([b"card=4111"] * 10_000)),
        "multipart of 9,000 parts": sealed("multipart/form-data; boundary=B", multipart),
        "JSON of 16 MiB": sealed(document, b'{"card":1,"x":[' + b"0," * (8 << 20) + b"0]}"),
        "list of 8 million values, all selected": sealed(document, b'{"card":[' + b"0," * (8 << 20) + b"0]}"),
        "list of 100,000 values, all selected": sealed(document, b'{"card":[' + b"0," * 100_000 + b"0]}"),
        "filters over 1 MiB": post("/redacted/x", document, b"[" + b'{"a":"abababab"},' * 60_000 + b"0]"),
    }


def read_http(stream: socket.socket) -> int:
    """Reads one response to its end and returns its status."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = stream.recv(65536)
        if not piece:
            raise ConnectionError
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    left = length - len(rest)
    while left > 0:
        left -= len(stream.recv(min(left, 1 << 20)) or exit())
    return int(head.split(b" ")[1])


def read_rpc(stream: socket.socket) -> int:
    """Any bytes: a health answer is one record."""
    if not stream.recv(65536):
        raise ConnectionError
    return 200


def attack(port: int, message: bytes, read: Callable, identity: tuple | None, counts, until: float) -> None:
    os.sched_setaffinity(0, CORES_OF_ATTACKERS)
    context = tls(*identity) if identity else None
    while time.time() < until:
        try:
            with connect(port, context) as stream:
                while time.time() < until:
                    stream.sendall(message)
                    status = read(stream)
                    with counts.get_lock():
                        counts[0 if status < 300 else 1] += 1
        except OSError:
            with counts.get_lock():
                counts[2] += 1
            time.sleep(0.01)


def memory(pid: int) -> tuple[float, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    find = lambda name: next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
    return find("VmRSS"), find("VmHWM")


def measure(name: str, pid: int, target: dict, attacks: dict[str, bytes], seconds: float, show: Callable) -> list[dict]:
    port, identity, read = target["port"], target["identity"], target["read"]
    ask = lambda stream: (stream.sendall(target["probe"]), read(stream))
    probing = lambda: probe(port, tls(*identity) if identity else None, ask, seconds)
    quiet = probing()
    rows = []
    for kind, message in attacks.items():
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        counts = multiprocessing.Array("q", 3)
        until = time.time() + seconds + 1
        arguments = (port, message, read, identity, counts, until)
        attackers = [multiprocessing.Process(target=attack, args=arguments) for _ in range(CONNECTIONS)]
        for attacker in attackers:
            attacker.start()
        time.sleep(1)
        times = probing()
        resident, peak = memory(pid)
        for attacker in attackers:
            attacker.terminate()
            attacker.join()
        row = {
            "listener": name, "attack": kind, "bytes": len(message), "answered": counts[0], "refused": counts[1], "broken": counts[2],
            "quiet_p50_ms": at(quiet, 0.5), "quiet_p99_ms": at(quiet, 0.99), "p50_ms": at(times, 0.5), "p99_ms": at(times, 0.99),
            "ratio": at(times, 0.99) / at(quiet, 0.99), "resident_mib": resident, "peak_mib": peak,
        }
        rows.append(row)
        show(row)
        time.sleep(1)
    return rows


def show_text(row: dict) -> None:
    print(
        f"| {row['listener']} | {row['attack']} | {row['answered']:,} | {row['refused'] + row['broken']:,} | {row['quiet_p99_ms']:.1f} | "
        f"{row['p50_ms']:.1f} | {row['p99_ms']:.1f} | {row['ratio']:.1f} | {row['resident_mib']:.0f} | {row['peak_mib']:.0f} |",
        flush=True,
    )


def run(chosen: argparse.Namespace, folder: Path) -> list[dict]:
    os.sched_setaffinity(0, CORES_OF_ATTACKED)
    store = folder / "store"
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: object) -> subprocess.Popen[bytes]:
        command = [str(chosen.leafseal), "--dir", str(store), *map(str, words)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=(folder / "log").open("ab")))
        return started[-1]

    def issue(*words: str) -> str:
        command = [str(chosen.leafseal), "--dir", str(store), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    upstream_port, relay_port, operator_port = free_port(), free_port(), free_port()
    upstream = multiprocessing.Process(target=serve, args=(upstream_port,), daemon=True)
    upstream.start()
    try:
        engine = start("dev", "--app", "bench", "--port", 0, "--api-port", 0, "--no-relay", "--json")
        ready = json.loads(engine.stdout.readline())
        issue("certs", "issue", "relay", "--app", "bench", "--allow", "encrypt,decrypt")
        key = issue("api-keys", "create", "bench", "--allow", "encrypt,decrypt,inspect").strip()
        engine_address = "localhost:" + ready["address"].rsplit(":", 1)[1]
        (store / "relay.toml").write_text(
            RELAY_CONF.format(
                scheduling=chosen.scheduling, operator=operator_port, engine=engine_address, port=relay_port, upstream=upstream_port
            )
        )
        relay = start("relay", "--json")
        relay.stdout.readline()
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{operator_port}/readyz", timeout=1).read()
                break
            except OSError:
                time.sleep(0.1)
        if not chosen.json:
            print("| listener | body | answered | refused | quiet p99 ms | p50 ms | p99 ms | ratio | resident MiB | peak MiB |")
            print("|---" * 10 + "|")
        show = (lambda row: None) if chosen.json else show_text
        wanted = lambda attacks: {kind: body for kind, body in attacks.items() if chosen.only in kind}
        get = b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"
        target = {"port": relay_port, "identity": None, "read": read_http, "probe": get}
        rows = measure("relay", relay.pid, target, wanted(relay_attacks()), chosen.seconds, show)

        authority = str(store / "certs" / "ca.pem")
        basic = base64.b64encode(f"bench:{key}".encode()).decode()
        call = lambda path, body: post(path, "application/json", body).replace(
            b"\r\n\r\n", f"\r\nAuthorization: Basic {basic}\r\n\r\n".encode(), 1
        )
        api = {"port": int(ready["api"].rsplit(":", 1)[1]), "identity": (authority, None, None), "read": read_http}
        api["probe"] = b"GET /keys HTTP/1.1\r\nHost: a\r\nX-Evervault-App-Id: bench\r\n\r\n"
        api_attacks = {
            "JSON of 16 MiB, encrypt": call("/encrypt", b"[" + b"0," * (8 << 20) + b"0]"),
            "JSON of 16 MiB, no scalar": call("/encrypt", b"[" + b"[]," * (5 << 20) + b"[]]"),
            "inspect of 1 MiB": call("/inspect", b"[" * 500 + b'"' + b"x" * (1 << 20)),
            "no credentials, 16 MiB": post("/encrypt", "application/json", b"[" + b"0," * (8 << 20) + b"0]"),
        }
        rows += measure("API", engine.pid, api, wanted(api_attacks), chosen.seconds, show)

        identity = (authority, str(store / "certs" / "relay.pem"), str(store / "certs" / "relay.key"))
        rpc = {"port": int(ready["address"].rsplit(":", 1)[1]), "identity": identity, "read": read_rpc}
        rpc["probe"] = b"\x94\x00\x07\xa6health\x91\x80"
        head = b"\x94\x00\x01\xa7encrypt\x91\x82\xa3app\xa5bench\xa6values"
        rpc_attacks = {
            "64 MiB of nil": head + struct.pack(">BI", 0xDD, 16 << 20) + b"\xc0" * (16 << 20) + b"\xc1",
            "64 MiB in one value": head + struct.pack(">BBI", 0x91, 0xDB, 64 << 20) + b"x" * (64 << 20),
            "4 million empty strings": head + struct.pack(">BI", 0xDD, 4 << 20) + b"\xa0" * (4 << 20),
        }
        rows += measure("RPC", engine.pid, rpc, wanted(rpc_attacks), chosen.seconds, show)
        return rows
    finally:
        upstream.terminate()
        for process in reversed(started):
            process.send_signal(signal.SIGINT)
        for process in started:
            process.wait(timeout=60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leafseal", type=Path, default=Path("target/release/leafseal"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default="", help="attacks whose name has this in it")
    parser.add_argument("--scheduling", choices=["normal", "idle"], default="normal", help="of the relay's threads that work on bodies")
    parser.add_argument("--json", action="store_true", help="one JSON array in place of the table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(chosen, Path(folder))
    if chosen.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
