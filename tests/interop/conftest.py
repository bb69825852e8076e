"""What the tests share: a keystore with the vectors' keys, and a guard that lets nothing leave this machine."""

import ipaddress
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import app_keys
import engine as engines
from decryptor import Decryptor
from fieldseal import Choices, Fieldseal

APP = "interop"


def _refuse_other_hosts(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook cannot be taken back, so no library of the tests gets past it."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo" and arguments[0] is not None:
        host = arguments[0]
    else:
        return
    name = host.decode() if isinstance(host, bytes) else host
    if name == "localhost":
        return
    if not ipaddress.ip_address(name).is_loopback:
        raise PermissionError(f"a test reaches for {name}")


sys.addaudithook(_refuse_other_hosts)


@pytest.fixture(scope="session")
def decryptor() -> Decryptor:
    return Decryptor(app_keys.of_the_vectors())


@pytest.fixture(scope="session")
def fieldseal(tmp_path_factory: pytest.TempPathFactory) -> Fieldseal:
    """With the app APP, whose keys are those of the vectors."""
    program = Fieldseal(_folder(tmp_path_factory, "session"))
    program.import_keys(APP, app_keys.of_the_vectors())
    return program


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Fieldseal:
    """A folder of its own, with nothing in it."""
    return Fieldseal(_folder(tmp_path_factory, "empty"))


@pytest.fixture(scope="session")
def rotated(fieldseal: Fieldseal) -> list[str]:
    """Envelopes of "old" and 1 under version 1 of the app `rotated`, which has a version 2."""
    fieldseal.create("rotated")
    sealed = json.loads(fieldseal.encrypt("rotated", b'["old", 1]', Choices(role="pci")))
    fieldseal.run("keys", "rotate", "rotated")
    return sealed


@pytest.fixture(scope="session")
def engine(fieldseal: Fieldseal, rotated: list[str]) -> Iterator[engines.Engine]:
    """With the clients `dev` for APP, `operator` for all apps, `reader` of one role and `writer`."""
    fieldseal.run("certs", "init")
    issue = ("certs", "issue")
    fieldseal.run(*issue, "operator", "--all-apps", "--allow", "encrypt,decrypt")
    fieldseal.run(*issue, "reader", "--app", APP, "--allow", "decrypt", "--role", "pci")
    fieldseal.run(*issue, "writer", "--app", APP, "--allow", "encrypt")
    with engines.running(fieldseal, APP) as running:
        yield running


def _folder(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.mktemp(name) / "store"
