"""The Compose file, read by the reference implementation; the files that it mounts, read by their programs."""

import json
import os
import subprocess
import threading
import tomllib
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from files import DEPLOY, program, run

FOLDER = DEPLOY / "compose"
LEAFSEAL_IMAGE = "leafseal:local"


@pytest.fixture(scope="module")
def project() -> dict:
    """The project as docker compose understands it: merged, interpolated, checked for references that lead nowhere."""
    return json.loads(run(program("COMPOSE_SPEC"), FOLDER / "compose.yaml")[0])


def test_the_services_are_those_that_the_guide_names(project: dict) -> None:
    lasting = {name for name, service in project["services"].items() if service["restart"] != "no"}
    assert lasting == {"database", "engine-1", "engine-2", "relay", "upstream", "prometheus", "grafana"}


def test_a_wrong_reference_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((FOLDER / "compose.yaml").read_text().replace("certificates: {condition", "certificate: {condition"))
    assert "certificate" in run(program("COMPOSE_SPEC"), wrong, code=1)[1]


def test_services_have_no_privileges(project: dict) -> None:
    for name, service in project["services"].items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "devices", "pid", "ipc"} & set(service), name
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", [])), name
        if service["image"] == LEAFSEAL_IMAGE:
            assert service["cap_drop"] == ["ALL"] and service["read_only"] is True and "cap_add" not in service, name


def test_only_what_needs_a_secret_has_it(project: dict) -> None:
    def readers(volume: str) -> set[str]:
        return {name for name, service in project["services"].items() if volume in {each["source"] for each in service.get("volumes", [])}}

    prepare = {"certificates", "install", "keys", "relay-certificate"}
    assert readers("root-key") == {"engine-1", "engine-2"} | prepare
    assert readers("admin") == prepare | {"install-relay"}
    assert readers("engine") == {"engine-1", "engine-2", "install"}
    assert readers("relay") == {"relay", "install-relay"}
    assert readers("database") == {"database", "install"}
    lasting = [service for service in project["services"].values() if service["restart"] != "no"]
    written = {each["source"] for service in lasting for each in service.get("volumes", []) if not each.get("read_only")}
    assert written == {"tables", "series"}


def test_no_secret_is_in_a_variable(project: dict) -> None:
    for name, service in project["services"].items():
        for variable, value in service.get("environment", {}).items():
            is_secret = "PASSWORD" in variable or "SECRET" in variable or "ROOT_KEY" in variable
            assert not is_secret or variable.endswith("_FILE"), f"{name}: {variable}"
            assert "://" not in str(value) or ":" not in str(value).split("://")[1].split("@")[0], f"{name}: {variable}"


def test_every_mounted_file_is_there(project: dict) -> None:
    binds = [each["source"] for service in project["services"].values() for each in service.get("volumes", []) if each["type"] == "bind"]
    assert len(binds) >= 8 and all(Path(source).is_file() for source in binds), binds


def test_engines_finish_before_they_are_killed(project: dict) -> None:
    for name in ("engine-1", "engine-2", "relay"):
        assert project["services"][name]["stop_grace_period"] == "1m0s"


def test_variables_are_settings_of_the_program(project: dict, tmp_path: Path) -> None:
    for name, service in project["services"].items():
        if service["image"] != LEAFSEAL_IMAGE:
            continue
        given = {key: str(value) for key, value in (service.get("environment") or {}).items()}
        environment = {**os.environ, **given, "LEAFSEAL_DIR": str(tmp_path)}
        shown = tomllib.loads(run(program("LEAFSEAL"), "config", "show", environment=environment)[0])
        for variable, value in given.items():
            if variable == "LEAFSEAL_DIR":
                continue
            section, key = variable.removeprefix("LEAFSEAL_").lower().split("_", 1)
            assert shown[section][key] == value, f"{name}: {variable}"


def test_what_prepares_the_rest_can_run_again(project: dict, tmp_path: Path) -> None:
    """After `down`, `up` starts these services again: the volumes, and with them the keys, are still there."""
    services = [project["services"][name] for name in ("certificates", "keys", "relay-certificate")]
    assert all(service["image"] == LEAFSEAL_IMAGE and service["restart"] == "no" for service in services)
    for _ in range(2):
        for service in services:
            run(program("LEAFSEAL"), *service["command"], environment={**os.environ, "LEAFSEAL_DIR": str(tmp_path / "admin")})


def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text((FOLDER / "prometheus.yml").read_text())
    (tmp_path / "alerts.yml").write_text((DEPLOY / "prometheus/alerts.yml").read_text())
    out, _ = run("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert "SUCCESS" in out and "1 rule files found" in out


def test_jobs_are_those_of_the_alert_rules(project: dict) -> None:
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]}
    assert set(jobs) == {"leafseal", "leafseal-relay"}
    assert all(target.split(":")[0] in project["services"] for targets in jobs.values() for target in targets)


def install(folder: Path, *volumes: str) -> None:
    """Runs install.sh with its absolute paths below `folder`, as the containers see them."""
    script = (FOLDER / "install.sh").read_text()
    for name in ("admin", "engine", "database", "root-key", "relay"):
        (folder / name).mkdir(exist_ok=True)
        script = script.replace(f" /{name}", f" {folder}/{name}").replace(f"=/{name}", f"={folder}/{name}").replace(f">/{name}", f">{folder}/{name}")
    user = subprocess.run(["id", "-u", "postgres"], capture_output=True, check=False)
    if user.returncode != 0:
        script = script.replace("give postgres", "give 999")
    run("bash", "-c", script, "install.sh", *volumes)


def test_the_relay_accepts_its_file_with_what_is_installed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to other users, as the containers do")
    admin = tmp_path / "admin"
    leafseal = program("LEAFSEAL")
    run(leafseal, "--dir", admin, "certs", "init", "--name", "engine-1", "--name", "database")
    install(tmp_path, "engine", "database", "root-key")
    first = (admin / "password").read_text()
    run(leafseal, "--dir", admin, "keys", "create", "app_demo")
    run(leafseal, "--dir", admin, "certs", "issue", "relay", "--app", "app_demo", "--allow", "encrypt,decrypt")
    install(tmp_path, "relay", "engine")
    assert (admin / "password").read_text() == first and len(first) == 32, "a second run keeps the password"
    run(leafseal, "--dir", tmp_path / "relay", "config", "check", "--for", "relay", "--relay", FOLDER / "relay.toml")
    present = {str(path.relative_to(tmp_path)) for name in ("engine", "database", "relay") for path in (tmp_path / name).rglob("*") if path.is_file()}
    assert present == {
        "engine/certs/ca.pem", "engine/certs/server.pem", "engine/certs/server.key", "engine/password",
        "database/server.pem", "database/server.key", "database/password",
        "relay/certs/ca.pem", "relay/certs/relay.pem", "relay/certs/relay.key",
    }  # fmt: skip
    for path in present:
        status = (tmp_path / path).stat()
        assert status.st_mode & 0o777 == 0o600 and (path.startswith("database") or status.st_uid == 65532), path


def test_the_demo_upstream_returns_what_it_receives() -> None:
    module: dict = {"__name__": "upstream"}
    exec(compile((FOLDER / "upstream.py").read_text(), "upstream.py", "exec"), module)  # noqa: S102
    server = ThreadingHTTPServer(("127.0.0.1", 0), module["Echo"])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        body = json.dumps({"card": {"number": "4242"}}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/customers/1", data=body) as answer:
            assert answer.read() == body
    finally:
        server.shutdown()
        server.server_close()
