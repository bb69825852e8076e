#!/usr/bin/env python3
"""Writes the corpus: one file of raw bytes for each case, and index.json with what must come of it.

    python3 vectors/http-smuggling/make.py          # needs the package hpack for the cases of HTTP/2

The files are what a client sends on a fresh connection, plain TCP for `.http`, TLS with ALPN h2 for `.h2`. README.md says how the
index reads.
"""

import json
import struct
from pathlib import Path

import hpack

HERE = Path(__file__).parent
HOST = "Host: front.test"
# The request that an attacker wants to get through.
HIDDEN = "GET /hidden HTTP/1.1\r\nHost: front.test\r\n\r\n"

CASES: list[dict[str, object]] = []


def add(name: str, about: str, content: bytes, ending: str, **outcome: object) -> None:
    CASES.append({"file": f"{name}.{ending}", "about": about, **outcome, "content": content})


def head(*lines: str, first: str = "POST /p HTTP/1.1", host: str | None = HOST) -> str:
    return "\r\n".join([first, *([host] if host else []), *lines]) + "\r\n\r\n"


def raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def refused(name: str, about: str, text: str | bytes, *, status: int = 400, begun: bool = False) -> None:
    """`begun`: the fault lies behind the head, so that the upstream may have seen the beginning of the request, never its end."""
    add(name, about, raw(text), "http", outcome="refused", status=status, begun=begun)


def forwarded(name: str, about: str, text: str | bytes, *requests: dict[str, object]) -> None:
    add(name, about, raw(text), "http", outcome="forwarded", requests=list(requests))


def request(method: str = "POST", target: str = "/p", body: str = "", **more: object) -> dict[str, object]:
    return {"method": method, "target": target, "body": body, **more}


def lengths() -> None:
    refused(
        "cl-te",
        "a length and chunks: the chunks end first",
        head("Content-Length: 6", "Transfer-Encoding: chunked") + "0\r\n\r\nG",
    )
    te_first = head("Transfer-Encoding: chunked", "Content-Length: 4") + "5c\r\n" + HIDDEN
    refused("te-cl", "chunks and a length: the length ends first", te_first + "0\r\n\r\n")
    refused(
        "cl-te-equal",
        "both, and both say the same",
        head("Content-Length: 10", "Transfer-Encoding: chunked") + "0\r\n\r\n",
    )
    refused("cl-twice-different", "two lengths", head("Content-Length: 3", "Content-Length: 30") + "abc" + HIDDEN)
    refused("cl-twice-equal", "the same length twice", head("Content-Length: 3", "Content-Length: 3") + "abc")
    for name, value in {
        "list-equal": "3, 3",
        "list-different": "3, 30",
        "list-empty": "3,",
        "plus": "+3",
        "minus": "-3",
        "hex": "0x3",
        "float": "3.0",
        "exponent": "3e0",
        "blank-inside": "1 0",
        "underscore": "1_0",
        "empty": "",
        "quoted": '"3"',
        "overflow-64": "18446744073709551619",
        "overflow-many": "9" * 400,
        "vertical-tab": "\x0b3",
        "no-break-space": "\xa03",
        "arabic-digit": "\u0663",
    }.items():
        value_bytes = value.encode("utf-8" if name == "arabic-digit" else "latin-1")
        content = (
            raw("POST /p HTTP/1.1\r\n" + HOST + "\r\nContent-Length: ") + value_bytes + raw("\r\n\r\nabc" + HIDDEN)
        )
        refused(f"cl-{name}", f"a length written {value[:24]!a}", content)
    forwarded(
        "cl-leading-zeros",
        "zeros before a length change nothing",
        head("Content-Length: 003") + "abc",
        request(body="abc"),
    )
    forwarded("cl-upper-case", "names of fields know no case", head("CONTENT-LENGTH: 3") + "abc", request(body="abc"))
    refused(
        "cl-underscore-name",
        "a gateway may take the name for the real one",
        head("Content-Length: 3", "Content_Length: 30") + "abc",
    )
    refused(
        "cl-http10-te",
        "HTTP/1.0 has no chunks",
        head("Transfer-Encoding: chunked", first="POST /p HTTP/1.0") + "0\r\n\r\n" + HIDDEN,
    )
    forwarded(
        "get-with-body",
        "a body belongs to whatever announces it",
        head(f"Content-Length: {len(HIDDEN)}", first="GET /p HTTP/1.1") + HIDDEN,
        request("GET", body=HIDDEN),
    )
    forwarded(
        "body-like-a-request",
        "a body that looks like a request is a body",
        head(f"Content-Length: {len(HIDDEN)}") + HIDDEN,
        request(body=HIDDEN),
    )
    forwarded(
        "no-length",
        "what follows a head without a length is the next request",
        head(first="POST /one HTTP/1.1") + HIDDEN,
        request(target="/one"),
        request("GET", "/hidden"),
    )


def codings() -> None:
    end = "0\r\n\r\n" + HIDDEN
    for name, value in {
        "unknown": "xchunked",
        "list": "chunked, identity",
        "list-first": "identity, chunked",
        "gzip": "gzip, chunked",
        "doubled": "chunked, chunked",
        "parameter": "chunked;q=1",
        "quoted": '"chunked"',
        "comma-before": ",chunked",
        "comma-behind": "chunked,",
        "empty": "",
        "vertical-tab": "\x0bchunked",
        "form-feed": "chunked\x0c",
        "no-break-space": "\xa0chunked",
        "null": "chunked\0",
        "identity": "identity",
        "kelvin-sign": "chun\xe2\x84\xaaed",
    }.items():
        refused(f"te-{name}", f"a coding written {value!a}", head(f"Transfer-Encoding: {value}") + end)
    twice = head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")
    refused("te-twice", "the same coding twice", twice + end)
    refused(
        "te-twice-different", "two codings", head("Transfer-Encoding: identity", "Transfer-Encoding: chunked") + end
    )
    refused("te-space-before-colon", "a space before the colon", head("Transfer-Encoding : chunked") + end)
    refused("te-tab-before-colon", "a tab before the colon", head("Transfer-Encoding\t: chunked") + end)
    refused("te-space-before-name", "a space before the name", head("X: y", " Transfer-Encoding: chunked") + end)
    refused("te-folded", "the value on a line of its own", head("Transfer-Encoding:", " chunked") + end)
    refused(
        "te-underscore-name", "a gateway may take the name for the real one", head("Transfer_Encoding: chunked") + end
    )
    refused("te-behind-lf", "a field behind a bare LF", head("X: y\nTransfer-Encoding: chunked") + end)
    refused("te-behind-cr", "a field behind a bare CR", head("X: y\rTransfer-Encoding: chunked") + end)
    refused("te-cr-behind", "a bare CR behind the value", head("Transfer-Encoding: chunked\r") + end)
    refused("te-behind-null", "a field behind a NUL", head("X: y\0Transfer-Encoding: chunked") + end)
    chunked = "3\r\nabc\r\n0\r\n\r\n"
    forwarded(
        "te-chunked", "chunks as they should be", head("Transfer-Encoding: chunked") + chunked, request(body="abc")
    )
    forwarded(
        "te-upper-case", "codings know no case", head("transfer-encoding:\tCHUNKED ") + chunked, request(body="abc")
    )
    forwarded(
        "te-field",
        "what TE asks for ends here",
        head("TE: chunked, gzip", "Content-Length: 3") + "abc",
        request(body="abc", absent=["te"]),
    )


def chunks() -> None:
    start = head("Transfer-Encoding: chunked")
    for name, line in {
        "hex-prefix": "0x3",
        "plus": "+3",
        "minus": "-3",
        "space-before": " 3",
        "space-behind": "3 ",
        "tab-behind": "3\t",
        "underscore": "0_3",
        "empty": "",
        "comma": "3,3",
        "overflow-64": "10000000000000003",
        "overflow-many": "f" * 200,
        "not-hex": "3g",
        "null": "3\0",
        "bare-cr": "3\r;",
        "extension-lf": "3;a\nb",
        "extension-cr": "3;a\rb",
        "extension-null": "3;a\0b",
        "extension-huge": "3;" + "a" * 100_000,
    }.items():
        refused(
            f"chunk-{name}",
            f"the line {line[:24]!a} before a chunk",
            start + f"{line}\r\nabc\r\n0\r\n\r\n" + HIDDEN,
            begun=True,
        )
    refused("chunk-lf", "a bare LF behind the length", start + "3\nabc\r\n0\r\n\r\n", begun=True)
    refused("chunk-lf-behind", "a bare LF behind the chunk", start + "3\r\nabc\n0\r\n\r\n", begun=True)
    refused("chunk-longer", "more than the chunk has", start + "3\r\nabcd\r\n0\r\n\r\n", begun=True)
    refused(
        "chunk-two-bytes-behind",
        "two other bytes where a line end should be",
        start + "3\r\nabcXX0\r\n\r\n" + HIDDEN,
        begun=True,
    )
    refused("chunk-last-lf", "bare LFs behind the last chunk", start + "3\r\nabc\r\n0\n\n" + HIDDEN, begun=True)
    refused("chunk-last-cr", "a bare CR behind the last chunk", start + "0\r\n\r" + "X" + HIDDEN, begun=True)
    for name, line in {
        "content-length": "Content-Length: 3",
        "transfer-encoding": "Transfer-Encoding: chunked",
        "host": "Host: other.test",
        "folded": " folded",
        "no-colon": "nonsense",
        "space-before-colon": "X : y",
        "null": "X: \0",
        "bare-lf": "X: y\nZ: a",
    }.items():
        refused(
            f"trailer-{name}", f"the trailer {line!a}", start + f"3\r\nabc\r\n0\r\n{line}\r\n\r\n" + HIDDEN, begun=True
        )
    forwarded(
        "chunk-extension", "an extension ends here", start + '3;a=b;c="d"\r\nabc\r\n0\r\n\r\n', request(body="abc")
    )
    forwarded(
        "chunk-leading-zeros",
        "zeros before a length change nothing",
        start + "0000003\r\nabc\r\n000\r\n\r\n",
        request(body="abc"),
    )
    forwarded(
        "chunk-like-a-request",
        "a chunk that looks like a request is a chunk",
        start + f"{len(HIDDEN):X}\r\n{HIDDEN}\r\n0\r\n\r\n",
        request(body=HIDDEN),
    )


def lines() -> None:
    for name, line in {
        "no-colon": "nonsense",
        "empty-name": ": value",
        "space-in-name": "X Y: value",
        "control-in-name": "X\x01: value",
        "high-in-name": "X\xe9: value",
        "parenthesis-in-name": "X(Y): value",
        "null-in-value": "X: a\0b",
        "control-in-value": "X: a\x1bb",
        "delete-in-value": "X: a\x7fb",
        "cr-in-value": "X: a\rb",
        "lf-in-value": "X: a\nGET /hidden HTTP/1.1\nHost: front.test",
        "folded": "X: a\r\n b",
        "folded-tab": "X: a\r\n\tb",
    }.items():
        refused(f"field-{name}", f"the field {line!a}", head(line, "Content-Length: 0"))
    refused("field-first-folded", "the first line of the header begins with a space", head(host=" " + HOST) + "")
    refused("lf-only", "line ends without CR", f"GET /p HTTP/1.1\n{HOST}\n\n")
    refused(
        "lf-ends-head", "a head that ends in bare LFs, with a request behind", f"GET /p HTTP/1.1\r\n{HOST}\n\n" + HIDDEN
    )
    refused("cr-only", "line ends without LF", f"GET /p HTTP/1.1\r{HOST}\r\r\r\n\r\n")
    refused("lf-before", "a bare LF before the request", "\n" + head("Content-Length: 0"))
    forwarded(
        "empty-line-before",
        "an empty line before a request is to be ignored",
        "\r\n" + head("Content-Length: 0"),
        request(),
    )
    for name, line in {
        "lower-case": "POST /p http/1.1",
        "http-0.9": "GET /p",
        "http-1.2": "POST /p HTTP/1.2",
        "http-2": "POST /p HTTP/2.0",
        "http-1.10": "POST /p HTTP/1.10",
        "http-1": "POST /p HTTP/1",
        "two-spaces": "POST  /p HTTP/1.1",
        "two-spaces-behind": "POST /p  HTTP/1.1",
        "tab": "POST\t/p\tHTTP/1.1",
        "space-before": " POST /p HTTP/1.1",
        "space-behind": "POST /p HTTP/1.1 ",
        "space-in-target": "POST /p /q HTTP/1.1",
        "cr-in-target": "POST /p\r/q HTTP/1.1",
        "null-in-target": "POST /p\0 HTTP/1.1",
        "high-in-target": "POST /\xe9 HTTP/1.1",
        "fragment": "POST /p#q HTTP/1.1",
        "method-null": "PO\0ST /p HTTP/1.1",
        "method-slash": "PO/ST /p HTTP/1.1",
        "method-colon": "Host: /p HTTP/1.1",
        "no-slash": "POST p HTTP/1.1",
        "authority": "GET front.test:80 HTTP/1.1",
        "asterisk": "GET * HTTP/1.1",
        "absolute-other": "POST http://other.test/p HTTP/1.1",
        "absolute-user": "POST http://front.test@other.test/p HTTP/1.1",
        "absolute-user-hidden": "POST http://other.test@front.test/p HTTP/1.1",
        "absolute-port": "POST http://front.test:81/p HTTP/1.1",
        "absolute-empty": "POST http:///p HTTP/1.1",
    }.items():
        refused(f"line-{name}", f"the request line {line!a}", head("Content-Length: 0", first=line))
    ftp = head("Content-Length: 0", "Connection: close", first="POST ftp://front.test/p HTTP/1.1")
    refused("line-absolute-ftp", "an absolute target of another scheme", ftp)
    refused(
        "line-connect",
        "a tunnel through a reverse proxy",
        head("Connection: close", first="CONNECT other.test:443 HTTP/1.1", host="Host: other.test:443"),
        status=405,
    )
    forwarded(
        "line-absolute",
        "an absolute target for the same host goes on as a path",
        head("Content-Length: 0", first="POST http://front.test/p?q HTTP/1.1"),
        request(target="/p?q", host="front.test"),
    )


def hosts() -> None:
    empty = "Content-Length: 0"
    refused("host-none", "no Host", head(empty, host=None))
    refused(
        "host-none-http10",
        "HTTP/1.0 without Host: what goes on would have none either",
        head(empty, first="POST /p HTTP/1.0", host=None),
    )
    refused("host-empty", "an empty Host names no host", head(empty, "Connection: close", host="Host:"))
    refused("host-twice-equal", "the same Host twice", head(HOST, empty))
    refused("host-twice-different", "two Hosts", head("Host: other.test", empty))
    refused("host-twice-case", "two Hosts in another case", head("hOST: other.test", empty))
    for name, value in {
        "blank": "front.test other.test",
        "list": "front.test, other.test",
        "user": "front.test@other.test",
        "path": "front.test/other",
        "fragment": "front.test#other",
        "backslash": "front.test\\other",
        "null": "front.test\0",
        "high": "front\xe9.test",
        "quoted": '"front.test"',
        "angle": "<front.test>",
    }.items():
        refused(f"host-{name}", f"Host: {value!a}", head(empty, host=f"Host: {value}"))
    refused("host-space-before-colon", "a space before the colon", head(empty, host="Host : front.test"))
    refused("host-folded", "the value on a line of its own", head(empty, host="Host:\r\n front.test"))
    refused("host-folded-behind", "a second host on a folded line", head(empty, host="Host: front.test\r\n other.test"))


def hops() -> None:
    for name in ("Content-Length", "Transfer-Encoding", "Host", "Content-Type", "Authorization", "Cookie"):
        refused(
            f"hop-{name.lower()}",
            f"Connection names {name}",
            head(f"Connection: close, {name}", "Content-Length: 3") + "abc",
        )
    refused(
        "hop-malformed", "Connection names what is no name", head("Connection: close, a b", "Content-Length: 3") + "abc"
    )
    upgrade = head(
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        first="GET /p HTTP/1.1",
    )
    forwarded(
        "upgrade-h2c",
        "HTTP/2 over plain TCP is not offered, and not passed on",
        upgrade,
        request("GET", absent=["upgrade", "http2-settings", "connection"]),
    )
    forwarded(
        "hop-fields",
        "fields of one hop end here",
        head("Connection: X-Own", "X-Own: 1", "Keep-Alive: 300", "Proxy-Connection: keep-alive", "Content-Length: 0"),
        request(absent=["x-own", "keep-alive", "proxy-connection"]),
    )


def sizes() -> None:
    refused("huge-field", "a field of 64 KiB", head("X: " + "a" * 65_536, "Content-Length: 0"), status=431)
    refused(
        "huge-line", "a target of 64 KiB", head("Content-Length: 0", first=f"GET /{'a' * 65_536} HTTP/1.1"), status=431
    )
    refused(
        "many-fields",
        "ten thousand fields",
        head(*[f"X-{index}: y" for index in range(10_000)], "Content-Length: 0"),
        status=431,
    )
    refused("many-small-fields", "a thousand small fields", head(*["a:b"] * 1000, "Content-Length: 0"), status=431)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, CONTINUATION = 0x0, 0x1, 0x4, 0x9
END_STREAM, END_HEADERS = 0x1, 0x4


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def block(fields: list[tuple[str, str]]) -> bytes:
    """Without Huffman's coding and without an index, so that a reader sees in the file what is sent."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(
        [hpack.NeverIndexedHeaderTuple(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields],
        huffman=False,
    )


PSEUDO = {":method": "POST", ":scheme": "https", ":authority": "front.test", ":path": "/p"}


def stream(fields: list[tuple[str, str]], *data: bytes, trailers: list[tuple[str, str]] | None = None) -> bytes:
    ends = END_STREAM if not data and trailers is None else 0
    frames = [PREFACE, frame(SETTINGS, 0, 0, b""), frame(HEADERS, END_HEADERS | ends, 1, block(fields))]
    for index, piece in enumerate(data):
        is_last = index == len(data) - 1 and trailers is None
        frames.append(frame(DATA, END_STREAM if is_last else 0, 1, piece))
    if trailers is not None:
        frames.append(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(trailers)))
    return b"".join(frames)


def pseudo(**changed: str | None) -> list[tuple[str, str]]:
    fields = {**PSEUDO, **{f":{name}": value for name, value in changed.items()}}
    return [(name, value) for name, value in fields.items() if value is not None]


def refused_2(name: str, about: str, content: bytes, *, begun: bool = False) -> None:
    add(f"h2-{name}", about, content, "h2", outcome="refused", begun=begun)


def forwarded_2(name: str, about: str, content: bytes, *requests: dict[str, object]) -> None:
    add(f"h2-{name}", about, content, "h2", outcome="forwarded", requests=list(requests))


def http2() -> None:
    hidden = "GET /hidden HTTP/1.1\r\nHost: front.test"
    for name, changed in {
        "path-crlf": {"path": f"/p HTTP/1.1\r\nHost: front.test\r\n\r\n{hidden}"},
        "path-space": {"path": "/p HTTP/1.1"},
        "path-tab": {"path": "/p\tq"},
        "path-null": {"path": "/p\0q"},
        "path-empty": {"path": ""},
        "path-none": {"path": None},
        "path-no-slash": {"path": "p"},
        "path-asterisk": {"path": "*"},
        "path-absolute": {"path": "http://other.test/p"},
        "method-crlf": {"method": f"{hidden}\r\nX: POST"},
        "method-space": {"method": "GET /hidden HTTP/1.1"},
        "method-empty": {"method": ""},
        "method-none": {"method": None},
        "scheme-crlf": {"scheme": "https\r\nX: y"},
        "scheme-url": {"scheme": "https://other.test/hidden?"},
        "scheme-none": {"scheme": None},
        "authority-crlf": {"authority": "front.test\r\nX-Injected: 1"},
        "authority-space": {"authority": "front.test other.test"},
        "authority-user": {"authority": "other.test@front.test"},
        "authority-path": {"authority": "front.test/hidden"},
        "authority-list": {"authority": "front.test,other.test"},
        "authority-empty": {"authority": ""},
    }.items():
        shown = next(iter(changed.values()))
        refused_2(name, f":{next(iter(changed))} is {shown!a}", stream(pseudo(**changed)))
    refused_2("host-none", "neither :authority nor host", stream(pseudo(authority=None)))
    refused_2("host-other", "another host than :authority", stream([*pseudo(), ("host", "other.test")]))
    refused_2(
        "host-twice",
        "two fields host",
        stream([*pseudo(authority=None), ("host", "front.test"), ("host", "other.test")]),
    )
    refused_2("unknown-pseudo", "a pseudo-header that there is not", stream([*pseudo(), (":hidden", "1")]))
    refused_2("pseudo-twice", ":path twice", stream([*pseudo(), (":path", "/hidden")]))
    refused_2("pseudo-behind", "a pseudo-header behind a field", stream([("x", "y"), *pseudo()]))
    for name, field in {
        "transfer-encoding": ("transfer-encoding", "chunked"),
        "connection": ("connection", "close"),
        "keep-alive": ("keep-alive", "1"),
        "proxy-connection": ("proxy-connection", "close"),
        "upgrade": ("upgrade", "websocket"),
        "te": ("te", "chunked"),
        "upper-case": ("X-Upper", "1"),
        "name-crlf": ("x\r\ntransfer-encoding: chunked\r\nz", "1"),
        "name-colon": ("transfer-encoding: chunked", "1"),
        "name-space": ("transfer-encoding ", "chunked"),
        "name-empty": ("", "1"),
        "value-crlf": ("x", "1\r\ntransfer-encoding: chunked"),
        "value-lf": ("x", "1\ntransfer-encoding: chunked"),
        "value-null": ("x", "1\0"),
    }.items():
        body = stream([*pseudo(), field], b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: front.test\r\n\r\n")
        refused_2(name, f"the field {field[0]!a}: {field[1]!a}", body, begun=False)
    length = ("content-length", "3")
    refused_2(
        "cl-shorter",
        "more data than the length says",
        stream([*pseudo(), length], b"abc" + HIDDEN.encode()),
        begun=True,
    )
    refused_2(
        "cl-longer", "less data than the length says", stream([*pseudo(), ("content-length", "30")], b"abc"), begun=True
    )
    refused_2("cl-no-data", "a length and no data", stream([*pseudo(), length]), begun=True)
    refused_2(
        "cl-twice-different", "two lengths", stream([*pseudo(), length, ("content-length", "30")], b"abc"), begun=True
    )
    refused_2(
        "cl-not-a-number", "a length that is none", stream([*pseudo(), ("content-length", "3\x0b")], b"abc"), begun=True
    )
    refused_2("cl-list", "a list of lengths", stream([*pseudo(), ("content-length", "3, 30")], b"abc"), begun=True)
    forwarded_2("plain", "a request as it should be", stream(pseudo(), b"abc"), request(body="abc", host="front.test"))
    forwarded_2("length", "a length that is right", stream([*pseudo(), length], b"ab", b"c"), request(body="abc"))
    forwarded_2(
        "body-like-a-request",
        "data that looks like a chunk and a request is data",
        stream(pseudo(), b"0\r\n\r\n" + HIDDEN.encode()),
        request(body="0\r\n\r\n" + HIDDEN),
    )
    forwarded_2(
        "host-equal",
        "the same host twice over",
        stream([*pseudo(), ("host", "front.test")]),
        request(host="front.test"),
    )
    forwarded_2(
        "path-fragment", "what stands behind # is cut off before anybody looks", stream(pseudo(path="/p#q")), request()
    )
    forwarded_2(
        "cookies",
        "cookies in pieces become one field",
        stream([*pseudo(), ("cookie", "a=1"), ("cookie", "b=2")]),
        request(fields={"cookie": ["a=1; b=2"]}),
    )
    forwarded_2(
        "trailer-pseudo",
        "a pseudo-header in the trailers comes to nothing",
        stream(pseudo(), b"abc", trailers=[(":path", "/hidden")]),
        request(body="abc"),
    )
    forwarded_2("te-trailers", "the one word that TE may say", stream([*pseudo(), ("te", "trailers")]), request())


def main() -> None:
    for make in (lengths, codings, chunks, lines, hosts, hops, sizes, http2):
        make()
    for old in [*HERE.glob("*.http"), *HERE.glob("*.h2")]:
        old.unlink()
    for case in CASES:
        (HERE / str(case["file"])).write_bytes(case.pop("content"))
    text = ",\n".join(f"  {json.dumps(case)}" for case in CASES)
    (HERE / "index.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
