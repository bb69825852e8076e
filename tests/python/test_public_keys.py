"""Engines of public keys alone: they encrypt for the app, and refuse everything else."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import leafseal
import pyarrow as pa
import pytest
from conftest import APP
from decryptor import Decryptor
from program import Program

VALUES = ["Ada", "é", None, 42, -1.5, True]


@pytest.fixture(scope="session")
def file(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("public") / "keys.json"
    path.write_bytes(program.run("keys", "public", APP, "--json"))
    return path


def test_values_are_those_of_the_app(file: Path, engine: leafseal.Engine, decryptor: Decryptor) -> None:
    with leafseal.Engine.from_public_keys(file) as public:
        assert public.app == APP and not public._core.is_remote
        for options in ({}, {"curve": "k1"}, {"keying": "session"}, {"role": "pii"}):
            sealed = public.encrypt_many(VALUES, **options)
            assert decryptor.open(sealed[0]).value == "Ada"
            assert engine.decrypt_many(sealed, role=options.get("role")) == VALUES
        document = public.encrypt({"card": {"number": "4111"}, "amount": 1}, "$.card")
        assert document["amount"] == 1 and engine.decrypt(document) == {"card": {"number": "4111"}, "amount": 1}
        column = public.encrypt_many(pa.array(["a", None]))
        assert engine.decrypt_many(column).to_pylist() == ["a", None]
        assert public.inspect(sealed[0]).curve == "r1"


REFUSED: dict[str, Callable[[leafseal.Engine], object]] = {
    "decrypt": lambda e: e.decrypt(json.dumps(e.encrypt_many(["a"]))),
    "decrypt_many": lambda e: e.decrypt_many(e.encrypt_many(["a"])),
    "skip_sealed": lambda e: e.encrypt_many(["a"], skip_sealed=True),
    "inspect with an app": lambda e: e.inspect(e.encrypt_many(["a"])[0], app=APP),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_a_private_key_is_refused(file: Path, case: str) -> None:
    with leafseal.Engine.from_public_keys(file) as public, pytest.raises(leafseal.Forbidden, match="public keys alone"):
        REFUSED[case](public)


def test_an_app_in_several_files_is_refused(file: Path, program: Program, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    again.write_bytes(file.read_bytes())
    with pytest.raises(leafseal.InvalidSettings, match="more than once"):
        leafseal.Engine.from_public_keys([file, again])


def test_several_apps(file: Path, program: Program, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(program.run("keys", "public", "other", "--json"))
    both = tmp_path / "both.json"
    both.write_text(json.dumps([json.loads(file.read_text()), json.loads(other.read_text())]))
    for files in ([file, other], both):
        with leafseal.Engine.from_public_keys(files, app="other") as public, leafseal.Engine.open(program.folder) as local:
            assert local.decrypt_many(public.encrypt_many(["a"]), app="other") == ["a"]
            assert local.decrypt_many(public.encrypt_many(["a"], app=APP), app=APP) == ["a"]
        with leafseal.Engine.from_public_keys(files) as public, pytest.raises(leafseal.InvalidParams, match="app"):
            public.encrypt_many(["a"])


def test_asyncio(file: Path, local: leafseal.Engine) -> None:
    async def run() -> list[str]:
        async with await leafseal.AsyncEngine.from_public_keys(file) as public:
            return await public.encrypt_many(["a"])

    assert local.decrypt_many(asyncio.run(run())) == ["a"]


def test_files_that_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(leafseal.InvalidSettings, match="No such file"):
        leafseal.Engine.from_public_keys(tmp_path / "missing.json")
    with pytest.raises(leafseal.InvalidSettings, match="at least one"):
        leafseal.Engine.from_public_keys([])
    with pytest.raises(leafseal.UnknownApp):
        leafseal.Engine.from_public_keys(file, app="other")
    keys = json.loads(file.read_text())
    wrong = tmp_path / "wrong.json"
    for text, message in [
        ("", "must be what `leafseal keys public"),
        ("{}", "must be what"),
        ("[1]", "must be what"),
        (json.dumps({**keys, "r1": "xx"}), "must be what"),
        (json.dumps({**keys, "r1": keys["k1"]}), "r1 key is no point|k1 key is no point"),
        (json.dumps({**keys, "k1": "02" + "ff" * 32}), "k1 key is no point"),
        (json.dumps({**keys, "app": "A B"}), "app A B"),
        (json.dumps({**keys, "version": 2**32}), "must be what"),
        (json.dumps({**keys, "version": "1"}), "must be what"),
    ]:
        wrong.write_text(text)
        with pytest.raises(leafseal.InvalidSettings, match=message):
            leafseal.Engine.from_public_keys(wrong)
