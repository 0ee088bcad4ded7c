"""The Helm chart: rendered by Helm, held against Kubernetes' schemas, its files read as a broker reads them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.command_lines import parses, problems
from tests.tools import run_tool, tool

from covey.broker.config import BrokerConfig, config_of
from covey.broker.http.admin import ENDPOINTS

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "covey"
NEWEST, OLDEST = "1.33.0", "1.27.0"  # of Kubernetes; the latter is in Chart.yaml
HASH = "sha256$" + "0" * 64
TOKENS = {"auth": {"adminTokenHash": HASH, "neighbourToken": "neighbours-token-of-a-test"}}
SETTINGS = {  # numbers of each kind, and tables
    "strategy": "merging",
    "max_connections": 2_000_000,
    "sample": 0.25,
    "lease_s": 2.5,
    "advertisements": False,
    "client_bounds": {"events": 1_000_000_000, "policy": "drop-oldest"},
    "durable": {"age_s": 3600},
}
USERS = """
[[tokens]]
name = "till"
hash = "sha256$1111111111111111111111111111111111111111111111111111111111111111"
subscribe = "FALSE"
"""
CASES: dict[str, dict[str, Any]] = {
    "three": TOKENS,
    "one": {**TOKENS, "replicas": 1},
    "two": {**TOKENS, "replicas": 2, "persistence": {"enabled": False}},
    "five, a star": {
        **TOKENS,
        "replicas": 5,
        "links": [*({"ends": [0, n]} for n in range(1, 5)), {"ends": [4, 1], "priority": 3}],
        "settings": SETTINGS,
        "extraConfig": USERS,
    },
    "TLS": {"auth": {"adminTokenHash": HASH}, "tls": {"secretName": "certificates"}},
    "own files": {"existingSecret": "files", "replicas": 4},
    "monitored": {
        "auth": {**TOKENS["auth"], "viewTokenHash": f"sha256${'ab' * 32}"},
        "monitoring": {
            "serviceMonitor": {"enabled": True, "tokenSecret": {"name": "view-token"}},
            "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True},
        },
    },
}


def helm(*words: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("helm", "the package helm-binary"), *words, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@lru_cache
def rendered(case: str) -> list[dict[str, Any]]:
    """Return what the chart makes of the values of a case."""
    done = helm("template", "net", str(CHART), "--namespace", "prod", values=CASES[case])
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(case: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in rendered(case) if one["kind"] == kind]


def configs(case: str) -> dict[str, BrokerConfig]:
    """Return the brokers of a case, as they read their files."""
    files: dict[str, str] = of_kind(case, "Secret")[0]["stringData"]
    found = {}
    for name, text in files.items():
        values = tomllib.loads(text)
        values.pop("tls", None)  # its files are not here
        found[name.removesuffix(".toml")] = config_of(values, name)
    return found


@pytest.mark.parametrize("case", CASES)
def test_helm_finds_nothing_to_complain_about(case: str) -> None:
    done = helm("lint", "--strict", str(CHART), values=CASES[case])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("case", CASES)
def test_kubernetes_takes_what_is_rendered(case: str, version: str) -> None:
    own = [one for one in rendered(case) if not one["apiVersion"].startswith("monitoring.")]
    for one in own:
        kubernetes_validate.validate(one, version, strict=True)
    assert len(own) < len(rendered(case)) or case != "monitored"


@pytest.mark.parametrize("case", [case for case in CASES if case != "own files"])
def test_brokers_read_their_files_and_agree(case: str) -> None:
    brokers = configs(case)
    (state,) = of_kind(case, "StatefulSet")
    assert list(brokers) == [f"net-covey-{number}" for number in range(state["spec"]["replicas"])]
    for name, config in brokers.items():
        assert config.name == name
        for link in config.links:
            back = brokers[link.name].link(name)
            assert back is not None
            assert back.priority == link.priority
            assert bool(back.address) != bool(link.address)  # one of them dials
            assert link.address in ("", f"{link.name}.{state['spec']['serviceName']}:{config.port}")
    assert reached(brokers) == set(brokers)


def reached(brokers: dict[str, BrokerConfig]) -> set[str]:
    """Return the brokers that the first one reaches over links."""
    found, waiting = set(), [next(iter(brokers))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [link.name for link in brokers[name].links]
    return found


def test_settings_reach_brokers_as_what_they_are() -> None:
    config = configs("five, a star")["net-covey-2"]
    assert (config.strategy, config.max_connections, config.sample) == ("merging", 2_000_000, 0.25)
    assert (config.lease_s, config.advertisements) == (2.5, False)
    assert (config.client_bounds.events, config.client_bounds.policy) == (1_000_000_000, "drop-oldest")
    assert config.durable.age_s == 3600
    assert [one.name for one in config.security.tokens] == ["till"]
    assert [link.priority for link in configs("five, a star")["net-covey-4"].links] == [1, 3]


@pytest.mark.parametrize("case", CASES)
def test_pods_run_the_program_and_are_asked_at_its_pages(case: str) -> None:
    (state,) = of_kind(case, "StatefulSet")
    pod = state["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parses(shlex.join(["covey", *container["args"]]))
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert {"/etc/covey", "/tmp"} <= mounts
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in {one.path for one in ENDPOINTS}
        assert asked["port"] in ports
        assert asked["scheme"] == ("HTTPS" if case == "TLS" else "HTTP")
    for service in of_kind(case, "Service"):
        assert {one["targetPort"] for one in service["spec"]["ports"]} <= set(ports)
    if case == "own files":
        return
    for config in configs(case).values():
        assert config.admin is not None
        assert ports == {"covey": config.port, "admin": config.admin.port}
        assert config.admin.tls == (case == "TLS")
        assert bool(config.admin.view_token) == (case == "monitored")
        assert not config.data_dir or Path(config.data_dir).parent.as_posix() in mounts
        assert bool(config.data_dir) == ("volumeClaimTemplates" in state["spec"])
        assert pod["terminationGracePeriodSeconds"] > config.drain_s + config.lame_duck_s


@pytest.mark.parametrize("case", CASES)
def test_pods_have_no_rights_that_they_do_not_need(case: str) -> None:
    (state,) = of_kind(case, "StatefulSet")
    pod = state["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False  # or COVEY_PORT=tcp://… is taken for a setting
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (budget,) = of_kind(case, "PodDisruptionBudget")
    selected = budget["spec"]["selector"]["matchLabels"].items()
    assert selected <= state["spec"]["template"]["metadata"]["labels"].items()


def test_the_user_is_that_of_the_image() -> None:
    (user,) = set(re.findall(r"^USER (\d+):\1$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE))
    (state,) = of_kind("three", "StatefulSet")
    context = state["spec"]["template"]["spec"]["securityContext"]
    assert {context["runAsUser"], context["runAsGroup"], context["fsGroup"]} == {int(user)}


def test_another_configuration_restarts_the_pods() -> None:
    sums = {
        of_kind(case, "StatefulSet")[0]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for case in ("three", "two", "five, a star", "TLS")
    }
    assert len(sums) == 4


def test_what_is_monitored_is_what_is_in_the_files() -> None:
    (rule,) = of_kind("monitored", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/covey.rules.yml").read_text(encoding="utf-8"))
    (map_,) = of_kind("monitored", "ConfigMap")
    assert json.loads(map_["data"]["covey.json"]) == json.loads(
        (CHART / "files/covey.dashboard.json").read_text(encoding="utf-8")
    )
    (monitor,) = of_kind("monitored", "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["path"] in {one.path for one in ENDPOINTS}
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    services = [
        one for one in of_kind("monitored", "Service") if selected <= one["metadata"]["labels"].items()
    ]
    assert [one["metadata"]["name"] for one in services] == ["net-covey-brokers"]  # each broker once
    assert services[0]["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "covey"  # as the rules have it


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "auth.adminTokenHash is missing"),
        ({"auth": {"adminTokenHash": HASH}}, "auth.neighbourToken is missing"),
        ({**TOKENS, "links": [{"ends": [0, 3]}]}, "there is no broker 3 among 3"),
        ({**TOKENS, "replica": 3}, "Additional property replica|additional properties 'replica' not allowed"),
        ({**TOKENS, "links": [{"ends": [1, 1]}]}, "links"),
        ({"auth": {"adminTokenHash": "secret"}}, "adminTokenHash"),
    ],
)
def test_a_mistake_is_one_that_is_said(values: dict[str, Any], problem: str) -> None:
    done = helm("template", "net", str(CHART), values=values)
    assert done.returncode != 0
    assert re.search(problem, done.stderr), done.stderr


def notes(folder: Path, values: dict[str, Any]) -> str:
    """Return what an operator reads after an installation. Helm shows that only to a cluster: here it is a template."""
    chart = folder / "covey"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{- define "notes" -}}}}\n{text}{{{{- end -}}}}\nkind: Notes\ntext: {{{{ include "notes" . | quote }}}}\n'
    )
    done = helm("template", "net", str(chart), "--show-only", "templates/notes.yaml", values=values)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])


@pytest.mark.parametrize("case", CASES)
def test_notes_name_commands_that_there_are_and_what_is_missing(case: str, tmp_path: Path) -> None:
    text = notes(tmp_path, CASES[case])
    lines = re.findall(r"^ *(covey .*)$", text, re.MULTILINE)
    assert lines
    assert [problem for line in lines for problem in problems(line)] == []
    assert ("https://127.0.0.1:7401" in text) == (case == "TLS")
    assert ("NOBODY CAN CONNECT YET" in text) == (case not in ("five, a star", "own files"))
    assert ("Brokers keep nothing" in text) == (case == "two")


def test_the_chart_can_be_packed(tmp_path: Path) -> None:
    run_tool(tool("helm", "the package helm-binary"), "package", CHART, "--destination", tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
