"""Key slots that the Transit secrets engine of OpenBao keeps, and servers that are down, hang, or answer wrongly."""

import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

import engine as engines
import leafseal as program
import openbao
import pages
from certificates import Authority
from leafseal import CommandFailed, Leafseal
from openbao import OpenBao
from ports import free_ports

GUIDE = pages.ROOT / "docs/guides/key-ceremonies.md"
APP = "acme"


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBao]:
    with openbao.running(tmp_path_factory.mktemp("openbao")) as server:
        server.call("POST", "sys/mounts/transit", {"type": "transit"})
        server.call("POST", "transit/keys/leafseal")
        yield server


@pytest.fixture
def store(empty: Leafseal, bao: OpenBao) -> Leafseal:
    """A keystore with the app APP and a slot in `bao`, and settings that name it. Without its root key."""
    empty.create(APP)
    configure(empty, bao.url, bao.ca, bao.token("encrypt", "decrypt"))
    empty.run("slot", "add", "--transit")
    (empty.folder / "root.key").rename(empty.folder / "offline.key")
    return empty


def configure(leafseal: Leafseal, url: str, ca: Path, token: str, timeout: str = "5s") -> None:
    """Settings that name a server."""
    write_token(leafseal, token)
    lines = ("[transit]", f'url = "{url}"', 'token_file = "token"', f'authorities = "{ca}"', f'timeout = "{timeout}"')
    (leafseal.folder / "leafseal.toml").write_text("\n".join(lines) + "\n")


def write_token(leafseal: Leafseal, token: str) -> None:
    path = leafseal.folder / "token"
    path.write_text(token + "\n")
    path.chmod(0o600)


def refusal(leafseal: Leafseal, *arguments: str) -> str:
    """The message with which opening the store fails."""
    with pytest.raises(CommandFailed) as failed:
        leafseal.run(*(arguments or ("store", "check")))
    assert failed.value.code == 3
    return failed.value.message


def test_a_slot_opens_the_keystore_without_the_root_key(store: Leafseal) -> None:
    store.run("store", "check")
    slots = store.run("slot", "list").decode().splitlines()
    assert [line.split()[1] for line in slots].count("transit") == 1
    assert any(line.endswith("leafseal") for line in slots)
    # A new root is sealed to it without a call.
    store.run("slot", "rotate-root", "--link-seconds", "0")
    store.run("store", "check")
    assert store.decrypt(APP, store.encrypt(APP, b'["x"]')) == b'["x"]'


def test_a_running_engine_does_not_need_the_service(empty: Leafseal, tmp_path: Path) -> None:
    with openbao.running(tmp_path) as server:
        server.call("POST", "sys/mounts/transit", {"type": "transit"})
        server.call("POST", "transit/keys/leafseal")
        empty.create(APP)
        configure(empty, server.url, server.ca, server.token("encrypt", "decrypt"))
        empty.run("slot", "add", "--transit")
        key = empty.folder / "root.key"
        key.rename(empty.folder / "offline.key")
        with engines.running(empty, APP) as engine:
            server.stop()
            assert "it cannot be reached" in refusal(empty)
            other = ("--set", "keystore.root_key_file=offline.key")
            # A change of the keystore, and a new root, which the engine follows.
            empty.run("keys", "create", "new-app", *other)
            empty.run("slot", "rotate-root", "--link-seconds", "5", *other)
            with engine.connect() as client:
                sealed = client.call("encrypt", app=APP, values=["x"])["values"]
                assert client.call("decrypt", app=APP, values=sealed)["values"] == ["x"]


def test_a_slot_moved_to_another_place_is_refused(store: Leafseal) -> None:
    database = sqlite3.connect(store.folder / "keystore.db")
    with database:
        database.execute("UPDATE slot SET id = '0011223344556677' WHERE kind = 'transit'")
    database.close()
    message = refusal(store)
    assert "message authentication failed" in message and "0011223344556677" in message


def test_a_row_cannot_choose_the_server_the_path_or_the_body(store: Leafseal) -> None:
    database = sqlite3.connect(store.folder / "keystore.db")
    with database:
        database.execute("UPDATE slot SET key_name = '../../sys/mounts' WHERE kind = 'transit'")
    assert "(transit ../../sys/mounts)" in refusal(store)
    with database:
        wrapped = b'vault:v1:AA=="},"x":{"'
        database.execute("UPDATE slot SET key_name = 'leafseal', wrapped_secrets = ? WHERE kind = 'transit'", (wrapped,))
    database.close()
    assert "it does not open the slot" in refusal(store)


def test_tokens_need_the_right_to_decrypt_and_to_make_slots_to_encrypt(store: Leafseal, bao: OpenBao) -> None:
    write_token(store, bao.token())
    assert "update on transit/decrypt/leafseal" in refusal(store)
    # The file is read for each call.
    write_token(store, bao.token("decrypt"))
    store.run("store", "check")
    assert "update on transit/encrypt/leafseal" in refusal(store, "slot", "add", "--transit")
    (store.folder / "token").chmod(0o644)
    assert "chmod 600" in refusal(store)


def test_a_key_rotated_in_the_service_opens_slots_of_its_older_versions(store: Leafseal, bao: OpenBao) -> None:
    bao.call("POST", "transit/keys/leafseal/rotate")
    store.run("store", "check")
    slot = next(line.split()[0] for line in store.run("slot", "list").decode().splitlines() if "transit" in line)
    store.run("slot", "add", "--transit", "--replace", slot)
    version = bao.call("GET", "transit/keys/leafseal")["data"]["latest_version"]
    bao.call("POST", "transit/keys/leafseal/config", {"min_decryption_version": version})
    try:
        store.run("store", "check")
    finally:
        bao.call("POST", "transit/keys/leafseal/config", {"min_decryption_version": 1})


def test_a_key_without_associated_data_makes_no_slot(store: Leafseal, bao: OpenBao) -> None:
    bao.call("POST", "transit/keys/rsa", {"type": "rsa-2048"})
    (store.folder / "offline.key").rename(store.folder / "root.key")
    write_token(store, openbao.ROOT_TOKEN)
    assert "aes256-gcm96" in refusal(store, "slot", "add", "--transit", "--set", "transit.key=rsa")


def test_a_server_of_another_authority_gets_no_token(store: Leafseal, tmp_path: Path) -> None:
    ca = Authority.fresh().write(tmp_path)
    assert "its certificate was refused" in refusal(store, "store", "check", "--set", f"transit.authorities={ca}")


@contextmanager
def classic_tls(folder: Path) -> Iterator[tuple[str, Path]]:
    """A server whose key exchange is on P-256: its URL and its authority."""
    authority = Authority.fresh()
    certificate = authority.issue_server(folder, "classic", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    context.set_ecdh_curve("prime256v1")

    def serve(peer: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(peer, server_side=True) as stream:
            stream.recv(65536)
            stream.sendall(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")

    with listening(serve) as (port, _):
        yield f"https://127.0.0.1:{port}", authority.write(folder)


def test_a_hybrid_key_exchange_can_be_required(store: Leafseal, tmp_path: Path) -> None:
    hybrid = ("--set", "transit.tls_require=hybrid")
    store.run("store", "check", *hybrid)
    with classic_tls(tmp_path) as (url, ca):
        server = ("--set", f"transit.url={url}", "--set", f"transit.authorities={ca}")
        assert "503" in refusal(store, "store", "check", *server), "it is spoken to"
        assert "a server without X25519MLKEM768" in refusal(store, "store", "check", *server, *hybrid)


def test_a_server_that_is_down_is_named_and_another_slot_opens(store: Leafseal) -> None:
    port = free_ports(1)[0]
    down = ("--set", f"transit.url=https://127.0.0.1:{port}")
    message = refusal(store, "store", "check", *down)
    assert f"transit at 127.0.0.1:{port}: it cannot be reached" in message
    store.run("store", "check", *down, "--set", "keystore.root_key_file=offline.key")


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[tuple[int, list[int]]]:
    """A server that handles its connections with `serve`: its port, and a list that grows by an element for each."""
    connections: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                connections.append(len(connections))
                threading.Thread(target=serve, args=(peer,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], connections
        listener.shutdown(socket.SHUT_RDWR)


def test_a_server_that_hangs_is_left_at_the_deadline_once_for_all_slots(store: Leafseal) -> None:
    store.run("slot", "add", "--transit")
    kept: list[socket.socket] = []
    with listening(kept.append) as (port, connections):
        message = refusal(store, "store", "check", "--set", f"transit.url=https://127.0.0.1:{port}", "--set", "transit.timeout=300ms")
        assert "did not answer within 300ms" in message
        assert len(connections) == 1, "an unavailable provider is asked for one slot"
    for peer in kept:
        peer.close()


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n" + b"x" * 100_000, "its answer is larger than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100_000, "HTTP failed"),
        (b"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "it redirects"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}', "check transit.mount"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 29\r\n\r\n{"data":{"plaintext":"AAAA"}}', "it does not open the slot"),
        (b"SSH-2.0-x\r\n", "HTTP failed"),
        (b"", "HTTP failed"),
    ],
    ids=["large", "large-head", "redirect", "empty", "other-plaintext", "no-http", "closed"],
)
def test_wrong_answers_are_refused_within_bounds(store: Leafseal, tmp_path: Path, answer: bytes, part: str) -> None:
    authority = Authority.fresh()
    context = authority.issue_server(tmp_path, "server", ["127.0.0.1"]).context()

    def serve(peer: socket.socket) -> None:
        with peer, suppress(OSError), context.wrap_socket(peer, server_side=True) as stream:
            stream.recv(65536)
            stream.sendall(answer)

    with listening(serve) as (port, _):
        server = ("--set", f"transit.url=https://127.0.0.1:{port}", "--set", f"transit.authorities={authority.write(tmp_path)}")
        assert part in refusal(store, "store", "check", *server)


def test_info_names_the_kinds_of_slots(empty: Leafseal) -> None:
    assert b"transit" in empty.run("info")


def test_every_command_of_the_ceremony_works(tmp_path: Path) -> None:
    """The blocks `sh transit` of docs/guides/key-ceremonies.md, against a server without a Transit secrets engine."""
    blocks = pages.blocks(GUIDE.read_text())
    script = "".join(block.text for block in blocks if (block.language, block.name) == ("sh", "transit"))
    assert "slot add --transit" in script
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bao").symlink_to(openbao.binary())
    paths = [str(tmp_path / "bin"), str(program.binary().parent), os.environ["PATH"]]
    with openbao.running(tmp_path) as bao:
        script = script.replace("https://bao.internal:8200", bao.url).replace("/etc/ssl/bao-ca.pem", str(bao.ca))
        script = "set -euo pipefail\nleafseal keys create acme\n" + script
        environment = {**os.environ, **bao.environment(), "PATH": os.pathsep.join(paths), "HOME": str(tmp_path)}
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")


@contextmanager
def forwarded(port: int, to: int) -> Iterator[None]:
    """Connections to a port of this machine reach another."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def handle(peer: socket.socket) -> None:
        with peer, socket.create_connection(("127.0.0.1", to)) as behind:
            back = threading.Thread(target=copy, args=(behind, peer), daemon=True)
            back.start()
            copy(peer, behind)
            back.join()

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=handle, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def paused(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def serving_sealed(leafseal: Leafseal, log: Path) -> Iterator[dict[str, str]]:
    """The line that a sealed engine prints when it listens."""
    settings = ("--set", "operator.address=127.0.0.1:0", "--set", "log.format=json")
    command = leafseal.command(*settings, "serve", "--sealed", "--json", "--address", "127.0.0.1:0")
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield json.loads(line)
    finally:
        process.kill()
        process.communicate()


def readiness(ready: dict[str, str]) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{ready['operator']}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def encrypts(leafseal: Leafseal, ready: dict[str, str]) -> bool:
    flags = ("--connect", ready["address"].replace("127.0.0.1", "localhost"), "--client", "app")
    with suppress(CommandFailed):
        return b"ev:" in leafseal.run("encrypt", "--app", APP, *flags, stdin=b'"x"')
    return False


@pytest.mark.parametrize("how", ["away", "hanging"])
def test_a_sealed_engine_opens_by_itself_when_the_service_comes_back(store: Leafseal, bao: OpenBao, tmp_path: Path, how: str) -> None:
    (store.folder / "offline.key").rename(store.folder / "root.key")
    store.run("certs", "init", "--name", "localhost")
    store.run("certs", "issue", "app", "--app", APP, "--allow", "encrypt")
    (store.folder / "root.key").rename(store.folder / "offline.key")
    port = free_ports(1)[0]
    log = tmp_path / "sealed.log"
    behind = int(bao.url.rsplit(":", 1)[1])
    if how == "away":
        settings = store.folder / "leafseal.toml"
        settings.write_text(settings.read_text().replace(bao.url, f"https://127.0.0.1:{port}"))
    with ExitStack() as end:
        with paused(bao.process) if how == "hanging" else nullcontext():
            ready = end.enter_context(serving_sealed(store, log))
            status, reason = readiness(ready)
            assert status == 503 and "the keystore is sealed" in reason
            assert not encrypts(store, ready)
            # Longer than the first attempts in the background.
            time.sleep(4)
            assert readiness(ready)[0] == 503
        if how == "away":
            end.enter_context(forwarded(port, behind))
        deadline = time.monotonic() + 90
        while readiness(ready)[0] != 200:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        # Grants are verified from now on.
        while not encrypts(store, ready):
            assert time.monotonic() < deadline, log.read_text()
        while "what happened while the keystore was sealed" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        report = json.loads(store.run("store", "check", "--json", "--verify-record", str(log)))
        [record] = report["records"]["verified"]
        assert record["opened_by"] is None, "nobody"
        assert any(event["event"] == "sealed" and event["client"] == "app" for event in record["events"])
