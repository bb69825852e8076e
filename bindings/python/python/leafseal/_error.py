"""The base of all exceptions of the package. Messages contain no values and no secrets."""

from typing import Literal

Retry = Literal["never", "later", "elsewhere"]


class Error(Exception):
    """A call that failed. Subclasses are chosen by `code`, so programs can catch either."""

    code: str
    """A stable name of the error, such as `decrypt_failed`."""
    retry: Retry
    """Whether a retry may succeed: `never`, `later` on the same engine, or `elsewhere` at once."""
    index: int | None
    """Which value of a list is at fault, from 0, if known."""
    offset: int | None
    """Which byte of a document or character of a selector is at fault, from 0, if known."""
    retry_after: float | None
    """Seconds to wait before a retry, if the engine gives them."""
    from_engine: bool
    """Whether an engine decided it; otherwise this package did."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "internal",
        retry: Retry = "never",
        index: int | None = None,
        offset: int | None = None,
        retry_after: float | None = None,
        from_engine: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry = retry
        self.index = index
        self.offset = offset
        self.retry_after = retry_after
        self.from_engine = from_engine

    def __reduce__(self) -> tuple[object, ...]:
        return make, (
            self.code,
            str(self),
            self.retry,
            self.index,
            self.offset,
            self.retry_after,
            self.from_engine,
        )


_BY_CODE: dict[str, type[Error]] = {}


def register(classes: dict[str, type[Error]]) -> None:
    """Sets the exception of each code."""
    _BY_CODE.update(classes)


def make(
    code: str,
    message: str,
    retry: Retry,
    index: int | None = None,
    offset: int | None = None,
    retry_after: float | None = None,
    from_engine: bool = False,
) -> Error:
    """Creates the exception of a code; codes of newer engines become `Error`."""
    return _BY_CODE.get(code, Error)(
        message,
        code=code,
        retry=retry,
        index=index,
        offset=offset,
        retry_after=retry_after,
        from_engine=from_engine,
    )
