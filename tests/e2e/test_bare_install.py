"""`pip install covey` without extras: small, light to import, a client and its commands; the rest says what it needs.

The wheel is built and installed into an environment of its own, without pip, as on a machine that has nothing else.
The broker that the client talks to runs in the environment of the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from tests.e2e.helpers.pairs import admin_url
from tests.e2e.helpers.scripted import broker, url

from covey import cli, extras
from covey.broker.config import AdminConfig
from covey.broker.server import Broker
from covey.client.sync import Calls

PROJECT = Path(__file__).parents[2]
MAX_BYTES = 60_000_000
SESSION = """
import asyncio, sys, covey

async def main(url):
    async with covey.connect(url) as client:
        await client.advertise("price >= 0")
        wanted = await client.subscribe("symbol = 'IBM' and price < 20")
        await client.publish({"symbol": "IBM", "price": 30})
        await client.publish({"symbol": "IBM", "price": 12})
        print((await wanted.next(timeout_s=20)).content)

asyncio.run(main(sys.argv[1]))
with covey.connect_sync(sys.argv[1]) as client, client.subscribe("//order", language="xpath") as orders:
    client.advertise("//*", language="xpath")
    client.publish("<order/>")
    print(orders.next(timeout_s=20).content)
"""
BASE = {
    "backup", "explain", "filter check", "filter covers", "filter match", "install", "password", "pub", "sub", "tables",
    "token", "top",
}  # fmt: skip
NEEDY = {
    "broker": ("broker", "check-config", "up", "sim", "trial", "compile", "bench match", "bench cover", "bench xpath",
               "bench network", "bench keywords", "bench routing", "bench storms"),
    "dashboard": ("dashboard",),
    "spark": ("plan", "whatif", "coordinator", "data generate", "demo", "bench planning", "bench pipeline",
              "bench all"),
    "lab": ("bench plot", "bench document", "lab list", "lab run", "lab scoreboard", "lab report", "lab document",
            "lab export"),
}  # fmt: skip
EXTRA_OF = {command: extra for extra, commands in NEEDY.items() for command in commands}
# Without these, what is missing first is an argument.
ARGUMENTS = {
    "check-config": ("broker.toml",),
    "up": ("network.toml",),
    "trial": ("covering",),
    "dashboard": ("http://127.0.0.1:1",),
    "plan": (".", "--out", "out"),
    "whatif": (".", "--remove-broker", "a"),
    "lab export": ("r-tables",),
    "coordinator": ("http://127.0.0.1:1", "--data-dir", "data"),
    "bench plot": ("rows.json",),
    "bench document": ("rows.json", "--out", "page.md"),
    "lab run": ("all",),
}


class Bare(NamedTuple):
    """An environment that has the wheel and what it needs, and nothing else."""

    root: Path

    @property
    def packages(self) -> Path:
        return next(self.root.glob("lib/python*/site-packages"))

    def python(self, *arguments: str) -> str:
        return _run(self.root / "bin" / "python", *arguments, cwd=self.root)

    def covey(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "bin" / "covey", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.root,
            env=_environment(),
        )


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "COLUMNS": "120"}


def _run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=cwd, env=env or _environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """Build the wheel and install it, with the tested versions, from where pip finds packages."""
    root = tmp_path_factory.mktemp("bare")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _pip(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", root, PROJECT)
    _run(sys.executable, "-m", "venv", "--without-pip", root / "env", cwd=root)
    wheel = next(root.glob("covey-*.whl"))
    python, constraints = root / "env" / "bin" / "python", PROJECT / "constraints.txt"
    _pip(*pip, "--python", python, "install", "--constraint", constraints, wheel)
    return Bare(root / "env")


def _pip(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    """A broker with admin pages that runs in a thread of its own."""
    calls = Calls("broker")

    async def start() -> Broker:
        one = broker(admin=AdminConfig(port=0))
        await one.start()
        return one

    one = calls.call(start())
    yield one
    calls.call(one.stop())
    calls.stop()


def test_it_is_small_and_has_no_compiler_no_spark_and_no_server(bare: Bare) -> None:
    size = sum(file.stat().st_size for file in bare.packages.rglob("*") if file.is_file())
    assert size <= MAX_BYTES
    there = {path.name for path in bare.packages.iterdir()}
    heavy = {module for modules in extras.MODULES.values() for module in modules}
    assert not there & heavy
    assert {"covey", "msgspec", "typer", "rich"} <= there


def test_importing_covey_loads_nothing_but_covey(bare: Bare) -> None:
    loaded = bare.python("-c", "import sys, covey; print(*sorted(m.partition('.')[0] for m in sys.modules))")
    assert not set(loaded.split()) & {"asyncio", "msgspec", "pydantic", "rich", "typer"}
    loaded = bare.python(
        "-c",
        "import sys, covey; covey.connect, covey.parse; print(*sorted(m.partition('.')[0] for m in sys.modules))",
    )
    assert not set(loaded.split()) & {"rich", "typer", "pydantic"}


def test_a_client_publishes_and_subscribes(bare: Bare, served: Broker) -> None:
    said = bare.python("-c", SESSION, url(served.port))
    assert said.splitlines() == ["{'symbol': 'IBM', 'price': 12}", "<document: root 'order', 1 elements>"]


def test_the_commands_that_use_a_network_work(bare: Bare, served: Broker) -> None:
    at, page = ("--url", url(served.port)), admin_url(served)
    for arguments in (
        ("pub", "symbol=IBM", "price=12", *at),
        ("filter", "check", "price < 20"),
        ("filter", "match", "price < 20", '{"price": 12}'),
        ("filter", "covers", "price < 20", "price < 10"),
        ("tables", page),
        ("top", page, "--once", "--every", "0.1"),
        ("explain", '{"price": 12}', "--filter", "price < 20"),
        ("token",),
        ("sub", "price < 20", "--timeout", "0.1", *at),
    ):
        done = bare.covey(*arguments)
        assert done.returncode == (1 if arguments[0] == "sub" else 0), (arguments, done.stderr)
    assert json.loads(bare.covey("tables", page, "--json").stdout)
    done = bare.covey("install", page, "--none")
    assert "plans are changed only where a token" in done.stderr  # the broker's own answer


@pytest.mark.parametrize("command", EXTRA_OF)
def test_a_command_whose_extra_is_missing_says_which_in_one_line(bare: Bare, command: str) -> None:
    done = bare.covey(*command.split(), *ARGUMENTS.get(command, ()))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"pip install 'covey[{EXTRA_OF[command]}]'" in done.stderr


def test_every_command_is_in_the_base_or_needs_an_extra() -> None:
    """So that a new command cannot forget to say what it needs."""
    commands: Any = typer.main.get_command(cli.app)
    there = {
        f"{name} {below}".strip()
        for name, one in commands.commands.items()
        for below in getattr(one, "commands", [""])
    }
    assert there == BASE | set(EXTRA_OF)


def test_parts_of_the_library_say_which_extra_they_need(bare: Bare) -> None:
    for code, extra in (
        ("import covey; covey.Index", "broker"),
        ("import covey; covey.strategies()", "broker"),
        ("from covey.sim import Network", "broker"),
        ("from covey import pipeline; pipeline.match", "spark"),
    ):
        told = bare.python(
            "-c",
            f"import covey\ntry:\n    exec({code!r})\nexcept covey.CoveyError as error:\n    print(error)",
        )
        assert f"pip install 'covey[{extra}]'" in told


def test_extras_are_those_of_the_package() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.MODULES) <= set(declared)
    for requirements in declared.values():
        for requirement in requirements:
            assert requirement.startswith("covey[") or ">=" in requirement, requirement
