"""The exceptions of the package. Messages contain no values and no secrets."""

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


class InvalidParams(Error, ValueError):
    """An argument is of the wrong type or out of range."""


class InvalidDocument(Error, ValueError):
    """The document is not JSON, or is nested too deeply."""


class InvalidSelector(Error, ValueError):
    """A selector is not JSONPath (RFC 9535)."""


class UnmatchedSelector(Error):
    """A selector matched nothing, and `strict` was set."""


class AmbiguousName(Error):
    """A member name differs from a selected one only in case, and `other_case` is `refuse`."""


class InvalidEnvelope(Error, ValueError):
    """A text begins like an envelope and is none, or is of an unknown version."""


class DecryptFailed(Error):
    """An envelope did not decrypt: forged, damaged, of another app or of a disabled key version."""


class NumberOutOfRange(Error, ValueError):
    """A number that the result cannot hold."""


class UnknownApp(Error):
    """The engine has no such app."""


class AppDisabled(Error):
    """The app is disabled."""


class Forbidden(Error):
    """The caller may not use this app, operation or role."""


class Overloaded(Error):
    """The engine has no room for the request now."""


class DeadlineExceeded(Error, TimeoutError):
    """The call did not end within its time limit. The engine was asked to stop."""


class Cancelled(Error):
    """The call was cancelled."""


class TooLarge(Error):
    """The request, or its result, exceeds a size limit."""


class Unavailable(Error):
    """The engine is shutting down, or its keystore does not respond."""


class Internal(Error):
    """The engine is at fault; its log has the details."""


class InvalidSettings(Error, ValueError):
    """A setting, a certificate, a key or a folder cannot be used."""


class ConnectFailed(Error, ConnectionError):
    """No engine could be reached."""


class TlsFailed(Error, ConnectionError):
    """One side refused the other's certificate."""


class ConnectionLost(Error, ConnectionError):
    """The connection ended before the answer. The engine may have processed the request."""


class ProtocolError(Error):
    """The answer cannot be read."""


class Closed(Error):
    """The engine object is closed."""


class Forked(Error):
    """The engine object belongs to the parent process: create one after the fork."""


_BY_CODE: dict[str, type[Error]] = {
    "invalid_params": InvalidParams,
    "invalid_document": InvalidDocument,
    "invalid_selector": InvalidSelector,
    "unmatched_selector": UnmatchedSelector,
    "ambiguous_name": AmbiguousName,
    "invalid_envelope": InvalidEnvelope,
    "decrypt_failed": DecryptFailed,
    "number_out_of_range": NumberOutOfRange,
    "unknown_app": UnknownApp,
    "app_disabled": AppDisabled,
    "forbidden": Forbidden,
    "overloaded": Overloaded,
    "deadline_exceeded": DeadlineExceeded,
    "cancelled": Cancelled,
    "too_large": TooLarge,
    "unavailable": Unavailable,
    "internal": Internal,
    "invalid_settings": InvalidSettings,
    "connect_failed": ConnectFailed,
    "tls_failed": TlsFailed,
    "connection_lost": ConnectionLost,
    "going_away": ConnectionLost,
    "protocol_error": ProtocolError,
    "closed": Closed,
    "forked": Forked,
}


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
