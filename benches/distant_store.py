#!/usr/bin/env python3
"""Rate of authenticated, cached calls while strangers make the engine read a distant keystore.

An engine of one worker on PostgreSQL, behind a proxy that delays each direction by half of the distance, or forwards nothing at all. Four
connections with an API key encrypt a small document over and over, which needs no look-up; 64 connections without credentials ask for the
public keys of invented apps, and show invented API keys, as fast as they are answered. The rate is compared with that beside the same
strangers and a database 0 ms away. Nothing is asserted.

    benches/distant_store.py --leafseal target/release/leafseal [--seconds 10] [--rounds 2] [--json]

Needs PostgreSQL (`initdb` and `postgres` in PATH or in /usr/lib/postgresql). Everything runs on this machine.
"""

import argparse
import asyncio
import base64
import contextlib
import http.client
import json
import multiprocessing
import os
import pwd
import secrets
import signal
import socket
import ssl
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

CALLERS = 4
STRANGERS = 64
STRANGERS_PER_PROCESS = 16
BODY = json.dumps({"card": "4111111111111111", "name": "A. B.", "n": 1}).encode()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def program(name: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else name


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[int]:
    """A server without TLS that trusts local connections; it refuses to run as root."""
    user = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam("postgres")
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    data, port = folder / "data", free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    subprocess.run([program("initdb"), "-D", data, "-U", "leafseal", "--auth=trust"], check=True, **quiet, **user)
    command = [program("postgres"), "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"]
    server = subprocess.Popen(command, **quiet, **user)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        subprocess.run([program("createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "leafseal", "leafseal"], check=True)
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


class Proxy:
    """Forwards to the database on a thread of its own, later or not at all."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self.delay_s, self.is_hanging = 0.0, False
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()

    async def serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self.accept, "127.0.0.1", self.port)
        ready.set()
        await server.serve_forever()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self.forward(reader, there_writer), self.forward(there_reader, writer))

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each piece is due by itself, so that pieces in flight do not wait for one another."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def write() -> None:
            while True:
                due, piece = await pieces.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                while self.is_hanging:
                    await asyncio.sleep(0.01)
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
            writer.close()

        writing = asyncio.create_task(write())
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                pieces.put_nowait((time.monotonic() + self.delay_s, piece))
        pieces.put_nowait((0.0, b""))
        with contextlib.suppress(OSError):
            await writing


def context(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


def call_over_and_over(port: int, authority: str, basic: str, until: float, counted: multiprocessing.Queue) -> None:
    """The authenticated callers: one process, a thread for each."""
    counts = [0] * CALLERS
    fields = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}

    def call(at: int) -> None:
        connection = http.client.HTTPSConnection("localhost", port, context=context(authority), timeout=60)
        while time.time() < until:
            connection.request("POST", "/encrypt", BODY, fields)
            answer = connection.getresponse()
            answer.read()
            counts[at] += answer.status == 200

    threads = [threading.Thread(target=call, args=(at,)) for at in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted.put(sum(counts))


async def stranger(port: int, authority: str, until: float, shows_key: bool) -> int:
    answered = 0
    while time.time() < until:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context(authority), server_hostname="localhost")
            while time.time() < until:
                invented = secrets.token_hex(8)
                if shows_key:
                    key = base64.b64encode(f"bench:lsk_{invented}_{secrets.token_hex(32)}".encode()).decode()
                    head = f"POST /encrypt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {key}\r\nContent-Length: 0\r\n\r\n"
                else:
                    head = f"GET /keys HTTP/1.1\r\nHost: a\r\nX-Evervault-App-Id: app_{invented}\r\n\r\n"
                writer.write(head.encode())
                async with asyncio.timeout(max(0.1, until - time.time())):
                    answer = await reader.readuntil(b"\r\n\r\n")
                    size = next(int(line.split(b":")[1]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
                    await reader.readexactly(size)
                answered += 1
            writer.close()
    return answered


def strangers(port: int, authority: str, until: float, counted: multiprocessing.Queue) -> None:
    async def run() -> int:
        return sum(await asyncio.gather(*(stranger(port, authority, until, at % 2 == 1) for at in range(STRANGERS_PER_PROCESS))))

    os.nice(5)
    counted.put(asyncio.run(run()))


def measure(port: int, authority: str, basic: str, seconds: float) -> tuple[float, float]:
    """Calls a second of the authenticated callers, and answers a second to the strangers."""
    known, others = multiprocessing.Queue(), multiprocessing.Queue()
    until = time.time() + seconds
    processes = [multiprocessing.Process(target=call_over_and_over, args=(port, authority, basic, until, known))]
    for _ in range(STRANGERS // STRANGERS_PER_PROCESS):
        processes.append(multiprocessing.Process(target=strangers, args=(port, authority, until, others)))
    for process in processes:
        process.start()
    rate = known.get() / seconds
    answered = sum(others.get() for _ in processes[1:]) / seconds
    for process in processes:
        process.join()
    return rate, answered


def run(chosen: argparse.Namespace, folder: Path) -> list[dict]:
    store = folder / "store"
    database = folder / "database"
    database.mkdir()
    with postgres(database) as database_port:
        proxy = Proxy(database_port)
        store.mkdir(mode=0o700)
        (store / "leafseal.toml").write_text(
            f'[keystore]\nurl = "postgres://leafseal@127.0.0.1:{proxy.port}/leafseal"\nsslmode = "disable"\n'
        )
        base = [str(chosen.leafseal), "--dir", str(store), "--config", str(store / "leafseal.toml")]

        def issue(*words: str) -> str:
            return subprocess.run([*base, *words], check=True, capture_output=True, text=True).stdout

        issue("keys", "create", "bench")
        issue("certs", "init", "--name", "localhost")
        key = issue("api-keys", "create", "bench", "--allow", "encrypt,decrypt").strip()
        basic = base64.b64encode(f"bench:{key}".encode()).decode()
        words = ["serve", "--json", "--address", "127.0.0.1:0", "--api", "127.0.0.1:0", "--set", "server.workers=1"]
        with (folder / "log").open("wb") as log:
            engine = subprocess.Popen([*base, *words], stdout=subprocess.PIPE, stderr=log)
        try:
            ready = json.loads(engine.stdout.readline())
            port, authority = int(ready["api"].rsplit(":", 1)[1]), str(store / "certs" / "ca.pem")
            measure(port, authority, basic, 1)
            rates: dict[str, list[tuple[float, float]]] = {"0 ms": [], "10 ms": [], "hanging": []}
            for _ in range(chosen.rounds):
                for distance, measured in rates.items():
                    proxy.delay_s = 0.005 if distance == "10 ms" else 0.0
                    proxy.is_hanging = distance == "hanging"
                    measured.append(measure(port, authority, basic, chosen.seconds))
                    proxy.is_hanging = False
                    proxy.delay_s = 0.0
                    time.sleep(3)
        finally:
            engine.send_signal(signal.SIGINT)
            engine.wait(timeout=60)
    middle = lambda measured, at: statistics.median(pair[at] for pair in measured)
    beside = middle(rates["0 ms"], 0)
    return [
        {"database": distance, "calls_per_s": middle(measured, 0), "strangers_per_s": middle(measured, 1), "share": middle(measured, 0) / beside}
        for distance, measured in rates.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leafseal", type=Path, default=Path("target/release/leafseal"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON array in place of the table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        rows = run(chosen, Path(folder))
    if chosen.json:
        print(json.dumps(rows))
        return
    print("| database | authenticated calls/s | answers to strangers/s | share of 0 ms |")
    print("|---" * 4 + "|")
    for row in rows:
        print(f"| {row['database']} | {row['calls_per_s']:,.0f} | {row['strangers_per_s']:,.0f} | {row['share']:.2f} |")


if __name__ == "__main__":
    main()
