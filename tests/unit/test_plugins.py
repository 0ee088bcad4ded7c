"""Plug-ins: the template in examples/plugin passes what our own strategies pass, and what cannot be used is refused.

A package is installed here as an installer would: its modules and a `dist-info` directory on the path.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import covey
from covey.broker.config import config_of
from covey.errors import ConfigError
from covey.routing.strategy import registered
from covey.sim import BrokerNetwork, Network
from covey.sim.checkers import mirror_under_way
from covey.sim.topology import TOPOLOGIES
from covey.sim.topology import build as build_topology
from covey.sim.trial import TOPOLOGIES as OVERLAYS
from covey.sim.trial import Trial, applies
from covey.sim.workload import WORKLOADS
from covey.sim.workload import build as build_workload

TEMPLATE = Path(__file__).parents[2] / "examples" / "plugin"

Install = Callable[[str, Mapping[str, Mapping[str, str]], str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return what installs a package of one module with entry points by group."""
    before = set(sys.modules)

    def put(package: str, points: Mapping[str, Mapping[str, str]], code: str) -> None:
        site = tmp_path / package
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [
            line
            for group, named in points.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        (site / f"{package}.py").write_text(code)
        monkeypatch.syspath_prepend(site)

    yield put
    for name in set(sys.modules) - before:
        if name.startswith(("covey_hysteresis", "brought")):
            del sys.modules[name]


@pytest.fixture
def template(install: Install) -> None:
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    install("covey_hysteresis", project["entry-points"], (TEMPLATE / "covey_hysteresis.py").read_text())


# -- the template ----------------------------------------------------------------------------------------------


def test_it_is_known_wherever_ours_are(template: None) -> None:
    assert covey.strategies()[-1] == "hysteresis"
    assert list(TOPOLOGIES)[-1] == "caterpillar"
    assert list(WORKLOADS)[-1] == "nested"
    assert registered("hysteresis").options == ("least",)
    with pytest.raises(ConfigError, match="has no setting 'most'"):
        Network([("a", "b")], "hysteresis", options={"most": 1})
    with pytest.raises(ConfigError, match="least of hysteresis is a whole number"):
        Network([("a", "b")], "hysteresis", options={"least": 0})


@pytest.mark.parametrize("faults", [False, True])
def test_the_strategy_keeps_all_promises(template: None, faults: bool) -> None:
    overlays = [topology for topology in OVERLAYS if applies("hysteresis", topology)]
    for seed in range(24):
        trial = Trial("hysteresis", seed % 3 > 0, overlays[seed % len(overlays)], seed, faults)
        assert trial.run(mirror_under_way).findings == ()


def test_it_withdraws_what_is_worth_it(template: None) -> None:
    def entries(least: int, narrow: int) -> int:
        net = Network([("a", "b")], "hysteresis", advertisements=False, options={"least": least})
        for number in range(narrow):
            net.subscribe("a", f"x = {number}")
        net.subscribe("a", "x >= 0")
        net.settle()
        return len(net.tables["b"])

    assert entries(3, 2) == 3
    assert entries(3, 3) == 1
    assert entries(1, 2) == 1


def test_a_scenario_runs_on_all_three(template: None) -> None:
    topology = build_topology("caterpillar", length=3, legs=2)
    assert len(topology.brokers) == 9
    script = build_workload("nested", topology, 1, depth=5, events=12)
    assert [action.op for action in script].count("subscribe") == 5
    with pytest.raises(ConfigError, match="has no parameter 'width'"):
        build_workload("nested", topology, 1, width=3)
    net = Network(topology, "hysteresis")
    handles = {}
    for action in script:
        if action.op == "advertise":
            net.advertise(action.broker, action.what, client=action.client)
        elif action.op == "subscribe":
            handles[action.name] = net.subscribe(action.broker, action.what)
        elif action.op == "unsubscribe":
            net.unsubscribe(handles[action.name])
        else:
            net.publish(action.broker, action.what, client=action.client)
        net.settle()
    wanted = sum(action.what["x"] < n + 1 for action in script if action.op == "publish" for n in range(5))
    assert len(net.deliveries) == wanted > 0
    assert not any(net.tables.values())


def test_a_live_broker_takes_it_and_is_a_neighbour_of_covering(template: None) -> None:
    config_of({"name": "b", "strategy": "hysteresis", "options": {"least": 2}}, "broker.toml")
    net = BrokerNetwork([("a", "b"), ("b", "c")], {"a": "covering", "b": "hysteresis", "c": "covering-lazy"})
    net.advertise("a", "x >= 0")
    for least in range(4, -1, -1):
        net.subscribe("c", f"x > {least}")
    net.settle()
    net.publish("a", {"x": 3})
    net.settle()
    assert len(net.deliveries) == 3


# -- what is refused -------------------------------------------------------------------------------------------

GROUP = "covey.strategies"


def test_a_name_of_ours_is_refused(install: Install) -> None:
    install("brought", {GROUP: {"covering": "brought:Nothing"}}, "")
    with pytest.raises(
        ConfigError, match="strategy 'covering' of the package brought has the name of one that"
    ):
        covey.strategies()
    assert registered("covering").description  # ours are there whatever others bring


def test_an_alias_of_ours_is_refused(install: Install) -> None:
    install("brought", {GROUP: {"lazy": "brought:Nothing"}}, "")
    with pytest.raises(ConfigError, match="'lazy' of the package brought has the name of one that Covey has"):
        covey.strategies()


def test_a_name_that_two_packages_bring_is_refused(install: Install) -> None:
    for package in ("brought1", "brought2"):
        install(package, {"covey.topologies": {"ring": f"{package}:ring"}}, "def ring(): ...")
    with pytest.raises(
        ConfigError, match="topology 'ring' of the package brought2 has the name of one of brought1"
    ):
        build_topology("ring")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("1 / 0", "of the package brought cannot be loaded: ZeroDivisionError"),
        ("import nowhere_to_be_found", "cannot be loaded: ModuleNotFoundError"),
        ("", "cannot be loaded: AttributeError"),
        ("Mine = 7", "cannot be used: 7 is no class of strategies"),
        (
            "from covey.strategies.simple import Simple\nclass Mine(Simple): name = 'yours'",
            "cannot be used: it calls itself 'yours'",
        ),
        (
            "from covey.routing.strategy import Strategy\nclass Mine(Strategy): name = 'mine'",
            "cannot be used: Mine does not have advertised, close, ",
        ),
    ],
)
def test_what_is_no_strategy_is_refused(install: Install, code: str, says: str) -> None:
    install("brought", {GROUP: {"mine": "brought:Mine"}}, code)
    assert "mine" in covey.strategies()  # nothing of it is imported for that
    with pytest.raises(ConfigError, match=says):
        Network([("a", "b")], "mine")
    with pytest.raises(ConfigError, match=says):
        config_of({"name": "b", "strategy": "mine"}, "broker.toml")


def test_what_builds_something_else_is_refused(install: Install) -> None:
    points = {"covey.topologies": {"ring": "brought:ring"}, "covey.workloads": {"work": "brought:work"}}
    install("brought", points, "def ring(): return 3\nwork = 'much'")
    with pytest.raises(ConfigError, match="topology ring: what it made is a int, not a Topology"):
        build_topology("ring")
    with pytest.raises(
        ConfigError, match="workload 'work' of the package brought cannot be used: str is not a"
    ):
        build_workload("work", build_topology("line", count=2), 1)
