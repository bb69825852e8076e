"""Key slots that a TPM 2.0 keeps, which swtpm emulates."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import engine as engines
import leafseal as program
import pages
from leafseal import CommandFailed, Leafseal
from ports import free_ports

GUIDE = pages.ROOT / "docs/guides/key-ceremonies.md"
APP = "acme"
COMMAND_SECONDS_MAX = 60


@dataclass
class Tpm:
    """An emulated TPM that keeps its state in a folder."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def device(self) -> str:
        return f"swtpm:host=127.0.0.1,port={self.port}"

    def tool(self, *command: str) -> None:
        environment = {**os.environ, "TPM2TOOLS_TCTI": self.device}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr


def port_pair() -> int:
    """A free port whose successor is free, too: the TSS looks for the control channel there."""
    while True:
        port = free_ports(1)[0]
        with suppress(OSError), socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
            return port


@contextmanager
def running(folder: Path) -> Iterator[Tpm]:
    """A TPM that has just been switched on, with the state of `folder`."""
    for name in ("swtpm", "tpm2_pcrextend"):
        if not shutil.which(name):
            pytest.skip("install swtpm and tpm2-tools")
    if not program.binary().with_name("leafseal-tpm2").exists():
        pytest.skip("build leafseal-tpm2, which needs libtss2-dev")
    folder.mkdir(exist_ok=True)
    port = port_pair()
    command = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={folder}", "--flags", "not-need-init,startup-clear"]
    command += ["--server", f"type=tcp,port={port}", "--ctrl", f"type=tcp,port={port + 1}"]
    with (folder / "swtpm.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        tpm = Tpm(folder, port, process)
        end = time.monotonic() + COMMAND_SECONDS_MAX
        while True:
            with suppress(AssertionError):
                tpm.tool("tpm2_getrandom", "--hex", "1")
                break
            assert process.poll() is None and time.monotonic() < end, (folder / "swtpm.log").read_text()
            time.sleep(0.05)
        yield tpm
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def tpm(tmp_path: Path) -> Iterator[Tpm]:
    with running(tmp_path / "tpm") as made:
        yield made


@pytest.fixture
def store(empty: Leafseal, tpm: Tpm) -> Leafseal:
    """A keystore with the app APP and a slot in `tpm`, and settings that name it. Without its root key."""
    empty.create(APP)
    configure(empty, tpm)
    empty.run("slot", "add", "--tpm2")
    (empty.folder / "root.key").rename(empty.folder / "offline.key")
    return empty


def configure(leafseal: Leafseal, tpm: Tpm, timeout: str = "60s") -> None:
    lines = ("[tpm2]", f'device = "{tpm.device}"', f'timeout = "{timeout}"')
    (leafseal.folder / "leafseal.toml").write_text("\n".join(lines) + "\n")


def refusal(leafseal: Leafseal, *arguments: str) -> str:
    """The message with which opening the store fails."""
    with pytest.raises(CommandFailed) as failed:
        leafseal.run(*(arguments or ("store", "check")))
    assert failed.value.code == 3
    return failed.value.message


def test_a_slot_opens_the_keystore_without_the_root_key(store: Leafseal) -> None:
    store.run("store", "check")
    store.run("slot", "rotate-root", "--link-seconds", "0")
    store.run("store", "check")
    assert store.decrypt(APP, store.encrypt(APP, b'["x"]')) == b'["x"]'


def test_a_slot_opens_after_the_same_boot_and_not_after_another(store: Leafseal, tpm: Tpm) -> None:
    tpm.process.kill()
    tpm.process.wait()
    assert "it cannot be opened" in refusal(store)
    with running(tpm.folder) as booted:
        configure(store, booted)
        store.run("store", "check")
        booted.tool("tpm2_pcrextend", f"7:sha256={'00' * 31}01")
        message = refusal(store)
        assert "sha256:7 is not as when the slot was made" in message and "slot add --tpm2 --replace" in message
        root_key = ("--set", "keystore.root_key_file=offline.key")
        slot = next(line.split()[0] for line in store.run("slot", "list", *root_key).decode().splitlines() if " tpm2 " in line)
        store.run("slot", "add", "--tpm2", "--replace", slot, *root_key)
        store.run("store", "check")


def test_a_slot_is_bound_to_all_of_its_pcrs_whatever_the_setting_says(store: Leafseal, tpm: Tpm) -> None:
    root_key = ("--set", "keystore.root_key_file=offline.key")
    slot = next(line.split()[0] for line in store.run("slot", "list").decode().splitlines() if " tpm2 " in line)
    store.run("slot", "add", "--tpm2", "--replace", slot, "--set", "tpm2.pcrs=sha256:7,11,23", *root_key)
    tpm.tool("tpm2_pcrextend", f"11:sha256={'00' * 31}01")
    assert "sha256:7,11,23 is not as when" in refusal(store)


def test_another_tpm_or_one_that_was_cleared_is_told(store: Leafseal, tpm: Tpm, tmp_path: Path) -> None:
    with running(tmp_path / "other") as other:
        assert "another TPM sealed the slot" in refusal(store, "store", "check", "--set", f"tpm2.device={other.device}")
    tpm.tool("tpm2_clear", "-c", "p")
    assert "this one was cleared since" in refusal(store)


def test_pcrs_without_values_make_no_slot(store: Leafseal, tpm: Tpm) -> None:
    """A policy over a bank that the TPM does not keep would bind to nothing."""
    tpm.tool("tpm2_pcrallocate", "sha1:none+sha256:all+sha384:none+sha512:none")
    tpm.process.send_signal(signal.SIGTERM)
    tpm.process.wait()
    with running(tpm.folder) as booted:
        configure(store, booted)
        flags = ("--set", "tpm2.pcrs=sha384:7", "--set", "keystore.root_key_file=offline.key")
        assert "this TPM keeps no such PCRs" in refusal(store, "slot", "add", "--tpm2", *flags)


def test_what_is_stored_opens_in_its_place_only(store: Leafseal) -> None:
    database = sqlite3.connect(store.folder / "keystore.db")
    slot, wrapped = database.execute("SELECT id, wrapped_secrets FROM slot WHERE kind = 'tpm2'").fetchone()
    with database:
        database.execute("UPDATE slot SET id = '0011223344556677' WHERE id = ?", (slot,))
    assert "it does not open the slot" in refusal(store)
    with database:
        database.execute("UPDATE slot SET id = ? WHERE kind = 'tpm2'", (slot,))
    store.run("store", "check")
    for at in range(0, len(wrapped), 5):
        changed = bytes([*wrapped[:at], wrapped[at] ^ 1, *wrapped[at + 1 :]])
        with database:
            database.execute("UPDATE slot SET wrapped_secrets = ? WHERE kind = 'tpm2'", (changed,))
        assert "tpm2" in refusal(store), at
    for changed in (b"", wrapped[:-1], wrapped + b"\x00"):
        with database:
            database.execute("UPDATE slot SET wrapped_secrets = ? WHERE kind = 'tpm2'", (changed,))
        assert "it does not open the slot" in refusal(store)
    database.close()


def test_a_device_that_hangs_is_left_at_the_deadline_and_another_slot_opens(store: Leafseal, tpm: Tpm) -> None:
    tpm.process.send_signal(signal.SIGSTOP)
    flags = ("--set", "tpm2.timeout=500ms")
    assert "no answer within 500ms" in refusal(store, "store", "check", *flags)
    store.run("store", "check", *flags, "--set", "keystore.root_key_file=offline.key")
    tpm.process.send_signal(signal.SIGCONT)
    # The process that was ended left its objects in the device, which has no resource manager in front of it.
    tpm.tool("tpm2_flushcontext", "--transient-object")
    store.run("store", "check")


def test_a_missing_program_is_named(store: Leafseal) -> None:
    assert "/nowhere/leafseal-tpm2 does not start" in refusal(store, "store", "check", "--set", "tpm2.program=/nowhere/leafseal-tpm2")


def test_a_running_engine_does_not_need_the_tpm(store: Leafseal, tpm: Tpm) -> None:
    with engines.running(store, APP) as engine:
        tpm.process.kill()
        tpm.process.wait()
        other = ("--set", "keystore.root_key_file=offline.key")
        store.run("slot", "rotate-root", "--link-seconds", "5", *other)
        with engine.connect() as client:
            sealed = client.call("encrypt", app=APP, values=["x"])["values"]
            assert client.call("decrypt", app=APP, values=sealed)["values"] == ["x"]


def test_no_objects_stay_in_the_device(store: Leafseal) -> None:
    """A TPM has places for three; swtpm has no resource manager in front of it."""
    for _ in range(8):
        store.run("store", "check")


def test_every_command_of_the_ceremony_works(tpm: Tpm, tmp_path: Path) -> None:
    """The blocks `sh tpm2` of docs/guides/key-ceremonies.md."""
    blocks = pages.blocks(GUIDE.read_text())
    script = "".join(block.text for block in blocks if (block.language, block.name) == ("sh", "tpm2"))
    assert "slot add --tpm2" in script
    script = script.replace("device:/dev/tpmrm0", tpm.device)
    environment = {**os.environ, "PATH": os.pathsep.join([str(program.binary().parent), os.environ["PATH"]]), "TPM2TOOLS_TCTI": tpm.device}
    script = "set -euo pipefail\nleafseal keys create acme\n" + script
    folder = tmp_path / "ceremony"
    folder.mkdir()
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
