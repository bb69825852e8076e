"""Uses of the package that mypy must accept, with the types that they have. Not run."""

from typing import assert_type

import leafseal


def calls(engine: leafseal.Engine) -> None:
    assert_type(engine.encrypt("{}", "$.a"), str)
    assert_type(engine.decrypt(b"{}", select=["$.a"], on_failure="null"), bytes)
    assert_type(engine.encrypt("{}", report=True), tuple[str, leafseal.Report])
    assert_type(engine.encrypt_many(["a", 1]), list[None | bool | int | float | str])
    assert_type(engine.decrypt_many(["a", 1], contexts=["row", 7]), list[None | bool | int | float | str])
    assert_type(engine.inspect("ev:"), leafseal.Inspection)
    assert_type(engine.inspect(["ev:"]), list[leafseal.Inspection])


class Index:
    """As that of pandas, which has no types here."""

    dtype: object

    def isna(self) -> object:
        return None


def columns(engine: leafseal.Engine, index: Index) -> None:
    assert_type(engine.decrypt_many(index, type="int64"), Index)
    assert_type(engine.encrypt_many(index, contexts=index), Index)


async def coroutines(engine: leafseal.AsyncEngine) -> None:
    assert_type(await engine.encrypt("{}"), str)
    async with await leafseal.AsyncEngine.open(".leafseal", app="acme") as other:
        assert_type(other, leafseal.AsyncEngine)


def errors(error: leafseal.Error) -> None:
    assert_type(error.index, int | None)
