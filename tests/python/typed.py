"""Uses of the package that mypy must accept, with the types that they have. Not run."""

from typing import assert_type

import fieldseal


def calls(engine: fieldseal.Engine) -> None:
    assert_type(engine.encrypt("{}", "$.a"), str)
    assert_type(engine.decrypt(b"{}", select=["$.a"], on_failure="null"), bytes)
    assert_type(engine.encrypt("{}", report=True), tuple[str, fieldseal.Report])
    assert_type(engine.encrypt_many(["a", 1]), list[None | bool | int | float | str])
    assert_type(engine.inspect("ev:"), fieldseal.Inspection)
    assert_type(engine.inspect(["ev:"]), list[fieldseal.Inspection])


async def coroutines(engine: fieldseal.AsyncEngine) -> None:
    assert_type(await engine.encrypt("{}"), str)
    async with await fieldseal.AsyncEngine.open(".fieldseal", app="acme") as other:
        assert_type(other, fieldseal.AsyncEngine)


def errors(error: fieldseal.Error) -> None:
    assert_type(error.index, int | None)
