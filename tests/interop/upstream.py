"""A recording upstream: an HTTP/1.1 server that keeps received requests byte by byte and sends the response that a test sets.

It parses more strictly than common servers: malformed input is added to `faults`, so that a test can check that the relay sent exactly
one valid request and nothing after it.
"""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Headers = list[tuple[str, str]]

HEAD_SIZE_MAX = 1 << 20
READ_SIZE = 1 << 16
# Longer than any pause of a test: a peer that is silent for this time is gone.
SILENCE_SECONDS_MAX = 60
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) (HTTP/1\.[01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})")
_LENGTH = re.compile(r"[0-9]{1,18}")


class Malformed(Exception):
    """Malformed input."""


class Gone(Exception):
    """The peer closed the connection within a message."""


@dataclass(frozen=True)
class Received:
    """A complete request. `connection` counts from 0; `head` is its bytes up to the empty line."""

    connection: int
    method: str
    target: str
    headers: Headers
    head: bytes
    body: bytes
    trailers: Headers

    @property
    def path(self) -> str:
        return self.target.split("?")[0]

    def values(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        values = self.values(name)
        return values[0] if values else None


@dataclass
class Answer:
    """`pieces` go out as chunks, each as soon as it is made; else `body` goes out with its length.

    `declared` says another length than the body has: the connection is closed behind it. With `cut` it is closed where the last
    chunk should be, and with `silent` before any answer.
    """

    status: int = 200
    headers: Headers = field(default_factory=list)
    body: bytes = b""
    pieces: Iterable[bytes] | None = None
    trailers: Headers = field(default_factory=list)
    declared: int | None = None
    cut: bool = False
    silent: bool = False


def ok(body: bytes = b"ok", content_type: str = "text/plain", *headers: tuple[str, str]) -> Answer:
    return Answer(headers=[("Content-Type", content_type), *headers], body=body)


def echo(request: Received) -> Answer:
    """Returns the body of the request with its type and coding."""
    kept = ("content-type", "content-encoding")
    return Answer(headers=[field for field in request.headers if field[0].lower() in kept], body=request.body)


class Upstream:
    """Serves on a free port of 127.0.0.1; plain HTTP without a context."""

    def __init__(self, context: ssl.SSLContext | None = None):
        self.context = context
        self.requests: list[Received] = []
        self.faults: list[str] = []
        # Messages that ended in the middle, of those that began since the last `clear`: a connection is cut some time after the test
        # that made it so has its answer.
        self.gone = 0
        self._generation = 0
        # Number of heads read, including requests whose body never arrives.
        self.heads = 0
        self.connections = 0
        self.answer: Callable[[Received], Answer] = lambda _: ok()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}" if self.context else f"http://127.0.0.1:{self.port}"

    def clear(self) -> None:
        """Clears recorded requests and resets the response to `ok`."""
        with self._lock:
            self.requests, self.faults, self.gone, self.heads = [], [], 0, 0
            self._generation += 1
            self.answer = lambda _: ok()

    def only(self) -> Received:
        """The one request since the last `clear`."""
        assert (self.faults, self.gone) == ([], 0), self.faults
        assert len(self.requests) == 1, self.requests
        return self.requests[0]

    def saw_nothing(self) -> bool:
        return not (self.requests or self.faults or self.gone)

    def serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                number, self.connections = self.connections, self.connections + 1
                self._open.add(stream)
            threading.Thread(target=self._connection, args=(stream, number), daemon=True).start()

    def close(self) -> None:
        # Closing alone would leave the thread in `accept`.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        """Closes every connection, whatever it is doing."""
        with self._lock:
            streams = list(self._open)
        for stream in streams:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _connection(self, plain: socket.socket, number: int) -> None:
        stream: socket.socket = plain
        reader = None
        try:
            plain.settimeout(SILENCE_SECONDS_MAX)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                stream = self.context.wrap_socket(plain, server_side=True)
            reader = _Reader(stream, lambda: self._generation, self._head_read)
            self._serve(reader, number)
        except Malformed as malformed:
            with self._lock:
                self.faults.append(str(malformed))
        except Gone:
            with self._lock:
                self.gone += reader.generation == self._generation
        except (OSError, ssl.SSLError):
            # A client that left between two requests, or refused our certificate.
            pass
        finally:
            with self._lock:
                self._open.discard(plain)
            stream.close()
            plain.close()

    def _head_read(self) -> None:
        with self._lock:
            self.heads += 1

    def _serve(self, reader: "_Reader", number: int) -> None:
        while (request := _read_request(reader, number)) is not None:
            with self._lock:
                self.requests.append(request)
                answer = self.answer
            reply = answer(request)
            if reply.silent:
                return
            if not _send(reader.stream, reply, request.method) or reply.cut:
                return


class _Reader:
    """Buffered reading that distinguishes an end between messages from one inside."""

    def __init__(self, stream: socket.socket, now: Callable[[], int], head_read: Callable[[], None]):
        self.stream = stream
        self.now = now
        self.head_read = head_read
        self.buffer = bytearray()
        # In which generation the message began that is being read; none before its first byte.
        self.generation: int | None = None

    def _fill(self) -> bool:
        data = self.stream.recv(READ_SIZE)
        if data and self.generation is None:
            self.generation = self.now()
        self.buffer += data
        return bool(data)

    def head(self) -> bytes | None:
        self.generation = self.now() if self.buffer else None
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            if len(self.buffer) > HEAD_SIZE_MAX:
                raise Malformed("a head without an end")
            if not self._fill():
                if self.buffer:
                    raise Gone
                return None
        self.head_read()
        return self._take(end + 4)[:-4]

    def line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n")) < 0:
            if len(self.buffer) > HEAD_SIZE_MAX:
                raise Malformed("a line without an end")
            if not self._fill():
                raise Gone
        return self._take(end + 2)[:-2]

    def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            if not self._fill():
                raise Gone
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken


def _read_fields(lines: Iterable[bytes]) -> Headers:
    fields = []
    for line in lines:
        match = _FIELD.fullmatch(line)
        if not match:
            raise Malformed(f"the field {line!r}")
        fields.append((match[1].decode("latin-1"), match[2].decode("latin-1")))
    return fields


def _read_request(reader: _Reader, number: int) -> Received | None:
    head = reader.head()
    if head is None:
        return None
    first, *lines = head.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line:
        raise Malformed(f"the request line {first!r}")
    headers = _read_fields(lines)
    named = {name: [v for known, v in headers if known.lower() == name] for name in _FRAMING}
    if len(named["host"]) != 1:
        raise Malformed(f"Host: {named['host']}")
    body, trailers = _read_body(reader, named["content-length"], named["transfer-encoding"])
    return Received(number, line[1].decode(), line[2].decode(), headers, head, body, trailers)


_FRAMING = ("host", "content-length", "transfer-encoding")


def _read_body(reader: _Reader, lengths: list[str], codings: list[str]) -> tuple[bytes, Headers]:
    if lengths and codings:
        raise Malformed("both Content-Length and Transfer-Encoding")
    if codings:
        if codings != ["chunked"]:
            raise Malformed(f"Transfer-Encoding: {codings}")
        return _read_chunks(reader)
    if not lengths:
        return b"", []
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Malformed(f"Content-Length: {lengths}")
    return reader.exactly(int(lengths[0])), []


def _read_chunks(reader: _Reader) -> tuple[bytes, Headers]:
    body = bytearray()
    while True:
        line = reader.line()
        size = _CHUNK_SIZE.fullmatch(line)
        if not size:
            raise Malformed(f"the chunk {line!r}")
        if not int(size[1], 16):
            break
        body += reader.exactly(int(size[1], 16))
        if reader.exactly(2) != b"\r\n":
            raise Malformed("a chunk without an end")
    lines = []
    while line := reader.line():
        lines.append(line)
    return bytes(body), _read_fields(lines)


def _send(stream: socket.socket, answer: Answer, method: str) -> bool:
    """Whether the connection may be used again."""
    lines = [f"HTTP/1.1 {answer.status} Because"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    has_body = method != "HEAD" and answer.status >= 200 and answer.status not in (204, 304)
    if answer.pieces is not None:
        lines.append("Transfer-Encoding: chunked")
    elif answer.status >= 200 and answer.status != 204:
        declared = len(answer.body) if answer.declared is None else answer.declared
        lines.append(f"Content-Length: {declared}")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    if not has_body:
        stream.sendall(head)
        return True
    if answer.pieces is None:
        stream.sendall(head + answer.body)
        return answer.declared is None
    stream.sendall(head)
    for piece in answer.pieces:
        stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    if answer.cut:
        return False
    trailers = "".join(f"{name}: {value}\r\n" for name, value in answer.trailers)
    stream.sendall(b"0\r\n" + trailers.encode("latin-1") + b"\r\n")
    return True


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    upstream = Upstream(context)
    thread = threading.Thread(target=upstream.serve, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.close()
        thread.join()


def wait_until(holds: Callable[[], bool], seconds_max: float = 60) -> None:
    """Waits for a condition that another thread or process fulfils."""
    end = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < end, f"not within {seconds_max} s"
        time.sleep(0.01)
