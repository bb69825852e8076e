"""`engine.wipe_buffers` and a relay's `wipe_buffers`: plaintext that remains in the memory of both programs after requests.

Without the setting the same search must find plaintext, which shows that the search works.
"""

import base64
import contextlib
import json
import os
import secrets
import ssl
import urllib.request
from pathlib import Path

import pytest

import engine as engines
import relays
import upstream
from leafseal import Leafseal
from relay_parts import rule

APP = "acme"
VALUES = 500
REQUESTS = 20

# The programs are not dumpable, so only root can read their memory.
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the memory of a process that turned core dumps off")


def occurrences(process: int, wanted: bytes) -> int:
    """Counts `wanted` in the writable memory of the process."""
    found = 0
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            place, rights, *_ = line.split()
            begin, end = (int(address, 16) for address in place.split("-"))
            if rights.startswith("rw") and "[v" not in line:
                found += _read(memory, begin, end).count(wanted)
    return found


def _read(memory: object, begin: int, end: int) -> bytes:
    pieces = []
    while begin < end:
        memory.seek(begin)
        try:
            piece = memory.read(min(end - begin, 1 << 24))
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
        begin += len(piece)
    return b"".join(pieces)


def document(marker: str) -> bytes:
    return json.dumps({"cards": [f"{marker}-{index}" for index in range(VALUES)]}).encode()


def use_rpc(engine: engines.Engine, marker: str) -> None:
    values = json.loads(document(marker))["cards"]
    with engine.connect() as client:
        for _ in range(REQUESTS):
            sealed = client.call("encrypt", app=APP, values=values)["values"]
            assert client.call("decrypt", app=APP, values=sealed)["values"] == values
            text = client.call("encrypt_document", app=APP, document=document(marker))["document"]
            assert client.call("decrypt_document", app=APP, document=text)["document"] == document(marker)


def use_api(engine: engines.Engine, marker: str) -> None:
    key = engine.leafseal.run("api-keys", "create", APP, "--allow", "encrypt,decrypt").decode().strip()
    context = ssl.create_default_context(cafile=engine.ca)
    credentials = base64.b64encode(f"{APP}:{key}".encode()).decode()

    def post(path: str, body: bytes) -> bytes:
        request = urllib.request.Request(f"https://{engine.ready['api']}{path}", body, method="POST")
        request.add_header("Authorization", f"Basic {credentials}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.read()

    for _ in range(REQUESTS):
        assert post("/decrypt", post("/encrypt", document(marker))) == document(marker)


def use_relay(relay: relays.Relay, marker: str) -> None:
    for _ in range(REQUESTS):
        request = urllib.request.Request(relay.at("in", False).url("/cards"), document(marker), method="POST")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200


def left_in_memory(folder: Path, wipes: bool) -> dict[str, int]:
    """Counts the remaining plaintexts of many requests, by listener."""
    leafseal = Leafseal(folder / "store")
    leafseal.create(APP)
    leafseal.run("certs", "init")
    leafseal.run("certs", "issue", "relay", "--app", APP, "--allow", "encrypt,decrypt")
    markers = {listener: secrets.token_hex(16) for listener in ("rpc", "api", "relay")}
    engine = engines.start(leafseal, APP, 0, *(["engine.wipe_buffers=true"] if wipes else []))
    try:
        with upstream.running() as behind:
            text = relays.process_section(wipe_buffers=wipes) + relays.engine_section(engine)
            text += relays.section("[inbound]", name="in", address="127.0.0.1:0", upstream=behind.url)
            text += relays.section("[inbound.route]", app=APP, path="/cards", request=[rule("encrypt", json=["$.cards[*]"])])
            with relays.running(leafseal, folder, text) as relay:
                use_rpc(engine, markers["rpc"])
                use_api(engine, markers["api"])
                use_relay(relay, markers["relay"])
                processes = {"rpc": engine.process, "api": engine.process, "relay": relay.process}

                def found() -> dict[str, int]:
                    return {listener: occurrences(processes[listener].pid, markers[listener].encode()) for listener in markers}

                if wipes:
                    # Buffers of a recently closed connection may still be in use; the rest is counted below.
                    with contextlib.suppress(AssertionError):
                        upstream.wait_until(lambda: not any(found().values()), 20)
                return found()
    finally:
        engines.kill(engine)


def test_freed_memory_keeps_plaintext_unless_it_is_wiped(tmp_path: Path) -> None:
    assert all(left_in_memory(tmp_path / "kept", False).values())


def test_no_plaintext_is_left_in_memory_that_is_wiped(tmp_path: Path) -> None:
    assert left_in_memory(tmp_path / "wiped", True) == {"rpc": 0, "api": 0, "relay": 0}
