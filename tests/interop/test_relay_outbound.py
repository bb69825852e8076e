"""The outbound relay: the real SDKs, curl, and `CONNECT` as it is captured of them, in front of an upstream that keeps every byte."""

import base64
import gzip
import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import relays
import upstream as upstreams
from api import Api
from curl import Result, curl
from fieldseal import Fieldseal
from relay_parts import Pki, make_pki, rule
from relays import Relay, section
from upstream import Received, Upstream, echo, ok, wait_until

APP = "app_outbound"
HERE = Path(__file__).parent
JSON = "application/json"
SECONDS_MAX = 60
DATA = {"card": "4242 4242", "amount": 12.5, "ok": True, "list": [1, {"deep": "é"}]}
ALL = "encrypt,decrypt"


@dataclass
class Setting:
    """An engine with its API, a relay that both know of, and a destination."""

    fieldseal: Fieldseal
    engine: subprocess.Popen[bytes]
    api: Api
    relay: Relay
    pki: Pki
    upstream: Upstream
    key: str
    relay_ca: Path

    def port(self, name: str) -> int:
        return self.relay.at(name).port

    def url(self, path: str, host: str = "localhost") -> str:
        return f"https://{host}:{self.upstream.port}{path}"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _configuration(fieldseal: Fieldseal, pki: Pki, port: int) -> str:
    """Four proxies that differ in how they are spoken to and in what becomes of other destinations."""
    certificates = fieldseal.folder / "certs"
    text = relays.process_section()
    identity = {
        name: str(certificates / file) for name, file in (("certificate", "relay.pem"), ("private_key", "relay.key"))
    }
    text += section("engine", addresses=[f"localhost:{port}"], authorities=str(certificates / "ca.pem"), **identity)
    text += section("upstream", authorities=str(pki.ca), system_authorities=False)
    tls = {
        name: str(certificates / file) for name, file in (("certificate", "server.pem"), ("private_key", "server.key"))
    }
    ca = {"ca_certificate": str(certificates / "relay-ca.pem"), "ca_private_key": str(certificates / "relay-ca.key")}
    for name, identity, unlisted in (
        ("proxy", tls, {}),
        ("plain", {}, {}),
        ("open", {}, {"unlisted": "tunnel", "unlisted_internal": "tunnel"}),
        ("public", {}, {"unlisted": "tunnel"}),
    ):
        text += section("[outbound]", name=name, address="127.0.0.1:0", **unlisted, **identity, **ca)
        text += section(
            "[outbound.destination]",
            hosts=["localhost"],
            paths=["/charge/**"],
            response=[rule("encrypt", json=["$.token"])],
        )
        text += section(
            "[outbound.destination]",
            hosts=["localhost"],
            paths=["/headers/**"],
            request=[rule("decrypt", headers=["X-Card"])],
            response=[rule("encrypt", headers=["X-Token"])],
        )
        by_role = [rule("decrypt", json=["$"], role="pci")]
        text += section("[outbound.destination]", hosts=["localhost"], paths=["/roles/**"], request=by_role)
        # As docs/relay.md has it for a destination without rules of its own.
        text += section("[outbound.destination]", hosts=["localhost"], paths=["/default/**"])
        text += section("[outbound.destination]", hosts=["*.example.test"])
    return text


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    fieldseal = Fieldseal(tmp_path_factory.mktemp("outbound") / "store")
    fieldseal.create(APP)
    for command in (["init"], ["issue", "relay", "--app", APP, "--allow", ALL], ["relay-ca"]):
        fieldseal.run("certs", *command)
    pki, port = make_pki(tmp_path_factory.mktemp("pki")), _free_port()
    text = _configuration(fieldseal, pki, port)
    # Where the API looks for what it tells the SDKs.
    (fieldseal.folder / "relay.toml").write_text(text)
    log = fieldseal.folder.parent / "engine.log"
    settings = ("api.address=127.0.0.1:0", "operator.address=127.0.0.1:0", "server.drain_delay=0s")
    free = [flag for setting in settings for flag in ("--set", setting)]
    flags = ("--address", f"127.0.0.1:{port}", "--json", *free)
    with log.open("wb") as errors:
        engine = subprocess.Popen(fieldseal.command("serve", *flags), stdout=subprocess.PIPE, stderr=errors)
    try:
        line = engine.stdout.readline()
        assert line, log.read_text()
        certificates = fieldseal.folder / "certs"
        api = Api(fieldseal, APP, f"https://{json.loads(line)['api']}", certificates / "ca.pem", log)
        key = api.key("--allow", ALL)
        with (
            upstreams.running(pki.server.context("http/1.1")) as upstream,
            relays.running(fieldseal, tmp_path_factory.mktemp("relay"), text) as relay,
        ):
            yield Setting(fieldseal, engine, api, relay, pki, upstream, key, certificates / "relay-ca.pem")
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(SECONDS_MAX) == 0
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()


@pytest.fixture
def upstream(setting: Setting) -> Upstream:
    setting.upstream.clear()
    setting.upstream.answer = _charge
    return setting.upstream


def _charge(request: Received) -> upstreams.Answer:
    """What a payment provider might answer."""
    return ok(json.dumps({"token": "tok_1", "got": len(request.body)}).encode(), JSON)


def _run(command: list[str], environment: dict[str, str], task: dict[str, object]) -> dict[str, object]:
    done = subprocess.run(
        command, env=environment, input=json.dumps(task).encode(), capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def _relay_environment(setting: Setting, key: str) -> dict[str, str]:
    tunnel = f"https://localhost:{setting.port('proxy')}"
    return {"APP": APP, "KEY": key, "EV_TUNNEL_HOSTNAME": tunnel, "EV_CERT_HOSTNAME": setting.api.url}


def node(setting: Setting, task: dict[str, object], key: str | None = None) -> dict[str, object]:
    """The Node SDK, told of everything by its environment variables."""
    program = shutil.which("node")
    assert program
    environment = {**os.environ, **_relay_environment(setting, key or setting.key), "EV_API_URL": setting.api.url}
    # Not NODE_EXTRA_CA_CERTS: Node forgets those where an authority is added to a context, as the SDK adds the relay's.
    environment |= {"NODE_OPTIONS": "--use-openssl-ca", "SSL_CERT_FILE": str(setting.api.ca)}
    return _run(
        [program, str(HERE / "node" / "outbound_calls.mjs")],
        environment,
        {"url": setting.url("/charge/1"), "data": DATA, **task},
    )


def python(setting: Setting, folder: Path, task: dict[str, object], key: str | None = None) -> dict[str, object]:
    """The Python SDK likewise; the authority of our servers stands in the bundle that it verifies against."""
    environment = {**setting.api.trusting_python(folder), **_relay_environment(setting, key or setting.key)}
    program = os.environ.get("PYTHON", "python3")
    task = {
        "url": setting.url("/charge/1"),
        "data": DATA,
        "mode": "domains",
        "domains": [f"localhost:{setting.upstream.port}"],
        **task,
    }
    return _run([program, str(HERE / "outbound_calls.py")], environment, task)


def check_charge(setting: Setting, upstream: Upstream, told: dict[str, object], data: object = DATA) -> None:
    """The destination got values, the application got an envelope, and the key stayed between."""
    assert "error" not in told, told
    assert "ev:" in json.dumps(told["sealed"]) and "4242" not in json.dumps(told["sealed"])
    received = upstream.only()
    assert json.loads(received.body) == data
    assert received.values("Proxy-Authorization") == []
    assert setting.key.encode() not in received.head + received.body
    assert told["status"] == 200
    answer = json.loads(told["body"])
    assert answer["token"].startswith("ev:")
    assert json.loads(setting.fieldseal.decrypt(APP, json.dumps([answer["token"]]).encode())) == ["tok_1"]


@pytest.mark.parametrize("mode", ["agent", "global", "domains"])
def test_node_sdk(setting: Setting, upstream: Upstream, mode: str) -> None:
    """`global` goes by the destinations that the API tells."""
    check_charge(setting, upstream, node(setting, {"mode": mode}))


def test_python_sdk(setting: Setting, upstream: Upstream, tmp_path: Path) -> None:
    check_charge(setting, upstream, python(setting, tmp_path, {}))


def test_python_sdk_goes_by_what_the_api_tells(setting: Setting, upstream: Upstream, tmp_path: Path) -> None:
    """The SDK compares a destination with host and port as they stand in the address: `*`, which it takes for every name, is one that a
    test can serve. The API tells it once its engine was told to read the relay's file anew; what the relay does is in its own."""
    file = setting.fieldseal.folder / "relay.toml"
    text = file.read_text()

    def tell(content: str, domains: list[str]) -> None:
        file.write_text(content)
        setting.engine.send_signal(signal.SIGHUP)
        wait_until(lambda: destinations(setting) == domains)

    before = destinations(setting)
    every = ["*" if domain == "*.example.test" else domain for domain in before]
    tell(text.replace('hosts = ["*.example.test"]', 'hosts = ["*"]'), every)
    try:
        check_charge(setting, upstream, python(setting, tmp_path, {"mode": "config"}))
        # With something wrong in the file the old holds.
        file.write_text("[engine\n")
        setting.engine.send_signal(signal.SIGHUP)
        wait_until(lambda: "the API announces no relay" in setting.api.log.read_text())
        assert destinations(setting) == every
    finally:
        tell(text, before)


def destinations(setting: Setting) -> list[str]:
    """What the API tells the SDKs."""
    answer = setting.api.curl("/v2/relay-outbound", "-H", f"Api-Key: {setting.key}")
    return [destination["destinationDomain"] for destination in answer.json["outboundDestinations"].values()]


@pytest.mark.parametrize("mode", ["agent", "global"])
def test_node_sdk_with_a_wrong_key(setting: Setting, upstream: Upstream, mode: str) -> None:
    """Without the API (which would refuse the key first): the envelope is there already."""
    told = node(setting, {"mode": "domains" if mode == "global" else mode, "plain": True}, key="wrong-key")
    assert (told.get("status"), json.loads(told["body"])["code"]) == (407, "unauthorized")
    assert upstream.saw_nothing()


def test_node_sdk_without_the_relay_sends_envelopes(setting: Setting, upstream: Upstream) -> None:
    """What is shown above is the relay's doing: the same through a path without rules arrives sealed."""
    told = node(setting, {"mode": "agent", "url": setting.url("/elsewhere")})
    assert told["status"] == 200
    assert json.loads(upstream.only().body) == told["sealed"]
    assert json.loads(told["body"])["token"] == "tok_1"


def test_roles(setting: Setting, upstream: Upstream) -> None:
    told = node(setting, {"mode": "agent", "url": setting.url("/roles/1"), "role": "pci"})
    assert told["status"] == 200
    assert json.loads(upstream.only().body) == DATA
    upstream.clear()
    told = node(setting, {"mode": "agent", "url": setting.url("/roles/1"), "role": "health"})
    assert 400 <= told["status"] < 600
    assert upstream.saw_nothing()


@pytest.mark.parametrize(("role", "passes"), [("pci", True), ("", True), ("health", False)])
def test_a_key_that_is_limited_to_a_role_takes_the_default_rule(
    setting: Setting, upstream: Upstream, role: str, passes: bool
) -> None:
    key = setting.api.key("--allow", ALL, "--role", "pci")
    told = node(setting, {"mode": "agent", "url": setting.url("/default/1"), **({"role": role} if role else {})}, key=key)
    if passes:
        assert told["status"] == 200, told
        assert json.loads(upstream.only().body) == DATA
    else:
        assert (told["status"], json.loads(told["body"])["code"]) == (400, "wrong-role"), told
        assert upstream.saw_nothing()


@dataclass(frozen=True)
class Tunnel:
    """The answer to CONNECT, and the stream behind it."""

    status: int
    head: bytes
    stream: socket.socket

    def inside(self, ca: Path, host: str = "localhost") -> ssl.SSLSocket:
        return ssl.create_default_context(cafile=ca).wrap_socket(self.stream, server_hostname=host)


def connect(setting: Setting, target: str, *fields: str, proxy: str = "plain", version: str = "1.1") -> Tunnel:
    stream = socket.create_connection(("127.0.0.1", setting.port(proxy)), timeout=SECONDS_MAX)
    lines = [f"CONNECT {target} HTTP/{version}", *([f"Host: {target}"] if version == "1.1" else []), *fields]
    stream.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    # Byte by byte: what follows is TLS.
    while not head.endswith(b"\r\n\r\n") and (byte := stream.recv(1)):
        head += byte
    return Tunnel(int(head.split(b" ")[1]), head, stream)


def ask(
    stream: ssl.SSLSocket, *fields: str, path: str = "/charge/1", host: str = "localhost", body: bytes = b"{}"
) -> tuple[int, bytes]:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Content-Type: {JSON}",
        f"Content-Length: {len(body)}",
        *fields,
        "",
        "",
    ]
    stream.sendall("\r\n".join(lines).encode() + body)
    data = b""
    while b"\r\n\r\n" not in data:
        data += stream.recv(4096)
    head, rest = data.split(b"\r\n\r\n", 1)
    size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(rest) < size:
        rest += stream.recv(4096)
    return int(head.split(b" ")[1]), rest


def authorization(key: str) -> str:
    return f"Proxy-Authorization: {key}"


def test_a_key_on_connect_covers_its_tunnel(setting: Setting, upstream: Upstream) -> None:
    tunnel = connect(setting, f"localhost:{upstream.port}", authorization(setting.key))
    assert tunnel.status == 200
    with tunnel.inside(setting.relay_ca) as stream:
        assert [ask(stream)[0] for _ in range(3)] == [200] * 3
        # A header inside goes no further either.
        assert ask(stream, authorization("anything"))[0] in (200, 407)
    assert all(request.values("Proxy-Authorization") == [] for request in upstream.requests)


def test_connect_without_a_key_is_answered_and_each_request_asked(setting: Setting, upstream: Upstream) -> None:
    """As Python 3.11 calls: HTTP/1.0, no header field at all."""
    tunnel = connect(setting, f"localhost:{upstream.port}", version="1.0")
    assert tunnel.status == 200
    with tunnel.inside(setting.relay_ca) as stream:
        assert ask(stream)[0] == 407
        assert ask(stream, authorization("wrong"))[0] == 407
        assert upstream.saw_nothing()
        assert ask(stream, authorization(setting.key))[0] == 200
        # The one that was good covers itself alone.
        assert ask(stream)[0] == 407
    assert len(upstream.requests) == 1 and upstream.requests[0].values("Proxy-Authorization") == []


@pytest.mark.parametrize("field", ["wrong", "", "Basic {key}", "Bearer {key}", "{key}x"])
def test_wrong_keys_on_connect(setting: Setting, upstream: Upstream, field: str) -> None:
    """The key comes raw, without a scheme."""
    tunnel = connect(setting, f"localhost:{upstream.port}", authorization(field.format(key=setting.key)))
    with tunnel.stream:
        assert tunnel.status == 407
    assert upstream.saw_nothing() and setting.key not in setting.relay.written()


def test_a_key_that_may_not_decrypt(setting: Setting, upstream: Upstream) -> None:
    key = setting.api.key("--allow", "encrypt")
    with connect(setting, f"localhost:{upstream.port}", authorization(key)).inside(setting.relay_ca) as stream:
        status, body = ask(stream)
        assert (status, json.loads(body)["code"]) == (403, "forbidden")
        assert upstream.saw_nothing()
        assert ask(stream, path="/elsewhere")[0] == 200


def test_a_key_of_an_app_that_the_relay_does_not_serve(setting: Setting, upstream: Upstream) -> None:
    setting.fieldseal.create("app_other")
    key = setting.api.key("--allow", ALL, app="app_other")
    tunnel = connect(setting, f"localhost:{upstream.port}", authorization(key))
    with tunnel.stream:
        assert 400 <= tunnel.status < 500
    assert upstream.saw_nothing()


def test_a_revoked_key(setting: Setting, upstream: Upstream) -> None:
    key = setting.api.key("--allow", ALL)
    target = f"localhost:{upstream.port}"
    assert connect_status(setting, target, authorization(key)) == 200
    revoke(setting, key)
    wait_until(lambda: connect_status(setting, target, authorization(key)) == 407)


def revoke(setting: Setting, key: str) -> None:
    listed = json.loads(setting.fieldseal.run("api-keys", "list", "--json"))
    setting.fieldseal.run("api-keys", "revoke", next(it["id"] for it in listed if it["id"] in key))


def test_a_revoked_key_ends_what_its_open_tunnels_may(setting: Setting, upstream: Upstream) -> None:
    key = setting.api.key("--allow", ALL)
    target = f"localhost:{upstream.port}"
    raw = connect(setting, f"127.0.0.1:{upstream.port}", authorization(key), proxy="open")
    assert raw.status == 200
    with connect(setting, target, authorization(key)).inside(setting.relay_ca) as stream:
        assert ask(stream)[0] == 200
        revoke(setting, key)
        wait_until(lambda: ask(stream)[0] == 407)
        upstream.clear()
        assert ask(stream)[0] == 407
        assert upstream.saw_nothing()
    # A tunnel that is not looked into is closed.
    with raw.stream:
        raw.stream.settimeout(SECONDS_MAX)
        assert raw.stream.recv(1) == b""


def test_a_destination_that_a_reload_takes_out_is_refused_in_open_tunnels(setting: Setting, upstream: Upstream) -> None:
    before = setting.relay.file.read_text()
    with connect(setting, f"localhost:{upstream.port}", authorization(setting.key)).inside(setting.relay_ca) as stream:
        assert ask(stream)[0] == 200
        upstream.clear()
        try:
            setting.relay.reload(before.replace('["localhost"]', '["elsewhere.test"]'))
            status, body = ask(stream)
            assert (status, json.loads(body)["code"]) == (403, "unlisted-destination")
            assert upstream.saw_nothing()
            # Whoever comes again finds what is configured now.
            assert stream.recv(1) == b""
        finally:
            setting.relay.reload(before)


def test_other_destinations_are_refused_or_tunnelled_by_setting(setting: Setting, upstream: Upstream) -> None:
    target = f"127.0.0.1:{upstream.port}"
    assert connect_status(setting, target, authorization(setting.key)) == 403
    # A tunnel is for those with a key, and untouched: the certificate is the destination's own.
    assert connect_status(setting, target, proxy="open") == 407
    tunnel = connect(setting, target, authorization(setting.key), proxy="open")
    assert tunnel.status == 200
    sealed = setting.fieldseal.encrypt(APP, b'{"card":"4242-card"}')
    with tunnel.inside(setting.pki.ca, "127.0.0.1") as stream:
        status, body = ask(stream, host=target, body=sealed)
    assert (status, json.loads(body)["token"]) == (200, "tok_1")
    assert upstream.only().body == sealed


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0.0.0.0", "169.254.169.254"])
def test_internal_addresses_are_not_tunnelled_to(setting: Setting, upstream: Upstream, host: str) -> None:
    target = f"{host}:{upstream.port}"
    tunnel = connect(setting, target, authorization(setting.key), proxy="public")
    with tunnel.stream:
        assert tunnel.status == 403
        wait_until(lambda: b"internal-destination" in tunnel.stream.recv(4096, socket.MSG_PEEK))
    assert upstream.saw_nothing()


def connect_status(setting: Setting, target: str, *fields: str, proxy: str = "plain") -> int:
    tunnel = connect(setting, target, *fields, proxy=proxy)
    tunnel.stream.close()
    return tunnel.status


def test_a_client_that_does_not_trust_the_authority_is_counted(setting: Setting, upstream: Upstream) -> None:
    ended = 'fieldseal_relay_connections_ended_total{listener="plain",why="handshake"}'
    before = setting.relay.metric(ended)
    tunnel = connect(setting, f"localhost:{upstream.port}", authorization(setting.key))
    with pytest.raises(ssl.SSLCertVerificationError):
        tunnel.inside(setting.pki.ca)
    tunnel.stream.close()
    wait_until(lambda: setting.relay.metric(ended) == before + 1)
    assert upstream.saw_nothing()


@pytest.mark.parametrize("host", ["other.test", "127.0.0.1", "localhost.other.test", "localhost@other.test"])
def test_a_request_for_another_host_than_the_tunnels(setting: Setting, upstream: Upstream, host: str) -> None:
    with connect(setting, f"localhost:{upstream.port}", authorization(setting.key)).inside(setting.relay_ca) as stream:
        assert ask(stream, host=host)[0] in (400, 421)
    assert upstream.saw_nothing()


@pytest.mark.parametrize(
    "target", ["localhost", "localhost:0", "localhost:99999", ":443", "user@localhost:443", "localhost:443/path"]
)
def test_malformed_targets(setting: Setting, upstream: Upstream, target: str) -> None:
    assert connect_status(setting, target, authorization(setting.key)) == 400
    assert upstream.saw_nothing()


def test_anything_but_connect_is_refused(setting: Setting, upstream: Upstream) -> None:
    answer = curl(
        f"http://localhost:{setting.port('plain')}/charge/1", "--header", authorization(setting.key), data=b"{}"
    )
    assert answer.status == 405
    assert upstream.saw_nothing()


def through_proxy(setting: Setting, url: str, *arguments: str, data: bytes | None = None) -> Result:
    proxy = (
        "--proxy",
        f"https://localhost:{setting.port('proxy')}",
        "--proxy-cacert",
        str(setting.api.ca),
        "--noproxy",
        "",
    )
    return curl(url, *proxy, "--proxy-header", authorization(setting.key), *arguments, data=data, ca=setting.relay_ca)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl(setting: Setting, upstream: Upstream, version: str) -> None:
    sealed = setting.fieldseal.encrypt(APP, b'{"card":"4242-card","n":7}')
    answer = through_proxy(setting, setting.url("/charge/1"), version, "--header", f"Content-Type: {JSON}", data=sealed)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert answer.version == ("2" if version == "--http2" else "1.1")
    assert upstream.only().body == b'{"card":"4242-card","n":7}'
    assert answer.json()["token"].startswith("ev:")


def test_forms_are_opened(setting: Setting, upstream: Upstream) -> None:
    sealed = json.loads(setting.fieldseal.encrypt(APP, b'["4242 4242"]'))[0]
    through_proxy(setting, setting.url("/charge/1"), "--data-urlencode", f"card={sealed}", "--data", "open=1")
    assert upstream.only().body == b"card=4242+4242&open=1"
    upstream.clear()
    through_proxy(setting, setting.url("/charge/1"), "--form", f"card={sealed}", "--form", "open=1")
    body = upstream.only().body
    assert b"\r\n\r\n4242 4242\r\n" in body and b"ev:" not in body


def test_bodies_without_envelopes_and_without_rules_are_untouched(setting: Setting, upstream: Upstream) -> None:
    upstream.answer = echo
    body = os.urandom(1 << 20)
    answer = through_proxy(
        setting, setting.url("/elsewhere"), "--header", "Content-Type: application/octet-stream", data=body
    )
    assert upstream.only().body == answer.body == body


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_bodies_of_every_length_are_untouched(
    setting: Setting, upstream: Upstream, version: str, is_chunked: bool, size: int
) -> None:
    upstream.answer = echo
    body = os.urandom(size)
    chunked = ("--header", "Transfer-Encoding: chunked") if is_chunked and version == "--http1.1" else ()
    kind = ("--header", "Content-Type: application/octet-stream")
    answer = through_proxy(setting, setting.url("/elsewhere"), version, *chunked, *kind, data=body)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert upstream.only().body == answer.body == body


def test_fifty_megabytes(setting: Setting, upstream: Upstream) -> None:
    """By hash, so that a difference is told in a line: bytes that are streamed, and a document with one envelope at its end."""
    upstream.answer = echo
    bulk = os.urandom(1 << 20) * 50
    kind = ("--header", "Content-Type: application/octet-stream")
    answer = through_proxy(setting, setting.url("/elsewhere"), *kind, data=bulk)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert _hash(upstream.only().body) == _hash(answer.body) == _hash(bulk)
    upstream.clear()
    upstream.answer = _charge
    text = base64.b64encode(os.urandom(3 << 18)) * 50
    sealed = setting.fieldseal.encrypt(APP, b'["4242-card"]')[1:-1]
    document = b'{"bulk":"' + text + b'","card":' + sealed + b"}"
    answer = through_proxy(setting, setting.url("/charge/1"), "--header", f"Content-Type: {JSON}", data=document)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert _hash(upstream.only().body) == _hash(b'{"bulk":"' + text + b'","card":"4242-card"}')


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_bodies_of_unknown_length_are_opened(setting: Setting, upstream: Upstream, version: str) -> None:
    sealed = setting.fieldseal.encrypt(APP, b'{"card":"4242-card"}')
    chunked = ("--header", "Transfer-Encoding: chunked") if version == "--http1.1" else ()
    kind = ("--header", f"Content-Type: {JSON}")
    answer = through_proxy(setting, setting.url("/charge/1"), version, *chunked, *kind, data=sealed)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert upstream.only().body == b'{"card":"4242-card"}'


def test_coded_bodies_are_opened_and_sealed_in_their_coding(setting: Setting, upstream: Upstream) -> None:
    answered = gzip.compress(b'{"token":"tok_1","open":1}')
    upstream.answer = lambda _: ok(answered, JSON, ("Content-Encoding", "gzip"))
    sealed = gzip.compress(setting.fieldseal.encrypt(APP, b'{"card":"4242-card"}'))
    kind = ("--header", f"Content-Type: {JSON}", "--header", "Content-Encoding: gzip", "--header", "Accept-Encoding: gzip")
    answer = through_proxy(setting, setting.url("/charge/1"), *kind, data=sealed)
    assert (answer.code, answer.status) == (0, 200), answer.message
    received = upstream.only()
    assert received.header("Content-Encoding") == "gzip"
    assert gzip.decompress(received.body) == b'{"card":"4242-card"}'
    assert answer.header("content-encoding") == "gzip"
    opened = setting.fieldseal.decrypt(APP, gzip.decompress(answer.body))
    assert opened == b'{"token":"tok_1","open":1}' and b"tok_1" not in gzip.decompress(answer.body)


def test_headers_are_opened_and_sealed(setting: Setting, upstream: Upstream) -> None:
    upstream.answer = lambda _: ok(b"body", "text/plain", ("X-Token", "tok_1"), ("X-Open", "1"))
    sealed = json.loads(setting.fieldseal.encrypt(APP, b'["4242-card"]'))[0]
    fields = ("--header", f"X-Card: {sealed}", "--header", "X-Open: 1")
    answer = through_proxy(setting, setting.url("/headers/1"), *fields)
    assert (answer.code, answer.status, answer.body) == (0, 200, b"body"), answer.message
    received = upstream.only()
    assert (received.header("X-Card"), received.header("X-Open")) == ("4242-card", "1")
    assert answer.header("x-open") == "1"
    envelope = json.dumps([answer.header("x-token")]).encode()
    assert setting.fieldseal.decrypt(APP, envelope) == b'["tok_1"]'


@pytest.mark.parametrize("path", ["/Charge/1", "/CHARGE", "/ch%41rge/1", "/Headers/1"])
def test_a_path_in_another_case_does_not_pass_a_rule_by(setting: Setting, upstream: Upstream, path: str) -> None:
    """The upstream may take it for the same, and answer with what is to be sealed."""
    upstream.answer = lambda _: ok(b'{"token":"tok_1"}', JSON, ("X-Token", "tok_1"))
    answer = through_proxy(setting, setting.url(path))
    assert (answer.status, answer.json()["code"]) == (400, "ambiguous-path")
    assert upstream.saw_nothing()


def test_a_path_in_another_case_passes_where_nothing_is_to_be_hidden(setting: Setting, upstream: Upstream) -> None:
    """Its envelopes stay sealed: the destination is not that of the rule."""
    sealed = setting.fieldseal.encrypt(APP, b'{"card":"4242-card"}')
    answer = through_proxy(setting, setting.url("/Roles/1"), "--header", f"Content-Type: {JSON}", data=sealed)
    assert (answer.status, upstream.only().body) == (200, sealed)


def test_a_forged_envelope_does_not_leave(setting: Setting, upstream: Upstream) -> None:
    sealed = json.loads(setting.fieldseal.encrypt(APP, b'["x"]'))[0]
    forged = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    answer = through_proxy(
        setting, setting.url("/charge/1"), "--header", f"Content-Type: {JSON}", data=json.dumps([forged]).encode()
    )
    assert (answer.status, answer.json()["code"]) == (400, "decrypt-failed")
    assert upstream.saw_nothing()


def test_the_destinations_certificate_is_verified(setting: Setting, tmp_path: Path) -> None:
    stranger = make_pki(tmp_path)
    with upstreams.running(stranger.server.context("http/1.1")) as wrong:
        answer = through_proxy(
            setting, f"https://localhost:{wrong.port}/charge/1", "--header", f"Content-Type: {JSON}", data=b"{}"
        )
        assert (answer.status, answer.json()["code"]) == (502, "upstream-certificate")
        assert wrong.saw_nothing()


def test_certificates_are_made_for_the_host_that_was_asked_for(setting: Setting, upstream: Upstream) -> None:
    names = []
    for host in ("localhost", "a.example.test"):
        with connect(setting, f"{host}:{upstream.port}", authorization(setting.key)).inside(
            setting.relay_ca, host
        ) as stream:
            names.append(stream.getpeercert()["subjectAltName"])
    assert names == [(("DNS", "localhost"),), (("DNS", "a.example.test"),)]


def test_nothing_secret_is_logged(setting: Setting) -> None:
    """After all that came before: no key, no value, no envelope."""
    written = setting.relay.written()
    for secret in (setting.key, setting.key[-32:], "4242 4242", "4242-card", "ev:"):
        assert secret not in written
    assert all(line.get("app") in (None, APP) for line in setting.relay.requests())
