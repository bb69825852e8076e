"""`CONNECT` in raw bytes: API keys, destinations, and what a tunnel may carry."""

import base64
import json
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path
from unittest import mock

import pytest

from curl import curl
from relay_outbound import ALL, APP, SECONDS_MAX, Setting, ask, authorization, connect, connect_status, revoke, setting, upstream
from upstream import Upstream, wait_until

HERE = Path(__file__).parent


def test_a_key_on_connect_covers_its_tunnel(setting: Setting, upstream: Upstream) -> None:
    tunnel = connect(setting, f"localhost:{upstream.port}", authorization(setting.key))
    assert tunnel.status == 200
    with tunnel.inside(setting.relay_ca) as stream:
        assert [ask(stream)[0] for _ in range(3)] == [200] * 3
        # A header inside is removed too.
        assert ask(stream, authorization("anything"))[0] in (200, 407)
    assert all(request.values("Proxy-Authorization") == [] for request in upstream.requests)


def test_connect_without_a_key_is_answered_and_each_request_asked(setting: Setting, upstream: Upstream) -> None:
    """As Python 3.11 sends it: HTTP/1.0 without header fields."""
    tunnel = connect(setting, f"localhost:{upstream.port}", version="1.0")
    assert tunnel.status == 200
    with tunnel.inside(setting.relay_ca) as stream:
        assert ask(stream)[0] == 407
        assert ask(stream, authorization("wrong"))[0] == 407
        assert upstream.saw_nothing()
        assert ask(stream, authorization(setting.key))[0] == 200
        # A valid key authorizes only its own tunnel.
        assert ask(stream)[0] == 407
    assert len(upstream.requests) == 1 and upstream.requests[0].values("Proxy-Authorization") == []


@pytest.mark.parametrize("field", ["wrong", "", "Basic {key}", "Bearer {key}x", "Digest {key}", "{key}x"])
def test_wrong_keys_on_connect(setting: Setting, upstream: Upstream, field: str) -> None:
    tunnel = connect(setting, f"localhost:{upstream.port}", authorization(field.format(key=setting.key)))
    with tunnel.stream:
        assert tunnel.status == 407 and b"proxy-authenticate: basic realm=" in tunnel.head.lower()
    assert upstream.saw_nothing() and setting.key not in setting.relay.written()


def test_connect_without_a_key_is_challenged(setting: Setting, upstream: Upstream) -> None:
    tunnel = connect(setting, f"localhost:{upstream.port}")
    with tunnel.stream:
        assert tunnel.status == 407 and b"proxy-authenticate: basic realm=" in tunnel.head.lower()


@pytest.mark.parametrize("scheme", ["Basic {basic}", "basic {user}", "Bearer {key}"])
def test_keys_in_each_scheme(setting: Setting, upstream: Upstream, scheme: str) -> None:
    basic, user = (base64.b64encode(text.encode()).decode() for text in (f"acme:{setting.key}", f"{setting.key}:"))
    field = scheme.format(basic=basic, user=user, key=setting.key)
    with connect(setting, f"localhost:{upstream.port}", authorization(field)).inside(setting.relay_ca) as stream:
        assert ask(stream)[0] == 200
    assert upstream.only().values("Proxy-Authorization") == []


def _proxy(setting: Setting, user: str | None = None) -> str:
    user = f"acme:{setting.key}@" if user is None else user
    return f"http://{user}127.0.0.1:{setting.port('plain')}"


@pytest.mark.parametrize("way", ["--proxy-basic", "--proxy-anyauth"])
def test_curl_with_the_key_in_the_url_of_the_proxy(setting: Setting, upstream: Upstream, way: str) -> None:
    """`--proxy-anyauth` waits for the challenge."""
    url = setting.url("/elsewhere")
    answer = curl(url, "--proxy", _proxy(setting), way, "--noproxy", "", data=b"{}", ca=setting.relay_ca)
    assert (answer.code, answer.status) == (0, 200), answer.message
    assert upstream.only().path == "/elsewhere"


def test_python_with_the_key_in_the_url_of_the_proxy(setting: Setting, upstream: Upstream) -> None:
    context = ssl.create_default_context(cafile=setting.relay_ca)
    proxies = urllib.request.ProxyHandler({"https": _proxy(setting)})
    opener = urllib.request.build_opener(proxies, urllib.request.HTTPSHandler(context=context))
    # Names of this machine are exempt from proxies unless they are asked for.
    with mock.patch("urllib.request.proxy_bypass", return_value=False):
        assert opener.open(setting.url("/elsewhere"), timeout=SECONDS_MAX).status == 200


def test_java_waits_for_the_challenge(setting: Setting, upstream: Upstream, tmp_path: Path) -> None:
    store = tmp_path / "trusted.p12"
    password = ("-storepass", "changeit")
    command = ["keytool", "-importcert", "-noprompt", "-file", str(setting.relay_ca), "-keystore", str(store), *password]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_MAX)
    properties = {
        "javax.net.ssl.trustStore": str(store),
        "javax.net.ssl.trustStorePassword": "changeit",
        "jdk.http.auth.tunneling.disabledSchemes": "",
    }
    program = ["java", *(f"-D{name}={value}" for name, value in properties.items()), str(HERE / "ProxyLogin.java")]
    done = subprocess.run(
        [*program, setting.url("/elsewhere"), str(setting.port("plain")), setting.key],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout.decode().split()) == (0, ["200", "200"]), done.stderr.decode()


def test_paths_of_a_destination_without_paths_are_forwarded_unchanged(setting: Setting, upstream: Upstream) -> None:
    target = f"a.example.test:{upstream.port}"
    tunnel = connect(setting, target, authorization(setting.key))
    assert tunnel.status == 200
    for path in ("/o/a%2Fb.json", "/items/50%25", "/a/../b", "//x/%zz", "/a%00\\b", "/%252e"):
        # The name does not resolve here: a path that is refused has another answer.
        with connect(setting, target, authorization(setting.key)).inside(setting.relay_ca, "a.example.test") as stream:
            status, body = ask(stream, path=path, host=target)
            assert (status, json.loads(body)["code"]) == (502, "upstream_unreachable"), path
    tunnel.stream.close()


@pytest.mark.parametrize("path", ["/files/a%2Fb.json", "/items/50%25", "/files/%zz"])
def test_unusual_paths_that_lead_to_no_rule_are_forwarded_unchanged(
    setting: Setting, upstream: Upstream, path: str
) -> None:
    with connect(setting, f"localhost:{upstream.port}", authorization(setting.key)).inside(setting.relay_ca) as stream:
        assert ask(stream, path=path)[0] == 200
    assert upstream.only().path == path


@pytest.mark.parametrize("path", ["/charge%2F1", "/files/..%2Fcharge/1", "/files/../charge/1", "/%2563harge/1", "//x/charge/1"])
def test_unusual_paths_that_may_lead_to_a_rule_are_refused(setting: Setting, upstream: Upstream, path: str) -> None:
    with connect(setting, f"localhost:{upstream.port}", authorization(setting.key)).inside(setting.relay_ca) as stream:
        status, body = ask(stream, path=path)
    assert (status, json.loads(body)["code"]) == (400, "ambiguous_path")
    assert upstream.saw_nothing()


def test_a_key_that_may_not_decrypt(setting: Setting, upstream: Upstream) -> None:
    key = setting.api.key("--allow", "encrypt")
    with connect(setting, f"localhost:{upstream.port}", authorization(key)).inside(setting.relay_ca) as stream:
        status, body = ask(stream)
        assert (status, json.loads(body)["code"]) == (403, "forbidden")
        assert upstream.saw_nothing()
        assert ask(stream, path="/elsewhere")[0] == 200


def test_a_key_of_an_app_that_the_relay_does_not_serve(setting: Setting, upstream: Upstream) -> None:
    setting.leafseal.create("app_other")
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
    # A tunnel that is not intercepted is closed.
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
            assert (status, json.loads(body)["code"]) == (403, "unlisted_destination")
            assert upstream.saw_nothing()
            # A new connection uses the current configuration.
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
    sealed = setting.leafseal.encrypt(APP, b'{"card":"4242-card"}')
    with tunnel.inside(setting.pki.ca, "127.0.0.1") as stream:
        status, body = ask(stream, host=target, body=sealed)
    assert (status, json.loads(body)["token"]) == (200, "tok_1")
    assert upstream.only().body == sealed


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::7f00:1]", "0.0.0.0", "169.254.169.254"])
def test_internal_addresses_are_not_tunnelled_to(setting: Setting, upstream: Upstream, host: str) -> None:
    target = f"{host}:{upstream.port}"
    tunnel = connect(setting, target, authorization(setting.key), proxy="public")
    with tunnel.stream:
        assert tunnel.status == 403
        wait_until(lambda: b"internal_destination" in tunnel.stream.recv(4096, socket.MSG_PEEK))
    assert upstream.saw_nothing()


def test_a_client_that_does_not_trust_the_authority_is_counted(setting: Setting, upstream: Upstream) -> None:
    ended = 'leafseal_relay_connections_total{listener="plain",event="failed"}'
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
    "target",
    [
        "localhost",
        "localhost:0",
        "localhost:99999",
        ":443",
        "user@localhost:443",
        "localhost:443/path",
        "*.example.test:443",
        "$(id).example.test:443",
        'a"b.example.test:443',
        "127.1:443",
        "2130706433:443",
        "0x7f.1:443",
    ],
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
