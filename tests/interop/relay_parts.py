"""Helpers for tests of the relay: certificates, two recording upstreams, and an inbound relay with a route for each rule."""

import os
from dataclasses import dataclass
from pathlib import Path

import relays
from certificates import Authority, Server
from engine import Engine
from upstream import Upstream

# The app of conftest.py.
APP = "interop"
ROLE = "pci"


@dataclass(frozen=True)
class Pki:
    """The tests' authority, with the certificate of relay and upstreams."""

    authority: Authority
    ca: Path
    server: Server


def make_pki(folder: Path) -> Pki:
    authority = Authority.fresh()
    hosts = ["localhost", "127.0.0.1", "*.example.test", "example.test"]
    return Pki(authority, authority.write(folder), authority.issue_server(folder, "server", hosts))


def rule(action: str, **selected: object) -> dict[str, object]:
    return {"action": action, **selected}


CARD_AND_NOTES = ["$.card.number", "$..note"]
# Path patterns and their rules. `app` and upstream are the same for all routes.
ROUTES: list[dict[str, object]] = [
    {
        "path": "/json/**",
        "request": [rule("encrypt", json=CARD_AND_NOTES)],
        "response": [rule("decrypt", json=["$"])],
    },
    {"path": "/sealed/**", "request": [rule("encrypt", json=CARD_AND_NOTES)]},
    {"path": "/opened/**", "response": [rule("decrypt", json=["$"])]},
    {"path": "/all-opened/**", "response": [rule("decrypt", json=["$"])], "response_mismatch": "refuse"},
    *(
        {
            "path": f"/{on_failure}/**",
            "request": [rule("decrypt", form=["*"], headers=["X-Card"], on_failure=on_failure)],
            "response": [rule("decrypt", json=["$"], on_failure=on_failure)],
        }
        for on_failure in ("leave", "null")
    ),
    {"path": "/secret/**", "response": [rule("encrypt", json=["$.secret"])]},
    {
        "path": "/roles/**",
        "request": [rule("encrypt", json=["$.pan"], role=ROLE)],
        "response": [rule("decrypt", json=["$.pan"], role=ROLE)],
    },
    {
        "path": "/form/**",
        "request": [rule("encrypt", form=["card", "cvc"])],
        "response": [rule("decrypt", form=["*"])],
    },
    {
        "path": "/headers/**",
        "request": [rule("encrypt", headers=["X-Card"])],
        "response": [rule("decrypt", headers=["X-Card"])],
    },
    {
        "path": "/trailers/**",
        "request": [rule("encrypt", headers=["X-Card"])],
        "response": [rule("redact", headers=["X-Card"])],
    },
    {
        "path": "/redact/**",
        "request": [rule("redact", json=["$..ssn"]), rule("redact", headers=["X-Ssn"], replacement="-")],
        "response": [rule("redact", json=["$.name", "$.age"], replacement="***")],
    },
    {"path": "/lenient/**", "request": [rule("encrypt", json=["$.a"])], "request_mismatch": "pass"},
    {"path": "/glob/*/items/*.json", "request": [rule("encrypt", json=["$.a"])]},
    {"path": "/methods", "methods": ["PUT", "PATCH"], "request": [rule("encrypt", json=["$.a"])]},
    {
        "path": "/hosts",
        "hosts": ["*.example.test", "only.test"],
        "request": [rule("encrypt", json=["$.a"])],
    },
]


def inbound(
    pki: Pki,
    plain: Upstream,
    tls: Upstream,
    engine: Engine,
    upstream: dict[str, object] | None = None,
    **limits: object,
) -> str:
    """The listeners `tls` and `plain` with the same routes; routes below `/tls` use the upstream with TLS."""
    text = relays.process_section() + relays.engine_section(engine)
    text += relays.section("upstream", authorities=str(pki.ca), system_authorities=False, **(upstream or {}))
    text += relays.section("limits", **limits)
    certificate = {"certificate": str(pki.server.certificate), "private_key": str(pki.server.key)}
    for name, identity in (("tls", certificate), ("plain", {})):
        text += relays.section("[inbound]", name=name, address="127.0.0.1:0", upstream=plain.url, **identity)
        for route in ROUTES:
            text += relays.section("[inbound.route]", app=APP, **route)
            secure = {**route, "path": f"/tls{route['path']}"}
            text += relays.section("[inbound.route]", app=APP, upstream=tls.url, **secure)
        text += relays.section("[inbound.route]", path="/tls/**", upstream=tls.url)
    return text


def random_bytes(size: int) -> bytes:
    """Incompressible bytes."""
    return os.urandom(size)
