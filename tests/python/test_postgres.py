"""Local engines over a keystore in PostgreSQL, and the folders that are refused."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import leafseal
import postgres
import pytest
from conftest import APP
from program import Program

PATIENCE = 60.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of an authority, with a server's for localhost."""
    program = Program(tmp_path_factory.mktemp("authority") / "store")
    program.run("certs", "init")
    return program.folder / "certs"


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[postgres.Postgres]:
    with postgres.running(certificates / "server.pem", certificates / "server.key") as server:
        yield server


def configuration(server: postgres.Postgres, certificates: Path, *more: str, engine: str = "") -> str:
    settings = {"url": server.url, "authorities": str(certificates / "ca.pem"), "password_file": "password"}
    for line in more:
        name, _, value = line.partition("=")
        settings[name] = value
    lines = [f"{name} = '{value}'" for name, value in settings.items() if value]
    return "\n".join(["[keystore]", *lines, "[engine]", engine, ""])


@pytest.fixture(scope="module")
def shared(server: postgres.Postgres, certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A folder whose keystore is the database."""
    program = Program(tmp_path_factory.mktemp("shared") / "store")
    program.folder.mkdir(mode=0o700)
    password(program.folder, postgres.PASSWORD)
    (program.folder / "leafseal.toml").write_text(configuration(server, certificates))
    program.create(APP)
    assert not (program.folder / "keystore.db").exists()
    return program


def password(folder: Path, text: str, mode: int = 0o600) -> None:
    file = folder / "password"
    file.write_text(text + "\n")
    file.chmod(mode)


def until(what: str, condition: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < PATIENCE, what
        time.sleep(0.01)


def opens(engine: leafseal.Engine, sealed: list[str]) -> bool:
    try:
        return engine.decrypt_many(sealed) == ["a"]
    except leafseal.DecryptFailed:
        return False


def test_engines_share_the_database_and_follow_its_changes(shared: Program) -> None:
    with leafseal.Engine.open(shared.folder, app=APP) as engine, leafseal.Engine.open(shared.folder, app=APP) as other:
        sealed = engine.encrypt_many(["a"])
        assert opens(other, sealed)
        assert b'"a"' in shared.run("decrypt", "--app", APP, stdin=f'["{sealed[0]}"]'.encode())
        shared.run("keys", "rotate", APP)
        shared.run("keys", "disable", APP, "--version", "1")
        until("the disabled version is refused", lambda: not opens(engine, sealed) and not opens(other, sealed))
        assert opens(other, engine.encrypt_many(["a"]))
        shared.run("keys", "enable", APP, "--version", "1")
        until("the enabled version is used", lambda: opens(engine, sealed) and opens(other, sealed))


def test_asyncio(shared: Program) -> None:
    async def run() -> None:
        async with await leafseal.AsyncEngine.open(shared.folder, app=APP) as engine:
            assert await engine.decrypt_many(await engine.encrypt_many(["a", 1, None])) == ["a", 1, None]

    asyncio.run(run())


def test_outages(shared: Program, server: postgres.Postgres, certificates: Path) -> None:
    file = shared.folder / "leafseal.toml"
    before = file.read_text()
    with leafseal.Engine.open(shared.folder, app=APP) as forgiving:
        sealed = forgiving.encrypt_many(["a"])
        file.write_text(configuration(server, certificates, engine="store_silence_max = '100ms'"))
        with leafseal.Engine.open(shared.folder, app=APP) as strict:
            assert opens(strict, sealed)
            server.stop()
            try:

                def is_refused() -> bool:
                    try:
                        strict.encrypt_many(["a"])
                    except leafseal.Unavailable:
                        return True
                    return False

                until("the strict engine refuses", is_refused)
                assert opens(forgiving, sealed), "known keys stay in use"
                with pytest.raises(leafseal.ConnectFailed, match="cannot use the keystore"):
                    leafseal.Engine.open(shared.folder)
            finally:
                server.start()
            until("the strict engine serves again", lambda: not is_refused())
    file.write_text(before)


def test_refusals(shared: Program, server: postgres.Postgres, certificates: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    other = Program(tmp_path / "other")
    other.run("certs", "init")
    (tmp_path / "root.key").write_bytes((shared.folder / "root.key").read_bytes())
    (tmp_path / "root.key").chmod(0o600)
    password(tmp_path, postgres.PASSWORD)

    def refused(kind: type[leafseal.Error], message: str, *lines: str) -> None:
        (tmp_path / "leafseal.toml").write_text(configuration(server, certificates, *lines))
        with pytest.raises(kind, match=message) as caught:
            leafseal.Engine.open(tmp_path)
        assert postgres.PASSWORD not in str(caught.value) and "hunter2" not in str(caught.value)

    refused(leafseal.ConnectFailed, "certificate is refused", f"authorities={other.folder / 'certs/ca.pem'}")
    refused(leafseal.InvalidSettings, "keystore.authorities must name", "authorities=")
    refused(leafseal.InvalidSettings, "keystore.authorities must name", "authorities=off")
    refused(leafseal.InvalidSettings, "both set", "path=keystore.db")
    refused(leafseal.InvalidSettings, "must be set together", "certificate=client.pem")
    refused(leafseal.InvalidSettings, r"leafseal.toml:\d+:\d+: keystore.sslmode must be one of", "sslmode=prefer")
    refused(leafseal.InvalidSettings, "keystore.connect_timeout must be a duration", "connect_timeout=5")
    refused(leafseal.InvalidSettings, "must not contain a password", f"url={server.url.replace('@', ':hunter2@')}")
    refused(leafseal.InvalidSettings, "must not contain parameters", f"url={server.url}?password=hunter2")
    refused(leafseal.ConnectFailed, "keystore.password_file", "password_file=")
    password(tmp_path, "hunter2")
    refused(leafseal.ConnectFailed, "password authentication failed")
    password(tmp_path, postgres.PASSWORD, 0o644)
    refused(leafseal.ConnectFailed, "lets others reach it")


def test_weaker_checks_are_warned_of(shared: Program, server: postgres.Postgres, certificates: Path) -> None:
    file = shared.folder / "leafseal.toml"
    before = file.read_text()
    file.write_text(configuration(server, certificates, "sslmode=require"))
    with pytest.warns(UserWarning, match="keystore.sslmode is require") as caught, leafseal.Engine.open(shared.folder) as engine:
        assert engine.encrypt_many(["a"], app=APP)
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    file.write_text(before)
