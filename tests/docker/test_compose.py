"""The compose files: valid, hardened, started in order, and every command line known."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from click.testing import CliRunner
from dockerfiles import DOCKER
from dockerfiles import DOCKERFILES
from dockerfiles import last
from dockerfiles import merged
from dockerfiles import tool
from typer.main import get_command

from tuner.cli.app import app

OVERRIDES: dict[str, dict[str, str]] = {"cuda": {}, "rocm": {"RENDER_GID": "992"}}
OURS = ("migrate", "service", "worker")


@pytest.fixture(params=["cpu", *OVERRIDES])
def services(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the services with each override."""
    kind = request.param
    if kind == "cpu":
        found = merged("compose.yaml")
    else:
        found = merged("compose.yaml", f"compose.{kind}.yaml", **OVERRIDES[kind])
    services: dict[str, Any] = found["services"]
    return services


@pytest.mark.parametrize("path", sorted(DOCKER.glob("compose*.yaml")), ids=lambda path: path.stem)
def test_it_is_of_the_compose_specification(path: Any) -> None:
    answer = subprocess.run(
        [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path)],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_ours_run_unprivileged_on_a_read_only_root(services: dict[str, Any]) -> None:
    for name in OURS:
        service = services[name]
        assert service["user"] == "10001:10001"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert any(each.split(":")[0] == "/tmp" for each in service["tmpfs"])
        assert "privileged" not in service
        assert "network_mode" not in service
    assert services["postgres"]["read_only"] is True
    # Docker mounts it noexec otherwise, and then no kernel of the CPU device can be loaded.
    (options,) = [each for each in services["worker"]["tmpfs"] if each.startswith("/tmp:")]
    assert "exec" in options.partition(":")[2].split(",")


def test_secrets_are_files_and_nothing_else(services: dict[str, Any]) -> None:
    declared = merged("compose.yaml")["secrets"]
    assert all(set(each) == {"file"} for each in declared.values())
    assert (DOCKER / ".gitignore").read_text().splitlines()[-1] == "secrets/"
    for name, service in services.items():
        assert set(service["secrets"]) <= set(declared)
        for variable, value in service["environment"].items():
            is_secret = "PASSWORD" in variable or "TOKEN" in variable
            assert not is_secret or (variable.endswith("_FILE") and value.startswith("/run/"))
        assert "@postgres" not in str(service.get("command")), name
    assert ":" not in services["service"]["environment"]["TUNER_DB"].partition("@")[0][13:]


def test_it_starts_in_order_and_says_when_it_is_well(services: dict[str, Any]) -> None:
    assert services["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["migrate"]["restart"] == "no"
    after = services["service"]["depends_on"]
    assert after["migrate"] == {"condition": "service_completed_successfully"}
    assert services["worker"]["depends_on"] == {"service": {"condition": "service_healthy"}}
    assert "healthcheck" not in services["service"], "the image's own is used"
    for name in ("migrate", "worker"):
        assert services[name]["healthcheck"] == {"disable": True}, "it listens on nothing"


def test_the_service_is_reached_from_this_machine_only_unless_told(
    services: dict[str, Any],
) -> None:
    assert services["service"]["ports"] == ["127.0.0.1:8765:8765"]
    assert all("ports" not in services[name] for name in ("postgres", "migrate", "worker"))
    assert merged("compose.yaml")["networks"]["database"] == {"internal": True}


def test_gpus_are_handed_to_the_worker_alone() -> None:
    cuda = merged("compose.yaml", "compose.cuda.yaml")["services"]
    assert cuda["worker"]["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    ]
    assert cuda["worker"]["build"]["dockerfile"] == "docker/Dockerfile.cuda"
    rocm = merged("compose.yaml", "compose.rocm.yaml", RENDER_GID="992")["services"]
    assert rocm["worker"]["devices"] == ["/dev/kfd", "/dev/dri"]
    assert rocm["worker"]["group_add"] == ["992"], "a number: the image has no such name"
    assert rocm["worker"]["build"]["context"] == "..", "kept from compose.yaml"
    for services in (cuda, rocm):
        assert services["service"]["image"] == "tuner:cpu"
        assert not {"devices", "deploy", "group_add"} & set(services["service"])


def test_without_the_render_group_it_says_how_to_set_it() -> None:
    with pytest.raises(AssertionError, match="RENDER_GID must be set: set it with"):
        merged("compose.yaml", "compose.rocm.yaml")


def test_the_build_arguments_are_known_to_the_dockerfiles(services: dict[str, Any]) -> None:
    for name in OURS:
        build = services[name]["build"]
        dockerfile = DOCKER.parent / build["dockerfile"]
        assert dockerfile in DOCKERFILES
        for argument, default in build.get("args", {}).items():
            assert f"ARG {argument}={default}" in dockerfile.read_text()


def command_lines() -> list[list[str]]:
    found = [last(path, "CMD").words for path in DOCKERFILES]
    for service in merged("compose.yaml")["services"].values():
        words = service.get("command", [])
        if words[:2] == ["sh", "-c"]:
            words = words[2].partition(" || ")[0].split()
        if words:
            found.append(words)
    return found


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_every_command_line_is_understood(words: list[str]) -> None:
    assert words[0] == "tuner"

    answer = CliRunner().invoke(get_command(app), [*words[1:], "--help"])

    assert answer.exit_code == 0, answer.output
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert all(option in answer.output for option in options)
