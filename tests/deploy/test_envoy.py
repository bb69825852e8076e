"""Envoy's configuration, read by Envoy, and its agreement with the engine's defaults."""

import json

import yaml

from files import DEPLOY, ROOT, program, run

FILE = DEPLOY / "envoy/envoy.yaml"


def envoy() -> dict:
    return yaml.safe_load(FILE.read_text())


def test_envoy_accepts_it() -> None:
    assert "OK" in run(program("ENVOY"), "--mode", "validate", "--config-path", FILE)[0]


def test_envoy_refuses_a_misspelt_key(tmp_path) -> None:
    wrong = tmp_path / "envoy.yaml"
    wrong.write_text(FILE.read_text().replace("outlier_detection:", "outlier_detektion:"))
    run(program("ENVOY"), "--mode", "validate", "--config-path", wrong, code=1)


def test_an_engine_that_drains_is_noticed_in_time() -> None:
    [cluster] = envoy()["static_resources"]["clusters"]
    [check] = cluster["health_checks"]
    noticed = float(check["interval"][:-1]) * check["unhealthy_threshold"] + float(check["timeout"][:-1])
    default = json.loads((ROOT / "docs/schema/leafseal.schema.json").read_text())
    delay = default["properties"]["server"]["properties"]["drain_delay"]["default"]
    assert noticed < float(delay.removesuffix("s")), "server.drain_delay must be longer"
    assert check["http_health_check"] == {"path": "/readyz"}


def test_the_admin_port_is_local() -> None:
    assert envoy()["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"
