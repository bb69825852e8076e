"""Raw bytes on a socket, for requests that no client library would send, and parsers of the responses."""

import socket
import ssl
from pathlib import Path

import h2.connection
import h2.events
import hpack
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

SECONDS_MAX = 60
READ_SIZE = 1 << 16
FRAME_HEAD_SIZE = 9


class Closed(Exception):
    """The peer closed the connection without a response."""


def connect(port: int, ca: Path | None = None, alpn: str = "http/1.1") -> socket.socket:
    """Connects, over TLS if `ca` is set. Times out after SECONDS_MAX."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not ca:
        return plain
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols([alpn])
    stream = context.wrap_socket(plain, server_hostname="localhost")
    assert stream.selected_alpn_protocol() == alpn
    return stream


def read_to_end(stream: socket.socket) -> bytes:
    """Reads until the peer closes or resets the connection."""
    data = bytearray()
    while True:
        try:
            piece = stream.recv(READ_SIZE)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return bytes(data)
        if not piece:
            return bytes(data)
        data += piece


class AnswerReader:
    """Reads HTTP/1.1 responses with a Content-Length."""

    def __init__(self, stream: socket.socket):
        self.stream = stream
        self.buffer = b""

    def next(self) -> tuple[int, bytes]:
        """Status and body."""
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        first, *lines = head.split(b"\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        size = int(fields.get(b"content-length", b"0"))
        while len(self.buffer) < size:
            self._fill()
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return int(first.split(b" ")[1]), body

    def _fill(self) -> None:
        try:
            data = self.stream.recv(READ_SIZE)
        except (ConnectionError, ssl.SSLEOFError):
            data = b""
        if not data:
            raise Closed(self.buffer)
        self.buffer += data


class Http2Client:
    """An HTTP/2 connection over TLS with concurrent requests."""

    def __init__(self, port: int, ca: Path):
        self.stream = connect(port, ca, "h2")
        self.connection = h2.connection.H2Connection()
        self.connection.initiate_connection()
        self._flush()

    def posts(self, path: str, body: bytes, content_type: str, count: int) -> list[tuple[int, str | None]]:
        """Sends the same request `count` times concurrently; returns status and `Retry-After` of each response."""
        fields = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        waiting, heads = set(), {}
        for _ in range(count):
            number = self.connection.get_next_available_stream_id()
            self.connection.send_headers(number, [*fields, ("content-type", content_type)])
            self.connection.send_data(number, body, end_stream=True)
            waiting.add(number)
        self._flush()
        while waiting:
            data = self.stream.recv(READ_SIZE)
            if not data:
                raise Closed
            for event in self.connection.receive_data(data):
                if isinstance(event, (h2.events.ConnectionTerminated, h2.events.StreamReset)):
                    raise Closed(repr(event))
                if isinstance(event, h2.events.ResponseReceived):
                    heads[event.stream_id] = {bytes(name): bytes(value).decode() for name, value in event.headers}
                if isinstance(event, h2.events.DataReceived):
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if isinstance(event, h2.events.StreamEnded):
                    waiting.remove(event.stream_id)
            self._flush()
        return [(int(head[b":status"]), head.get(b"retry-after")) for head in heads.values()]

    def close(self) -> None:
        self.stream.close()

    def _flush(self) -> None:
        self.stream.sendall(self.connection.data_to_send())


def read_exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise Closed(data)
        data += piece
    return data


def read_frame(stream: socket.socket) -> Frame:
    """The next frame of HTTP/2."""
    frame, size = Frame.parse_frame_header(memoryview(read_exactly(stream, FRAME_HEAD_SIZE)))
    frame.parse_body(memoryview(read_exactly(stream, size)))
    return frame


def http2_outcome(stream: socket.socket) -> int | str:
    """The outcome of stream 1: its status once it has ended, or `reset`, `goaway` or `closed`."""
    decoder, block, status = hpack.Decoder(), b"", 0
    while True:
        try:
            frame = read_frame(stream)
        except (Closed, ConnectionError, ssl.SSLEOFError):
            return "closed"
        if isinstance(frame, GoAwayFrame) and frame.error_code:
            return "goaway"
        if isinstance(frame, RstStreamFrame):
            # NO_ERROR after a response: the rest of the request is not needed.
            return status or "reset"
        if isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            stream.sendall(PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize())
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            stream.sendall(SettingsFrame(0, flags=["ACK"]).serialize())
        if isinstance(frame, (HeadersFrame, ContinuationFrame)):
            block += frame.data
            if "END_HEADERS" in frame.flags:
                fields = dict(decoder.decode(block))
                block, status = b"", status or int(fields[":status"])
        if isinstance(frame, (HeadersFrame, DataFrame)) and "END_STREAM" in frame.flags:
            return status
