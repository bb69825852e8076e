"""Fixtures: an app with the keys of the vectors in a folder, a running engine over it, and both kinds of engine objects."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The independent decryptor is that of the interop tests. At the end of the path: a module there has the name of the package.
sys.path.append(str(Path(__file__).resolve().parents[1] / "interop"))

import app_keys
import leafseal
from decryptor import Decryptor
from program import Program, Server, running

APP = "py"


@pytest.fixture(scope="session")
def decryptor() -> Decryptor:
    return Decryptor(app_keys.of_the_vectors())


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A folder with the app APP, which has the keys of the vectors, and an app `other`."""
    program = Program(tmp_path_factory.mktemp("folder") / "store")
    program.import_keys(APP, app_keys.of_the_vectors())
    program.create("other")
    program.create("disabled")
    program.run("keys", "disable", "disabled")
    program.run("certs", "init")
    program.run("certs", "issue", "writer", "--app", APP, "--allow", "encrypt")
    return program


@pytest.fixture(scope="session")
def server(program: Program) -> Iterator[Server]:
    with running(program, APP) as server:
        yield server


def connect(server: Server, client: str = "dev", **settings: object) -> leafseal.Engine:
    return leafseal.Engine.connect(server.address, **server.credentials(client), **{"app": APP, **settings})


@pytest.fixture(scope="session")
def local(program: Program) -> Iterator[leafseal.Engine]:
    with leafseal.Engine.open(program.folder, app=APP) as engine:
        yield engine


@pytest.fixture(scope="session")
def remote(server: Server) -> Iterator[leafseal.Engine]:
    with connect(server) as engine:
        yield engine


@pytest.fixture(params=["local", "remote"])
def engine(request: pytest.FixtureRequest) -> leafseal.Engine:
    """Both kinds: everything holds for either."""
    return request.getfixturevalue(request.param)
