"""Helpers for tests of the outbound relay: an engine with its API, a relay, a destination, tunnels and curl."""

import json
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
from leafseal import Leafseal
from ports import free_ports
from relay_parts import Pki, make_pki, rule
from relays import Relay, section
from upstream import Received, Upstream, ok

APP = "app_outbound"
JSON = "application/json"
SECONDS_MAX = 60
ALL = "encrypt,decrypt"


@dataclass
class Setting:
    """An engine with its API, a relay that is configured in both, and a destination."""

    leafseal: Leafseal
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


def _configuration(leafseal: Leafseal, pki: Pki, port: int) -> str:
    """Four proxies that differ in protocol and in the treatment of other destinations."""
    certificates = leafseal.folder / "certs"
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
        # As in docs/relay.md for a destination without its own rules.
        text += section("[outbound.destination]", hosts=["localhost"], paths=["/default/**"])
        text += section("[outbound.destination]", hosts=["*.example.test"])
    return text


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    leafseal = Leafseal(tmp_path_factory.mktemp("outbound") / "store")
    leafseal.create(APP)
    for command in (["init"], ["issue", "relay", "--app", APP, "--allow", ALL], ["relay-ca"]):
        leafseal.run("certs", *command)
    pki, port = make_pki(tmp_path_factory.mktemp("pki")), free_ports(1)[0]
    text = _configuration(leafseal, pki, port)
    # The file from which the API serves the SDKs' configuration.
    (leafseal.folder / "relay.toml").write_text(text)
    log = leafseal.folder.parent / "engine.log"
    settings = ("api.address=127.0.0.1:0", "operator.address=127.0.0.1:0", "server.drain_delay=0s")
    free = [flag for setting in settings for flag in ("--set", setting)]
    flags = ("--address", f"127.0.0.1:{port}", "--json", *free)
    with log.open("wb") as errors:
        engine = subprocess.Popen(leafseal.command("serve", *flags), stdout=subprocess.PIPE, stderr=errors)
    try:
        line = engine.stdout.readline()
        assert line, log.read_text()
        certificates = leafseal.folder / "certs"
        api = Api(leafseal, APP, f"https://{json.loads(line)['api']}", certificates / "ca.pem", log)
        key = api.key("--allow", ALL)
        with (
            upstreams.running(pki.server.context("http/1.1")) as upstream,
            relays.running(leafseal, tmp_path_factory.mktemp("relay"), text) as relay,
        ):
            setting = Setting(leafseal, engine, api, relay, pki, upstream, key, certificates / "relay-ca.pem")
            yield setting
            check_log(setting)
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(SECONDS_MAX) == 0
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()


def check_log(setting: Setting) -> None:
    """Fails if the relay logged a key, a value or an envelope."""
    written = setting.relay.written()
    for secret in (setting.key, setting.key[-32:], "4242 4242", "4242-card", "ev:"):
        assert secret not in written
    assert all(line.get("app") in (None, APP) for line in setting.relay.requests())


@pytest.fixture
def upstream(setting: Setting) -> Upstream:
    setting.upstream.clear()
    setting.upstream.answer = charge
    return setting.upstream


def charge(request: Received) -> upstreams.Answer:
    """A response as a payment provider might send it."""
    return ok(json.dumps({"token": "tok_1", "got": len(request.body)}).encode(), JSON)


@dataclass(frozen=True)
class Tunnel:
    """The response to CONNECT, and the stream of the tunnel."""

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
    # Reads byte by byte, because TLS follows.
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


def revoke(setting: Setting, key: str) -> None:
    listed = json.loads(setting.leafseal.run("api-keys", "list", "--json"))
    setting.leafseal.run("api-keys", "revoke", next(it["id"] for it in listed if it["id"] in key))


def connect_status(setting: Setting, target: str, *fields: str, proxy: str = "plain") -> int:
    tunnel = connect(setting, target, *fields, proxy=proxy)
    tunnel.stream.close()
    return tunnel.status


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
