"""The HTTPS API: curl over HTTP/1.1 and HTTP/2, every refusal, and the real Python SDK, unmodified."""

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import api as apis
from api import Api
from compare import leaves, same
from leafseal import Leafseal

APP = "app_interop"
BODY_SIZE_MAX = 1 << 20
JSON = ("-H", "Content-Type: application/json")
BYTES = ("-H", "Content-Type: application/octet-stream")
VERSIONS = pytest.mark.parametrize("version", ["--http1.1", "--http2"])
DOCUMENT = {
    "string": "héllo ✓ 😀",
    "empty": "",
    "escapes": '"\\\n\u0000',
    "long": "x" * 10_000,
    "integer": 42,
    "float": -3.25,
    "exponent": 1e21,
    "yes": True,
    "nothing": None,
    "nested": {"list": [1, "x", {"no": False}], "object": {}, "array": []},
}
SHAPES = [DOCUMENT, [1, "a", True, [2.5, {"b": "c"}]], "alone", -12.5, True]
# The SDK itself wants text, an object, an array or bytes, and leaves nothing else to the API.
SDK_SHAPES = [{key: value for key, value in DOCUMENT.items() if value is not None}, SHAPES[1], "alone"]
# The versions of each scheme without and with metadata.
LABELS = {"public-key": ("Tk9D", "QkTC"), "symmetric": ("WEFF", "WEFN")}
# An envelope to callers that know the published format: the version, perhaps a type, three parts of base64, and the end.
PUBLISHED = re.compile(r"ev:(?:debug:)?[\w+/]{4}:(?:(?:number|boolean|string):)?(?:[\w+/]+=*:){3}\$")


@pytest.fixture(scope="module", params=["public-key", "symmetric"])
def scheme(request: pytest.FixtureRequest) -> str:
    """The scheme of the engine. Every test runs with both, because callers notice no difference."""
    return request.param


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, scheme: str) -> Iterator[Api]:
    program = Leafseal(tmp_path_factory.mktemp("api") / "store")
    settings = (f"api.body_size_max={BODY_SIZE_MAX}", "api.cors_origins=https://shop.example", "api.access_log=true", "log.level=info")
    with apis.running(program, APP, f"engine.scheme={scheme}", *settings) as running:
        program.create("app_other")
        yield running


@pytest.fixture(scope="module")
def key(api: Api) -> str:
    return api.key()


@pytest.fixture(scope="module")
def bundle(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `trusting_python`, of this engine's authority."""
    return tmp_path_factory.mktemp("bundle")


def basic(key: str, app: str = APP) -> tuple[str, str]:
    return ("-u", f"{app}:{key}")


def sealed(api: Api, key: str, value: object, query: str = "") -> object:
    return api.curl(f"/encrypt{query}", *basic(key), *JSON, data=json.dumps(value).encode()).json


def problem(answer: apis.Answer) -> tuple[int, str]:
    """Status and code of a refusal, whose form is checked."""
    assert answer.headers["content-type"] == "application/problem+json", answer
    content = answer.json
    assert set(content) == {"code", "title", "status", "detail"} and content["status"] == answer.status
    assert content["detail"] and "lsk_" not in content["detail"]
    return answer.status, content["code"]


@VERSIONS
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape).__name__)
def test_every_shape_comes_back(api: Api, key: str, version: str, shape: object) -> None:
    answer = api.curl("/encrypt", *basic(key), *JSON, data=json.dumps(shape).encode(), version=version)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.version == ("HTTP/2" if version == "--http2" else "HTTP/1.1")
    texts = [text for text in leaves(answer.json) if text is not None]
    assert texts and all(text.startswith("ev:") and text.endswith(":$") for text in texts)
    for body, expected in [(answer.json, shape), ({"data": answer.json}, {"data": shape})]:
        opened = api.curl("/decrypt", *basic(key), *JSON, data=json.dumps(body).encode(), version=version)
        assert (opened.status, opened.headers["content-type"]) == (200, "application/json")
        assert same(opened.json, expected)


@VERSIONS
@pytest.mark.parametrize("size", [0, 1, 1000, BODY_SIZE_MAX - 200], ids=["empty", "byte", "small", "large"])
def test_files(api: Api, key: str, version: str, size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    for query in ("?curve=r1", "?curve=k1", ""):
        answer = api.curl(f"/encrypt{query}", *basic(key), *BYTES, data=content, version=version)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
        assert answer.body.startswith(b"%EVENC") and len(answer.body) > size
        opened = api.curl("/decrypt", *basic(key), *BYTES, data=answer.body, version=version)
        assert (opened.status, opened.body == content) == (200, True)
    broken = answer.body[:-1] + bytes([answer.body[-1] ^ 1])
    assert problem(api.curl("/decrypt", *basic(key), *BYTES, data=broken, version=version))[0] == 422


def test_options_are_in_the_envelopes(api: Api, key: str) -> None:
    for query, version, role in [("?curve=k1", "RFVC", None), ("?curve=r1&role=pci", "QkTC", "pci"), ("?role=pci&curve=k1", "S0lS", "pci")]:
        text = sealed(api, key, "value", query)
        assert text.startswith(f"ev:{version}:")
        metadata = api.curl("/inspect", *basic(key), *JSON, data=json.dumps({"token": text}).encode()).json
        assert (metadata["type"], metadata["role"], metadata["keyVersion"]) == ("string", role, 1)
    each = sealed(api, key, ["a", "b"], "?keying=field")
    assert len({text.split(":")[-3] for text in each}) == 2


@VERSIONS
def test_a_body_that_is_too_large_is_refused_and_curl_shows_it(api: Api, key: str, version: str) -> None:
    for arguments in (BYTES, (*BYTES, "-H", "Transfer-Encoding: chunked")):
        if version == "--http2" and len(arguments) > len(BYTES):
            continue
        answer = api.curl("/encrypt", *basic(key), *arguments, data=bytes(20 * BODY_SIZE_MAX), version=version)
        assert problem(answer) == (413, "too_large")


def test_who_may_do_what(api: Api, key: str) -> None:
    envelope = sealed(api, key, "value")
    body = json.dumps(envelope).encode()
    calls = {
        "encrypt": ("/encrypt", b'"x"'),
        "decrypt": ("/decrypt", body),
        "inspect": ("/inspect", body),
        "client-side-tokens": ("/client-side-tokens", json.dumps({"action": "api:decrypt", "payload": envelope}).encode()),
    }
    # The creator of a token could decrypt with it, so the permission to create tokens alone is not enough.
    allowed = {"encrypt": {"encrypt"}, "decrypt": {"decrypt"}, "inspect": {"inspect"}, "client-side-tokens": set()}
    allowed["decrypt,client-side-tokens"] = {"decrypt", "client-side-tokens"}
    for own, may in allowed.items():
        limited = api.key("--allow", own)
        for name, (path, data) in calls.items():
            answer = api.curl(path, *basic(limited), *JSON, data=data)
            if name in may:
                assert answer.status == 200, (own, answer)
            else:
                assert problem(answer) == (403, "forbidden"), (own, name)
        assert api.curl("/cages/key", "-H", f"Api-Key: {limited}").status == 200


def test_credentials_that_are_not_good_are_refused(api: Api, key: str, scheme: str) -> None:
    of_other = api.key("--allow", "encrypt", app="app_other")
    wrong_secret = key[:-1] + ("1" if key[-1] == "0" else "0")
    encoded = base64.b64encode(f"{APP}:{key}".encode()).decode()
    refused = [
        (),
        basic(wrong_secret),
        basic("lsk_0123456789abcdef_" + "0" * 64),
        basic("no-key"),
        basic(of_other),
        basic(key, "app_other"),
        ("-H", f"Authorization: Bearer {encoded}"),
        ("-H", "Authorization: Basic %%%"),
        ("-H", "Authorization: Token fst_00"),
        ("-H", f"Api-Key: {key}", "-H", f"Authorization: Basic {encoded}"),
    ]
    for shown in refused:
        answer = api.curl("/encrypt", *shown, *JSON, data=b'"x"')
        assert problem(answer) == (401, "unauthorized"), shown
        assert answer.headers["www-authenticate"].startswith("Basic ")
    assert api.curl("/encrypt", "-H", f"Api-Key: {key}", *JSON, data=b'"x"').status == 200
    assert api.curl("/encrypt?scheme=symmetric", *basic(key), *JSON, data=b'["x", 1, null]').status == 200
    revoked = api.key("--allow", "encrypt")
    assert api.curl("/encrypt", *basic(revoked), *JSON, data=b'"x"').status == 200
    api.leafseal.run("api-keys", "revoke", revoked)
    deadline = time.monotonic() + 60
    while (answer := api.curl("/encrypt", *basic(revoked), *JSON, data=b'"x"')).status == 200:
        assert time.monotonic() < deadline, "still taken"
        time.sleep(0.2)
    assert problem(answer) == (401, "unauthorized")
    log = api.log.read_text()
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    counts = {(record["sealed"], record.get("sealed_symmetric", 0)) for record in records if "sealed" in record}
    assert counts >= {(1, int(scheme == "symmetric")), (2, 2)}
    assert "caller refused" in log and "lsk_" not in log and key not in log and "value" not in log


def test_roles_hold(api: Api, key: str) -> None:
    plain, pci = sealed(api, key, "a"), sealed(api, key, "b", "?role=pci")
    limited = api.key("--allow", "decrypt,client-side-tokens", "--role", "health")
    for text, status in [(plain, 200), (pci, 403)]:
        answer = api.curl("/decrypt", *basic(limited), *JSON, data=json.dumps(text).encode())
        assert answer.status == status
        token = api.curl("/client-side-tokens", *basic(limited), *JSON, data=json.dumps({"action": "api:decrypt", "payload": text}).encode())
        by_token = api.curl("/decrypt", "-H", f"Authorization: Token {token.json['token']}", *JSON, data=json.dumps(text).encode())
        assert by_token.status == status
    asked = api.curl("/decrypt?role=pci", *basic(key), *JSON, data=json.dumps(plain).encode())
    assert problem(asked)[0] in (403, 422)


def test_bodies_that_are_wrong_are_refused(api: Api, key: str) -> None:
    envelope = sealed(api, key, "value")
    forged = envelope[:-10] + ("A" if envelope[-10] != "A" else "B") + envelope[-9:]
    rows = [
        ("/encrypt", JSON, b"{", (400, "invalid_document")),
        ("/encrypt", JSON, b"", (400, "invalid_document")),
        ("/encrypt", JSON, b'"\\ud800"', (400, "invalid_document")),
        ("/encrypt", ("-H", "Content-Type: text/plain"), b"x", (415, "unsupported_media_type")),
        ("/encrypt", ("-H", "Content-Type:"), b"x", (415, "unsupported_media_type")),
        ("/encrypt", (*JSON, "-H", "Content-Encoding: gzip"), b"x", (415, "unsupported_media_type")),
        ("/inspect", BYTES, b"x", (415, "unsupported_media_type")),
        ("/encrypt?role=UPPER", JSON, b"1", (400, "invalid_params")),
        ("/encrypt?colour=red", JSON, b"1", (400, "invalid_params")),
        ("/decrypt", JSON, json.dumps(forged).encode(), (422, "decrypt_failed")),
        ("/decrypt", BYTES, b"no file", (422, "invalid_envelope")),
        ("/inspect", JSON, b'{"token": 1}', (400, "invalid_params")),
        ("/inspect", JSON, json.dumps("x" * 100_000).encode(), (413, "too_large")),
        ("/client-side-tokens", JSON, b'{"action": "api:encrypt", "payload": "x"}', (400, "invalid_params")),
        ("/client-side-tokens", JSON, b'{"action": "api:decrypt"}', (400, "invalid_params")),
        ("/client-side-tokens", JSON, b'{"action": "api:decrypt", "payload": "x", "expiry": 12}', (400, "invalid_params")),
        ("/client-side-tokens", JSON, b'{"action": "api:decrypt", "payload": "x", "expiry": 99999999999999}', (400, "invalid_params")),
    ]
    for path, arguments, data, expected in rows:
        assert problem(api.curl(path, *basic(key), *arguments, data=data)) == expected, (path, data[:40])


def test_paths_and_methods(api: Api, key: str) -> None:
    assert problem(api.curl("/nothing")) == (404, "not_found")
    answer = api.curl("/encrypt", *basic(key))
    assert problem(answer) == (405, "method_not_allowed") and answer.headers["allow"] == "POST"
    assert problem(api.curl("/keys", "-X", "DELETE", "-H", f"x-evervault-app-id: {APP}"))[0] == 405
    head = api.curl("/keys", "--head", "-H", f"x-evervault-app-id: {APP}")
    assert (head.status, head.body) == (200, b"") and int(head.headers["content-length"]) > 100


def test_a_base_url_may_end_in_a_slash(api: Api, key: str) -> None:
    answer = api.curl("//encrypt", *basic(key), *JSON, data=b'"x"')
    assert answer.status == 200
    assert api.curl("//decrypt", *basic(key), *JSON, data=answer.body).json == "x"
    assert problem(api.curl("///decrypt", *basic(key), *JSON, data=answer.body)) == (404, "not_found")


def report(answer: apis.Answer) -> dict[str, object] | None:
    text = answer.headers.get("leafseal-report")
    return None if text is None else json.loads(text)


def counted(scheme: str, count: int, **more: object) -> dict[str, object]:
    """The report on `count` values of the engine's scheme."""
    return {"count": count, **({"symmetric": count} if scheme == "symmetric" else {}), **more}


@VERSIONS
def test_selectors_are_repeated_options_and_report_what_they_matched(api: Api, key: str, scheme: str, version: str) -> None:
    body = json.dumps({"card": {"number": "4242", "cvc": "1"}, "other": "x", "é": 1}).encode()
    def call(path: str, data: bytes = body) -> apis.Answer:
        return api.curl(path, *basic(key), *JSON, data=data, version=version)
    answer = call("/encrypt?select=$.card.number&select=%24%5B%27%C3%A9%27%5D&select=$.none")
    assert report(answer) == counted(scheme, 2, matched=[1, 1, 0])
    assert answer.json["card"]["number"].startswith("ev:") and answer.json["é"].startswith("ev:")
    assert (answer.json["card"]["cvc"], answer.json["other"]) == ("1", "x")
    opened = call("/decrypt?select=$.card&strict=true", answer.body)
    assert (opened.json["card"], report(opened)) == ({"number": "4242", "cvc": "1"}, counted(scheme, 1, matched=[2]))
    assert opened.json["é"].startswith("ev:")
    assert problem(call("/encrypt?select=$.card&select=$.none&strict=true")) == (422, "unmatched_selector")
    assert problem(call("/encrypt?select=$.card%5B")) == (400, "invalid_selector")
    assert problem(call("/encrypt?" + "&".join(["select=$"] * 65))) == (400, "invalid_selector")
    assert report(call("/encrypt")) == (counted(scheme, 4) if scheme == "symmetric" else None)


@pytest.mark.parametrize("kind", ["x-ndjson", "jsonl", "jsonlines", "json-lines", "stream+json"])
def test_strict_selectors_match_in_each_line(api: Api, key: str, kind: str) -> None:
    def call(body: bytes) -> apis.Answer:
        lines = ("--header", f"Content-Type: application/{kind}")
        return api.curl("/encrypt?select=$.card&strict=true", *basic(key), *lines, data=body)
    answer = call(b'\n{"card": "1"}\r\n\n{"card": "2"}')
    assert (answer.status, answer.headers["content-type"]) == (200, f"application/{kind}")
    assert [line[:13] for line in answer.body.split(b"\n")] == [b"", b'{"card": "ev:', b"", b'{"card": "ev:']
    refused = call(b'{"card": "1"}\n\n{"cards": [{"card": "2"}]}\n')
    assert problem(refused) == (422, "unmatched_selector") and refused.json["detail"].startswith("line 3: ")
    assert call(b"\n" * (1 << 20)).body == b"\n" * (1 << 20)


def test_what_is_sealed_already_is_reported_or_left_alone(api: Api, key: str, scheme: str) -> None:
    once = api.curl("/encrypt", *basic(key), *JSON, data=b'"x"').json
    body = json.dumps([once, "plain"]).encode()
    twice = api.curl("/encrypt", *basic(key), *JSON, data=body)
    assert report(twice) == counted(scheme, 2, resealed=1)
    skipped = api.curl("/encrypt?skip_sealed=true", *basic(key), *JSON, data=body)
    assert (report(skipped), skipped.json[0]) == (counted(scheme, 1, skipped=1), once)
    limited = api.key("--allow", "encrypt")
    answer = api.curl("/encrypt?skip_sealed=true", *basic(limited), *JSON, data=body)
    assert problem(answer) == (403, "forbidden")


def test_a_planted_string_does_not_spoil_a_document(api: Api, key: str, scheme: str) -> None:
    sealed = api.curl("/encrypt", *basic(key), *JSON, data=b'"x"').json
    planted = f"ev:{LABELS[scheme][0]}:planted:$"
    body = json.dumps({"a": sealed, "né": [planted], "c": planted}).encode()
    assert problem(api.curl("/decrypt", *basic(key), *JSON, data=body)) == (422, "invalid_envelope")
    for on_failure, left in (("leave", planted), ("null", None)):
        answer = api.curl(f"/decrypt?on_failure={on_failure}", *basic(key), *JSON, data=body)
        assert answer.json == {"a": "x", "né": [left], "c": left}
        assert report(answer) == counted(scheme, 1, failed=2, failures=["$['né'][0]", "$['c']"])
    many = json.dumps([{"x" * 400: planted}] * 1000).encode()
    answer = api.curl("/decrypt?on_failure=null", *basic(key), *JSON, data=many)
    assert answer.json == [{"x" * 400: None}] * 1000 and report(answer)["failed"] == 1000
    assert len(answer.headers["leafseal-report"]) <= 4096


def test_key_endpoints_agree(api: Api, key: str) -> None:
    by_key = api.curl("/cages/key", "-H", f"Api-Key: {key}").json
    by_app = api.curl("/keys", "-H", f"x-evervault-app-id: {APP}").json
    by_path = api.curl(f"/team_1/apps/{APP}?context=inputs")
    assert by_key == by_app == by_path.json
    assert by_path.headers["x-evervault-inputs-debug-mode"] == "false"
    public = api.leafseal.public_keys(APP)
    decoded = {name: base64.b64decode(by_key[name]) for name in ("ecdhKey", "ecdhP256Key", "ecdhP256KeyUncompressed")}
    assert (decoded["ecdhKey"].hex(), decoded["ecdhP256Key"].hex()) == (public["k1"], public["r1"])
    assert len(decoded["ecdhP256KeyUncompressed"]) == 65 and by_key["teamUuid"] == "leafseal"
    assert problem(api.curl("/keys", "-H", "x-evervault-app-id: app_nobody")) == (404, "unknown_app")
    assert problem(api.curl("/keys")) == (400, "invalid_params")
    assert problem(api.curl("/cages/key")) == (401, "unauthorized")


def test_browsers_of_named_origins_read_public_keys_and_what_a_token_opens(api: Api, key: str) -> None:
    origin = ("-H", "Origin: https://shop.example")
    answer = api.curl(f"/team/apps/{APP}", *origin)
    assert answer.headers["access-control-allow-origin"] == "https://shop.example" and answer.headers["vary"] == "origin"
    other = api.curl(f"/team/apps/{APP}", "-H", "Origin: https://evil.example")
    assert other.status == 200 and "access-control-allow-origin" not in other.headers
    ask = ("-X", "OPTIONS", "-H", "Access-Control-Request-Method: GET", "-H", "Access-Control-Request-Headers: x-evervault-app-id")
    preflight = api.curl("/keys", *ask, *origin)
    assert preflight.status == 204 and "x-evervault-app-id" in preflight.headers["access-control-allow-headers"]
    assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
    refused = api.curl("/keys", *ask, "-H", "Origin: https://evil.example")
    assert problem(refused) == (403, "forbidden") and "access-control-allow-origin" not in refused.headers
    preflight = api.curl("/decrypt", *ask, *origin)
    assert preflight.status == 204 and preflight.headers["access-control-allow-methods"] == "POST"
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    # Without it a browser does not send the request.
    assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
    refused = api.curl("/decrypt", *ask, "-H", "Origin: https://evil.example")
    assert problem(refused) == (403, "forbidden") and "access-control-allow-origin" not in refused.headers
    assert problem(api.curl("/encrypt", *ask, *origin))[0] == 405
    payload = sealed(api, key, "4111")
    request = json.dumps({"action": "api:decrypt", "payload": payload}).encode()
    token = api.curl("/client-side-tokens", *basic(key), *JSON, *origin, data=request)
    assert token.status == 200 and "access-control-allow-origin" not in token.headers
    shown = ("-H", f"Authorization: Token {token.json['token']}")
    for page, reads in ((origin, True), (("-H", "Origin: https://evil.example"), False)):
        for body, status in ((payload, 200), ("other", 403)):
            opened = api.curl("/decrypt", *shown, *JSON, *page, data=json.dumps(body).encode())
            assert opened.status == status and ("access-control-allow-origin" in opened.headers) == reads
    opened = api.curl("/decrypt", *basic(key), *JSON, *origin, data=b"1")
    assert opened.status == 200 and "access-control-allow-origin" not in opened.headers


def test_tokens_open_their_payload_alone_and_not_for_long(api: Api, key: str) -> None:
    payload, other = sealed(api, key, {"card": "4111", "pin": 1}), sealed(api, key, "other")

    def token(value: object, **more: object) -> dict[str, object]:
        request = {"action": "api:decrypt", "payload": value, **more}
        answer = api.curl("/client-side-tokens", *basic(key), *JSON, data=json.dumps(request).encode())
        assert answer.status == 200, answer
        return answer.json

    def decrypt(token: str, value: object) -> apis.Answer:
        return api.curl("/decrypt", "-H", f"Authorization: Token {token}", *JSON, data=json.dumps(value).encode())

    made = token(payload)
    assert made["expiry"] - made["createdAt"] == 300_000
    for body in (payload, {"data": payload}):
        assert leaves(decrypt(made["token"], body).json) == ["4111", 1]
    assert problem(decrypt(made["token"], other)) == (403, "forbidden")
    assert problem(decrypt(made["token"], {"data": payload, "more": other})) == (403, "forbidden")
    assert problem(api.curl("/encrypt", "-H", f"Authorization: Token {made['token']}", *JSON, data=b"1")) == (403, "forbidden")
    assert problem(decrypt(made["token"][:-1] + "x", payload)) == (401, "unauthorized")
    at = int(time.time() * 1000) + 120_000
    assert token(payload, expiry=at)["expiry"] == at
    short = token(payload, expiry=6000)
    assert decrypt(short["token"], payload).status == 200
    time.sleep(6.1)
    expired = decrypt(short["token"], payload)
    assert problem(expired) == (401, "unauthorized") and "expired" in expired.json["detail"]


def test_relay_configuration_and_authority(api: Api, key: str) -> None:
    answer = api.curl("/v2/relay-outbound", "-H", f"Api-Key: {key}")
    assert [destination["destinationDomain"] for destination in answer.json["outboundDestinations"].values()] == ["localhost"]
    assert int(answer.headers["x-poll-interval"]) >= 1
    assert problem(api.curl("/v2/relay-outbound"))[0] == 401
    assert api.curl("/").body.startswith(b"-----BEGIN CERTIFICATE-----")


def test_the_api_describes_itself(api: Api) -> None:
    answer = api.curl("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["openapi"].startswith("3.1") and "/decrypt" in answer.json["paths"]


@pytest.mark.parametrize("curve", ["SECP256R1", "SECP256K1"])
@pytest.mark.parametrize("role", [None, "pci-data"])
def test_python_sdk_round_trips(api: Api, key: str, bundle: Path, curve: str, role: str | None) -> None:
    cases = [{"do": "round_trip", "data": shape, "role": role} for shape in SDK_SHAPES]
    content = {"base64": base64.b64encode(bytes(range(256)) * 300).decode()}
    if role is None:
        cases.append({"do": "round_trip", "data": content})
    answers = api.python_sdk(bundle, key, cases, curve)
    expected = SDK_SHAPES + ([content] if role is None else [])
    assert [answer.get("error") for answer in answers] == [None] * len(cases), answers
    assert all(same(answer["ok"], shape) for answer, shape in zip(answers, expected, strict=True))


@pytest.mark.parametrize("role", [None, "pci-data"])
def test_python_sdk_opens_what_the_engine_sealed(api: Api, key: str, bundle: Path, scheme: str, role: str | None) -> None:
    """The SDK decrypts nothing itself: it recognizes no version and gives every envelope to the API."""
    query = f"?role={role}" if role else ""
    envelopes = [sealed(api, key, shape, query) for shape in SDK_SHAPES]
    for text in leaves(envelopes):
        assert PUBLISHED.fullmatch(text) and text.split(":")[1] == LABELS[scheme][role is not None], text
    file = api.curl("/encrypt", *basic(key), *BYTES, data=bytes(range(256))).body
    cases = [*envelopes, {"base64": base64.b64encode(file).decode()}]
    answers = api.python_sdk(bundle, key, [{"do": "decrypt", "data": data} for data in cases])
    expected = [*SDK_SHAPES, {"base64": base64.b64encode(bytes(range(256))).decode()}]
    assert all(same(answer.get("ok"), shape) for answer, shape in zip(answers, expected, strict=True)), answers
    for text in leaves(envelopes[:1]):
        shown = api.curl("/inspect", *basic(key), *JSON, data=json.dumps({"token": text}).encode()).json
        assert (shown["role"], shown["keyVersion"]) == (role, 1), shown


def test_python_sdk_tokens_and_errors(api: Api, key: str, bundle: Path) -> None:
    payload = sealed(api, key, {"card": "4111"})
    forged = {"card": payload["card"][:-10] + "AAAA" + payload["card"][-6:]}
    cases = [
        {"do": "token", "data": payload},
        {"do": "token", "data": payload, "seconds": 60},
        {"do": "token", "data": payload, "seconds": -60},
        {"do": "token", "data": payload, "seconds": 3600},
        {"do": "decrypt", "data": forged},
    ]
    made, timed, *refused = api.python_sdk(bundle, key, cases)
    for answer in (made, timed):
        shown = ("-H", f"Authorization: Token {answer['ok']['token']}")
        assert api.curl("/decrypt", *shown, *JSON, data=json.dumps(payload).encode()).json == {"card": "4111"}
    texts = ["within 10 minutes", "within 10 minutes", "decrypt failed"]
    assert [answer["error"] for answer in refused] == ["EvervaultError"] * 3
    assert all(text in answer["message"] for answer, text in zip(refused, texts, strict=True)), refused
    [denied] = api.python_sdk(bundle, api.key("--allow", "encrypt"), [{"do": "decrypt", "data": payload}])
    assert "may not decrypt for app" in denied["message"]
    [unknown] = api.python_sdk(bundle, "lsk_0123456789abcdef_" + "0" * 64, [{"do": "decrypt", "data": payload}])
    assert "not known to this engine" in unknown["message"]


# The variables of `ssl`, `requests` and similar libraries.
BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CERTIFI_CA_BUNDLE", "PIP_CERT")


@pytest.mark.parametrize("names", [(), BUNDLES], ids=["nothing", "every variable"])
def test_python_sdk_without_the_authority_reaches_nothing(api: Api, key: str, tmp_path: Path, names: tuple[str, ...]) -> None:
    """The SDK trusts only the bundle of `certifi`; docs/api.md explains why. If this fails for the variables, a newer
    version of the SDK heeds one, and the copy can go."""
    environment = {**api.trusting_python(tmp_path), "KEY": key, "PYTHONPATH": "", **dict.fromkeys(names, str(api.ca))}
    done = apis.subprocess.run(
        [apis.os.environ.get("PYTHON", "python3"), str(apis.HERE / "python_sdk_calls.py")],
        input=json.dumps([{"do": "decrypt", "data": "x"}]).encode(), env=environment, capture_output=True, timeout=60, check=False,
    )
    assert done.returncode != 0 and b"CERTIFICATE_VERIFY_FAILED" in done.stderr
