"""Key slots in a hardware security module, which SoftHSM stands for, and modules that hang, crash or end the process that loads them."""

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import engine as engines
import leafseal as program
import pages
from leafseal import CommandFailed, Leafseal

GUIDE = pages.ROOT / "docs/guides/key-ceremonies.md"
APP = "acme"
PIN = "123456"
MODULES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so")
# For how long the module is away while an engine serves; 60 shows the bar of the project.
AWAY_SECONDS = float(os.environ.get("PROVIDER_AWAY_SECONDS", "3"))
COMMAND_SECONDS_MAX = 60


@dataclass(frozen=True)
class Hsm:
    """A module with the token `engine` of SoftHSM, which has the keys `leafseal` (AES) and `rsa`."""

    module: Path

    def tool(self, *arguments: str) -> None:
        command = ["pkcs11-tool", "--module", str(self.module), "--token-label", "engine", "--login", "--pin", PIN, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr


def module() -> Path:
    """The library of SoftHSM."""
    found = [Path(path) for path in MODULES if Path(path).exists()]
    if not found or not shutil.which("pkcs11-tool"):
        pytest.skip("install softhsm2 and opensc")
    return found[0]


@pytest.fixture
def hsm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hsm:
    library = module()
    (tmp_path / "tokens").mkdir()
    configuration = tmp_path / "softhsm2.conf"
    configuration.write_text(f"directories.tokendir = {tmp_path}/tokens\nobjectstore.backend = file\nlog.level = ERROR\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(configuration))
    init = ["softhsm2-util", "--init-token", "--free", "--label", "engine", "--pin", PIN, "--so-pin", "87654321"]
    subprocess.run(init, check=True, capture_output=True, timeout=COMMAND_SECONDS_MAX)
    made = Hsm(library)
    made.tool("--keygen", "--key-type", "AES:32", "--label", "leafseal", "--sensitive")
    made.tool("--keypairgen", "--key-type", "rsa:2048", "--label", "rsa", "--usage-decrypt")
    return made


@pytest.fixture
def store(empty: Leafseal, hsm: Hsm) -> Leafseal:
    """A keystore with the app APP and a slot in `hsm`, and settings that name it. Without its root key."""
    empty.create(APP)
    configure(empty, hsm.module)
    empty.run("slot", "add", "--pkcs11")
    (empty.folder / "root.key").rename(empty.folder / "offline.key")
    return empty


def configure(leafseal: Leafseal, library: Path, timeout: str = "60s") -> None:
    """Settings that name a module. A busy machine takes its time to start a process."""
    write_pin(leafseal, PIN)
    lines = ("[pkcs11]", f'module = "{library}"', 'token = "engine"', 'pin_file = "pin"', f'timeout = "{timeout}"')
    (leafseal.folder / "leafseal.toml").write_text("\n".join(lines) + "\n")


def write_pin(leafseal: Leafseal, pin: str) -> None:
    path = leafseal.folder / "pin"
    path.write_text(pin + "\n")
    path.chmod(0o600)


def setting(**settings: str) -> list[str]:
    return [flag for key, value in settings.items() for flag in ("--set", f"pkcs11.{key}={value}")]


def refusal(leafseal: Leafseal, *arguments: str) -> str:
    """The message with which opening the store fails."""
    with pytest.raises(CommandFailed) as failed:
        leafseal.run(*(arguments or ("store", "check")))
    assert failed.value.code == 3
    return failed.value.message


def slots(leafseal: Leafseal, *flags: str) -> dict[str, str]:
    """Id of the slot of each kind."""
    lines = [line.split() for line in leafseal.run("slot", "list", *flags).decode().splitlines()]
    return {line[1]: line[0] for line in lines}


RSA = setting(key="rsa", mechanism="rsa-oaep")


def test_a_slot_opens_the_keystore_without_the_root_key(store: Leafseal) -> None:
    store.run("store", "check")
    # A new root is sealed to it without a call.
    store.run("slot", "rotate-root", "--link-seconds", "0")
    store.run("store", "check")
    assert store.decrypt(APP, store.encrypt(APP, b'["x"]')) == b'["x"]'


def test_an_rsa_key_opens_a_slot_that_the_list_calls_unsafe(store: Leafseal) -> None:
    store.run("slot", "add", "--pkcs11", *RSA, "--set", "keystore.root_key_file=offline.key")
    store.run("store", "check", *RSA)
    lines = store.run("slot", "list").decode().splitlines()
    unsafe = [line for line in lines if "not safe against quantum computers" in line]
    assert len(unsafe) == 1 and " pkcs11-rsa " in unsafe[0] and "engine/rsa" in unsafe[0]


def test_what_is_stored_opens_in_its_place_only(store: Leafseal) -> None:
    store.run("slot", "add", "--pkcs11", *RSA, "--set", "keystore.root_key_file=offline.key")
    found = slots(store)
    database = sqlite3.connect(store.folder / "keystore.db")

    def update(text: str, *values: object) -> None:
        with database:
            database.execute(text, values)

    def wrapped(slot: str) -> bytes:
        return database.execute("SELECT wrapped_secrets FROM slot WHERE id = ?", (slot,)).fetchone()[0]

    # Another id: of AES-GCM the associated data is another, with OAEP the ids inside are.
    for kind, flags, part in (("pkcs11", [], "GeneralError"), ("pkcs11-rsa", RSA, "it does not open the slot")):
        update("UPDATE slot SET id = '0011223344556677' WHERE id = ?", found[kind])
        assert part in refusal(store, "store", "check", *flags)
        update("UPDATE slot SET id = ? WHERE id = '0011223344556677'", found[kind])
    aes, rsa = wrapped(found["pkcs11"]), wrapped(found["pkcs11-rsa"])
    # An empty IV, which SoftHSM would accept; each byte; the other form; nothing.
    for value in (aes[:1] + aes[13:], b"", aes[:1], aes[:13], b"\x02" + aes[1:], b"\x00" + aes[1:], rsa, aes + b"\x00", aes[:-1]):
        update("UPDATE slot SET wrapped_secrets = ? WHERE id = ?", value, found["pkcs11"])
        message = refusal(store)
        assert "does not open the slot" in message, value[:1]
    for at in range(0, len(aes), 7):
        changed = bytes([*aes[:at], aes[at] ^ 1, *aes[at + 1 :]])
        update("UPDATE slot SET wrapped_secrets = ? WHERE id = ?", changed, found["pkcs11"])
        assert "does not open the slot" in refusal(store), at
    database.close()


def test_a_wrong_pin_is_named_and_the_last_tries_are_left_alone(store: Leafseal) -> None:
    write_pin(store, "999999")
    assert "the PIN in pkcs11.pin_file is wrong" in refusal(store)
    (store.folder / "pin").write_text("")
    assert "its first line must be the PIN" in refusal(store)
    (store.folder / "pin").chmod(0o644)
    assert "chmod 600" in refusal(store)


def test_tokens_and_keys_are_told_apart(store: Leafseal, hsm: Hsm) -> None:
    root_key = ("--set", "keystore.root_key_file=offline.key")

    def add(*flags: str) -> str:
        return refusal(store, "slot", "add", "--pkcs11", *flags, *root_key)

    assert "no token has this label" in add(*setting(token="other"))
    assert "not there for this user" in add(*setting(key="other"))
    hsm.tool("--keygen", "--key-type", "AES:32", "--label", "leafseal", "--sensitive")
    assert "several have this label" in add()
    hsm.tool("--keygen", "--key-type", "AES:32", "--label", "open", "--extractable")
    assert "can be read out of the module" in add(*setting(key="open"))


HOSTILE = """
#include <unistd.h>
static void act(void) { %s }
%s
long C_GetFunctionList(void **list) { (void)list; act(); return 5; }
"""
AT_LOAD = "__attribute__((constructor)) static void load(void) { act(); }"
ACTS = {"hangs": "for (;;) pause();", "crashes": "*(volatile int *)0 = 1;", "exits": "_exit(7);", "floods": 'for (;;) write(2, "x\\n", 2);'}


def hostile(folder: Path, act: str, where: str = AT_LOAD) -> Path:
    """A module that does this when it is loaded or asked for its functions."""
    source, library = folder / f"{act}.c", folder / f"{act}.so"
    source.write_text(HOSTILE % (ACTS[act], where))
    compile_it = ["cc", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(compile_it, check=True, capture_output=True, timeout=COMMAND_SECONDS_MAX)
    return library


@pytest.mark.parametrize("where", [AT_LOAD, ""], ids=["load", "call"])
@pytest.mark.parametrize(
    ("act", "part"),
    [("hangs", "no answer within"), ("floods", "no answer within"), ("crashes", "signal: 11"), ("exits", "exit status: 7")],
)
def test_a_module_that_fails_is_named_and_another_slot_opens(store: Leafseal, tmp_path: Path, act: str, part: str, where: str) -> None:
    flags = setting(module=str(hostile(tmp_path, act, where)), timeout="500ms")
    message = refusal(store, "store", "check", *flags)
    assert "token engine: " in message and part in message
    store.run("store", "check", *flags, "--set", "keystore.root_key_file=offline.key")


@contextmanager
def calling(engine: engines.Engine) -> Iterator[list[str]]:
    """One request after the other until the end of the block: the list of what failed."""
    failures: list[str] = []
    is_over = threading.Event()

    def run() -> None:
        count = 0
        try:
            with engine.connect() as client:
                while not is_over.is_set():
                    sealed = client.call("encrypt", app=APP, values=[f"x{count}"])["values"]
                    assert client.call("decrypt", app=APP, values=sealed)["values"] == [f"x{count}"]
                    count += 1
                    is_over.wait(0.002)
        except Exception as error:
            failures.append(f"after {count}: {error!r}")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        is_over.set()
        thread.join()


WITHOUT_MODULE = ("--set", "keystore.root_key_file=offline.key", "--set", "pkcs11.module=off")


@pytest.mark.parametrize("act", ["hangs", "crashes"])
def test_an_engine_serves_while_its_module_is_away(store: Leafseal, hsm: Hsm, tmp_path: Path, act: str) -> None:
    """Changes of the keystore, and a new root, reach it without the module."""
    link = tmp_path / "module.so"
    link.symlink_to(hsm.module)
    configure(store, link, timeout="1s" if act == "hangs" else "60s")
    with engines.running(store, APP) as engine:
        with calling(engine) as failures:
            replace(link, hostile(tmp_path, act))
            store.run("keys", "create", "new-app", *WITHOUT_MODULE)
            store.run("slot", "rotate-root", "--link-seconds", "5", *WITHOUT_MODULE)
            time.sleep(AWAY_SECONDS)
            wait_for_app(store, engine, "new-app")
        assert not failures


@pytest.mark.parametrize("act", ["hangs", "crashes"])
def test_an_engine_asks_a_module_that_was_away_again(store: Leafseal, hsm: Hsm, tmp_path: Path, act: str) -> None:
    """Its root is replaced without a link, so that it needs the module, which fails for a while."""
    link = tmp_path / "module.so"
    link.symlink_to(hsm.module)
    configure(store, link, timeout="1s" if act == "hangs" else "60s")
    with engines.running(store, APP) as engine:
        replace(link, hostile(tmp_path, act))
        store.run("slot", "rotate-root", "--compromised", *WITHOUT_MODULE)
        store.run("keys", "create", "new-app", *WITHOUT_MODULE)
        time.sleep(AWAY_SECONDS)
        replace(link, hsm.module)
        wait_for_app(store, engine, "new-app")


def replace(link: Path, target: Path) -> None:
    fresh = link.with_suffix(".new")
    fresh.symlink_to(target)
    fresh.replace(link)


def wait_for_app(store: Leafseal, engine: engines.Engine, app: str) -> None:
    """Until a client of the app is served."""
    store.run("certs", "issue", "late", "--app", app, "--allow", "encrypt", *WITHOUT_MODULE)
    end = time.monotonic() + COMMAND_SECONDS_MAX
    while True:
        try:
            with engine.connect("late") as client:
                assert client.call("encrypt", app=app, values=["x"])["values"]
                return
        except Exception:
            assert time.monotonic() < end, engine.log.read_text()
            time.sleep(0.2)


def test_the_process_of_a_module_answers_nothing_else() -> None:
    command = [str(program.binary()), "pkcs11-host"]
    for request in (b"", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", os.urandom(200)):
        done = subprocess.run(command, input=request, capture_output=True, timeout=COMMAND_SECONDS_MAX, check=False)
        assert done.returncode == 2 and done.stdout == b"" and b"serves one request" in done.stderr


def test_every_command_of_the_ceremony_works(hsm: Hsm, tmp_path: Path) -> None:
    """The blocks `sh pkcs11` of docs/guides/key-ceremonies.md, with a token that has no key yet."""
    blocks = pages.blocks(GUIDE.read_text())
    script = "".join(block.text for block in blocks if (block.language, block.name) == ("sh", "pkcs11"))
    assert "slot add --pkcs11" in script
    hsm.tool("--delete-object", "--type", "secrkey", "--label", "leafseal")
    script = script.replace("/usr/lib/softhsm/libsofthsm2.so", str(hsm.module))
    environment = {**os.environ, "PATH": os.pathsep.join([str(program.binary().parent), os.environ["PATH"]]), "HSM_PIN": PIN}
    script = "set -euo pipefail\nleafseal keys create acme\n" + script
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
