"""`CONNECT` in raw bytes: API keys, destinations, and what a tunnel may carry."""

import json
import socket
import ssl

import pytest

from curl import curl
from relay_outbound import ALL, APP, SECONDS_MAX, Setting, ask, authorization, connect, connect_status, revoke, setting, upstream
from upstream import Upstream, wait_until


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


@pytest.mark.parametrize("field", ["wrong", "", "Basic {key}", "Bearer {key}", "{key}x"])
def test_wrong_keys_on_connect(setting: Setting, upstream: Upstream, field: str) -> None:
    """The key is sent raw, without a scheme."""
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
            assert (status, json.loads(body)["code"]) == (403, "unlisted-destination")
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


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0.0.0.0", "169.254.169.254"])
def test_internal_addresses_are_not_tunnelled_to(setting: Setting, upstream: Upstream, host: str) -> None:
    target = f"{host}:{upstream.port}"
    tunnel = connect(setting, target, authorization(setting.key), proxy="public")
    with tunnel.stream:
        assert tunnel.status == 403
        wait_until(lambda: b"internal-destination" in tunnel.stream.recv(4096, socket.MSG_PEEK))
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
