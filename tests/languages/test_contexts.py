"""A list with a context for each value, from every client to every other one, and to a client written from docs/protocol.md alone.

A client is a program that reads lines and answers each: `encrypt` or `decrypt`, then a context and a value in turn, between tabs. The answer is
`ok` with the values, or `error` with the code and the index.
"""

import os
import subprocess
from collections.abc import Iterator

import engine as engines
import pytest
from leafseal import Leafseal
from rpc_client import Client, RpcError

APP = "languages"
ROWS = ["7", "8", "row 9", "Zeile ü", "行 \U0001f600", "x" * 1024]
VALUES = ["4111111111111111", "", "4", "ä", "\U0001f600", "x" * 3000]
LANGUAGES = dict(line.split(" ", 1) for line in os.environ["LANGUAGES"].splitlines())


class Refused(Exception):
    """The code and the index of an error."""


class Program:
    """A client of a language."""

    def __init__(self, command: list[str], engine: engines.Engine) -> None:
        identity = engine.identity()
        place = [engine.ready["address"], str(identity.ca), str(identity.certificate), str(identity.key), APP]
        self._process = subprocess.Popen(command + place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def call(self, method: str, contexts: list[str], values: list[str]) -> list[str]:
        parts = [part for pair in zip(contexts, values, strict=True) for part in pair]
        self._process.stdin.write("\t".join([method, *parts]) + "\n")
        self._process.stdin.flush()
        outcome, *rest = self._process.stdout.readline().removesuffix("\n").split("\t")
        if outcome != "ok":
            raise Refused(*rest)
        return rest

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(30) == 0


class Independent:
    """The client that was written from the protocol's documentation."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call(self, method: str, contexts: list[str], values: list[str]) -> list[str]:
        scheme = {"scheme": "symmetric"} if method == "encrypt" else {}
        try:
            return self._client.call(method, app=APP, contexts=contexts, values=values, **scheme)["values"]
        except RpcError as error:
            raise Refused(error.code, str(error.index)) from None


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Program | Independent]]:
    leafseal = Leafseal(tmp_path_factory.mktemp("folder") / "store")
    with engines.running(leafseal, APP) as engine, engine.connect() as client:
        programs = {name: Program(command.split(), engine) for name, command in LANGUAGES.items()}
        yield {"document": Independent(client), **programs}
        for program in programs.values():
            program.close()


def test_every_language_is_there(clients: dict[str, Program]) -> None:
    assert {"document", "python", "node", "java"} <= clients.keys() <= {"document", "python", "node", "java", "go"}


def test_a_value_opens_in_its_own_row_in_every_language(clients: dict[str, Program]) -> None:
    for writer, sealing in clients.items():
        sealed = sealing.call("encrypt", ROWS, VALUES)
        assert all(text.startswith("ev:") and text.count(":") == 5 or not text for text in sealed), writer
        for reader, opening in clients.items():
            assert opening.call("decrypt", ROWS, sealed) == VALUES, (writer, reader)
            order = [3, 1, 2, 0, 4, 5]
            with pytest.raises(Refused) as caught:
                opening.call("decrypt", ROWS, [sealed[at] for at in order])
            assert caught.value.args == ("decrypt_failed", "0"), (writer, reader)
            with pytest.raises(Refused) as caught:
                opening.call("decrypt", [*ROWS[:5], "x" * 1023], sealed)
            assert caught.value.args == ("decrypt_failed", "5"), (writer, reader)


@pytest.mark.parametrize("contexts", [["7", ""], ["7", "x" * 1025]])
def test_contexts_of_another_length_are_refused_in_every_language(clients: dict[str, Program], contexts: list[str]) -> None:
    for name, client in clients.items():
        for method in ("encrypt", "decrypt"):
            with pytest.raises(Refused) as caught:
                client.call(method, contexts, ["a", "b"])
            assert caught.value.args == ("invalid_params", "1"), (name, method)
