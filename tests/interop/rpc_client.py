"""A client of the engine, written from `docs/protocol.md` alone over `ssl` and `msgpack`: one connection, one thread.

Requests are sent immediately and answers are accepted in any order, so that several can be in flight.
"""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import msgpack

ALPN = "leafseal/1"
REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2
FRAME_SIZE_MAX = 1 << 30
READ_SIZE = 1 << 16
ANSWER_SECONDS_MAX = 60


class RpcError(Exception):
    """An error of the engine; without an id it is a connection error."""

    def __init__(self, error: dict[str, object]):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.message = error["message"]
        self.retry = error["retry"]
        self.index = error.get("index")
        self.offset = error.get("offset")


class ConnectionFailed(RpcError):
    """A `connection_error` notification."""


class ConnectionEnded(Exception):
    """The engine closed the connection without a notification."""


@dataclass(frozen=True)
class Identity:
    """Paths of PEM files. Without certificate and key the client is anonymous."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None

    def context(self, alpn: str = ALPN) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols([alpn])
        context.load_verify_locations(self.ca)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context


class Client:
    """`host` must also be a name in the engine's certificate."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext):
        plain = socket.create_connection(address, timeout=ANSWER_SECONDS_MAX)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._stream = context.wrap_socket(plain, server_hostname=address[0])
        except BaseException:
            plain.close()
            raise
        self._unpacker = msgpack.Unpacker(raw=False, strict_map_key=True, max_buffer_size=FRAME_SIZE_MAX)
        self._answers: dict[int, tuple[dict[str, object] | None, object]] = {}
        self._next_id = 0
        self.arrived: list[int] = []

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def tls_version(self) -> str | None:
        return self._stream.version()

    @property
    def alpn(self) -> str | None:
        return self._stream.selected_alpn_protocol()

    def call(self, method: str, **fields: object) -> dict[str, object]:
        """Returns the result; raises RpcError if the answer is an error."""
        return self.answer(self.send(method, **fields))

    def send(self, method: str, **fields: object) -> int:
        """Sends a request and returns its id, for `answer` and `cancel`."""
        request_id = self._next_id
        self._next_id += 1
        self.send_message([REQUEST, request_id, method, [fields]])
        return request_id

    def reserve(self, last_id: int) -> None:
        """Reserves ids up to `last_id` for messages that the caller encodes."""
        self._next_id = last_id + 1

    def cancel(self, request_id: int) -> None:
        self.send_message([NOTIFICATION, "cancel", [request_id]])

    def send_message(self, message: object) -> None:
        self.send_bytes(msgpack.packb(message, use_bin_type=True))

    def send_bytes(self, content: bytes) -> None:
        self._stream.sendall(content)

    def answer(self, request_id: int) -> dict[str, object]:
        """Waits for the answer to this request and stores answers that arrive before it."""
        while request_id not in self._answers:
            self._take(self._message())
        error, result = self._answers.pop(request_id)
        if error is not None:
            raise RpcError(error)
        return result

    def _take(self, message: list[object]) -> None:
        if message[0] == NOTIFICATION:
            if message[1] == "connection_error":
                raise ConnectionFailed(message[2][0])
            return
        kind, request_id, error, result = message
        assert kind == RESPONSE and request_id < self._next_id and request_id not in self._answers
        assert error is None or result is None
        self.arrived.append(request_id)
        self._answers[request_id] = (error, result)

    def _message(self) -> list[object]:
        while True:
            for message in self._unpacker:
                return message
            received = self._stream.recv(READ_SIZE)
            if not received:
                raise ConnectionEnded
            self._unpacker.feed(received)
