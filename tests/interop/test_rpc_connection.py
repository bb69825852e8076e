"""The connection, after `docs/protocol.md`: order, cancel, deadlines, invalid frames, and unacceptable certificates."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
from cryptography import x509

from certificates import Authority, tomorrow, yesterday
from conftest import APP
from engine import Engine
from rpc_client import ALPN, Client, ConnectionEnded, ConnectionFailed, Identity, RpcError

# 60,000 values with a key agreement each take seconds, so that later requests overtake it.
LONG_WORK = {"app": APP, "keying": "field", "values": ["x"] * 60_000}


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    with engine.connect() as client:
        yield client


def code_of(client: Client, request_id: int) -> str:
    with pytest.raises(RpcError) as error:
        client.answer(request_id)
    return error.value.code


def test_the_connection_is_what_the_document_says(client: Client) -> None:
    assert (client.tls_version, client.alpn) == ("TLSv1.3", ALPN)


def test_answers_come_when_they_are_ready(client: Client) -> None:
    long = client.send("encrypt", **LONG_WORK)
    short = client.send("encrypt", app=APP, values=["small"])
    assert len(client.answer(short)["values"]) == 1
    assert client.arrived == [short]
    client.cancel(long)
    assert code_of(client, long) == "cancelled"


def test_many_in_flight(client: Client) -> None:
    sent = [client.send("encrypt", app=APP, values=[number]) for number in range(200)]
    sealed = [client.answer(request_id)["values"][0] for request_id in reversed(sent)]
    assert client.call("decrypt", app=APP, values=sealed)["values"] == list(reversed(range(200)))


def test_cancel_of_nothing_does_nothing(client: Client) -> None:
    client.cancel(4_294_967_295)
    client.send_message([2, "some_day", [{"unknown": True}]])
    assert client.call("health") == {"status": "ok"}


def test_deadlines_pass(client: Client) -> None:
    with pytest.raises(RpcError) as error:
        client.call("encrypt", deadline_ms=20, **LONG_WORK)
    assert (error.value.code, error.value.retry) == ("deadline_exceeded", "later")


def test_a_message_may_come_in_pieces(client: Client) -> None:
    message = bytes.fromhex("94 00 00 a6") + b"health" + bytes.fromhex("90")
    client.reserve(0)
    for byte in message:
        client.send_bytes(bytes([byte]))
    assert client.answer(0) == {"status": "ok"}


def test_every_encoding_is_accepted(client: Client) -> None:
    """Encodes with longer types than necessary: array 32, uint 64, str 32."""
    longest = "dd 00000004 cf 0000000000000000 cf 0000000000000000 db 00000006"
    client.send_bytes(bytes.fromhex(longest) + b"health" + bytes.fromhex("dd 00000000"))
    client.reserve(0)
    assert client.answer(0) == {"status": "ok"}


def test_a_large_message_goes_through_both_ways(client: Client) -> None:
    document = b'{"pad": "' + b"x" * (20 << 20) + b'", "value": 1}'
    sealed = client.call("encrypt_document", app=APP, select=["$.value"], document=document)
    assert sealed["count"] == 1 and len(sealed["document"]) > len(document)
    assert client.call("decrypt_document", app=APP, document=sealed["document"])["document"] == document


@pytest.mark.parametrize(
    "message",
    [
        [0, 5],
        [0, 5, "health"],
        [0, 5, msgpack.ExtType(1, b"x"), []],
        [0, 5, "health", [{"app": msgpack.ExtType(1, b"x")}]],
        [0, 5, 7, []],
        [0, 5, "health", {}],
        [0, 5, "health", [], 1],
        [0, 5, "health", [{}, {}]],
    ],
    ids=repr,
)
def test_no_message_but_an_id(client: Client, message: object) -> None:
    client.reserve(5)
    client.send_message(message)
    assert code_of(client, 5) in ("invalid_request", "invalid_params")
    client.send_message([0, 5, "health", [{}]])
    assert client.answer(5) == {"status": "ok"}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("c1", "invalid_frame"),
        ("07", "invalid_request"),
        ("a3 616263", "invalid_request"),
        ("93 09 00 00", "invalid_request"),
        ("94 00 ff a6 6865616c7468 90", "invalid_request"),
        ("94 00 a1 78 a6 6865616c7468 90", "invalid_request"),
        ("dd ffffffff", "too_large"),
        ("94 00 07 c6 ffffffff", "too_large"),
        ("91" * 40, "invalid_frame"),
        (b"GET / HTTP/1.1".hex(), "invalid_request"),
    ],
)
def test_what_cannot_go_on_is_told_and_ended(engine: Engine, content: str, code: str) -> None:
    with engine.connect() as client:
        client.reserve(7)
        client.send_bytes(bytes.fromhex(content))
        with pytest.raises(ConnectionFailed) as error:
            client.answer(7)
        assert error.value.code == code
        with pytest.raises((ConnectionEnded, ssl.SSLEOFError)):
            client.answer(7)
    with engine.connect() as other:
        assert other.call("health") == {"status": "ok"}


def test_the_id_of_a_request_in_flight_is_taken(engine: Engine) -> None:
    with engine.connect() as client:
        first = client.send("encrypt", **LONG_WORK)
        client.send_message([0, first, "health", [{}]])
        with pytest.raises(ConnectionFailed) as error:
            client.answer(first)
        assert error.value.code == "invalid_request"


def alert_of(engine: Engine, context: ssl.SSLContext) -> str:
    """With TLS 1.3 a client's handshake ends before the server verifies its certificate: the alert arrives with the first read."""
    with pytest.raises(ssl.SSLError) as error, engine.connect_with(context) as client:
        client.answer(0)
    return error.value.reason


def test_no_certificate(engine: Engine) -> None:
    assert alert_of(engine, Identity(engine.ca).context()) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


def own_certificate(engine: Engine) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(engine.ready["certificate"]).read_bytes())


def test_a_certificate_of_another_authority(engine: Engine, tmp_path: Path) -> None:
    paths = Authority.fresh().issue(tmp_path, "strange", own_certificate(engine), tomorrow())
    assert alert_of(engine, Identity(engine.ca, *paths).context()) == "TLSV1_ALERT_UNKNOWN_CA"


def test_an_expired_certificate(engine: Engine, tmp_path: Path) -> None:
    authority = Authority.read(engine.ca, engine.ca.with_suffix(".key"))
    paths = authority.issue(tmp_path, "old", own_certificate(engine), yesterday())
    assert alert_of(engine, Identity(engine.ca, *paths).context()) == "SSLV3_ALERT_CERTIFICATE_EXPIRED"


def test_a_good_certificate_that_is_not_the_granted_one(engine: Engine, tmp_path: Path) -> None:
    """A certificate of the right authority and name, but not the one of the grant."""
    authority = Authority.read(engine.ca, engine.ca.with_suffix(".key"))
    paths = authority.issue(tmp_path, "second", own_certificate(engine), tomorrow())
    context = Identity(engine.ca, *paths).context()
    with engine.connect_with(context) as client, pytest.raises(ConnectionFailed) as error:
        client.answer(0)
    assert error.value.code == "forbidden"


def test_the_engine_proves_itself_too(engine: Engine, tmp_path: Path) -> None:
    identity = engine.identity()
    strange = Identity(Authority.fresh().write(tmp_path), identity.certificate, identity.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        engine.connect_with(strange.context())


def test_older_tls_is_refused(engine: Engine) -> None:
    context = engine.identity().context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError) as error:
        engine.connect_with(context)
    assert error.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"


def test_another_protocol_is_refused(engine: Engine) -> None:
    with pytest.raises(ssl.SSLError) as error:
        engine.connect_with(engine.identity().context(alpn="h2"))
    assert "no application protocol" in str(error.value)


def test_the_log_holds_no_value(engine: Engine) -> None:
    """Runs last, after all requests above."""
    log = engine.log.read_text()
    assert "the secret" not in log and "panic" not in log
