"""Every hint in the program is tried: what it says to do can be done, and helps.

Hints stand in messages as `(hint: …)` or `(try: …)`. They are collected from the sources, so that one that nobody has
tried fails here: give it a line in TRIED, which provokes the message where that is cheap, and does what the hint says.
Hints about the text of filters are in `test_language_hints.py`, trials of those about planning in
`tests/planning_hints.py`.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import typer
from tests import planning_hints
from tests.command_lines import COMMANDS, option_names, problems
from tests.hint_trials import (
    HINT,
    ROOT,
    Try,
    both,
    extra,
    follow,
    hint_of,
    lines,
    module,
    names,
    options,
    parameter,
    plain,
)

import covey
from covey import cli
from covey.core.content import check_content, published_payload
from covey.errors import ConfigError, CoveyError

SOURCES = sorted((ROOT / "src").rglob("*.py"))


class Found(NamedTuple):
    """A string in the sources, with {expressions} as they are written."""

    text: str
    file: Path
    line: int
    is_docstring: bool


def strings() -> Iterator[Found]:
    """Return every string of the sources, the parts of one message together."""
    for file in SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        docstrings = {id(one.body[0].value) for one in ast.walk(tree) if isinstance(one, documented)
                      if one.body and isinstance(one.body[0], ast.Expr)}  # fmt: skip
        parts = {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values}
        for one in ast.walk(tree):
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in parts:
                yield Found(one.value, file, one.lineno, id(one) in docstrings)
            elif isinstance(one, ast.JoinedStr):
                yield Found(template(one), file, one.lineno, False)


def template(text: ast.JoinedStr) -> str:
    """Return a formatted string as it is written, without formats and conversions."""
    parts = []
    for one in text.values:
        if isinstance(one, ast.FormattedValue):
            parts.append("{" + ast.unparse(one.value) + "}")
        else:
            assert isinstance(one, ast.Constant)
            parts.append(str(one.value))
    return "".join(parts)


def logged() -> Iterator[Found]:
    """Return the hints of lines in logs, which are given as `hint=…`."""
    for file in SOURCES:
        if not file.is_relative_to(ROOT / "src/covey/core") and file.name != "index.py":
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for call in (one for one in ast.walk(tree) if isinstance(one, ast.Call)):
                for word in call.keywords:
                    if word.arg == "hint" and isinstance(word.value, ast.Constant):
                        yield Found(f"(hint: {word.value.value!s})", file, call.lineno, False)


STRINGS = list(strings())
MESSAGES = [one for one in STRINGS if not one.is_docstring]
HINTS = {found[1]: one for one in [*MESSAGES, *logged()] if (found := HINT.search(one.text))}


# -- what the hints need -------------------------------------------------------------------------------------


def settings(**values: Any) -> Try:
    """Try a hint that names settings of a broker: they are read."""

    def attempt() -> None:
        from covey.broker.config import config_of

        config_of({"name": "a", **values}, "test")

    return attempt


def section_tls() -> None:
    """The section is read, with the files that it names."""
    with pytest.raises(
        ConfigError, match=r"tls: the certificate a\.pem with the key a\.key cannot be used: No such"
    ):
        settings(tls={"certificate": "a.pem", "key": "a.key", "authority": "ca.pem"})()


def links_page() -> None:
    """There is a page that lists links."""
    assert "/linkz" in {one.path for one in module("broker.http.admin").ENDPOINTS}


def admin_on_all_addresses(**more: Any) -> Any:
    return module("broker.config").AdminConfig(host="0.0.0.0", **more)


def made(command: str, answer: str, given: str = "") -> str:
    """Return what a command prints as JSON under a name."""
    output = io.StringIO()
    before = sys.stdin, sys.stdout
    sys.stdin, sys.stdout = io.StringIO(given), output
    try:
        assert cli.run([command, "--json"]) == 0
    finally:
        sys.stdin, sys.stdout = before
    return str(json.loads(output.getvalue())[answer])


def exposed(**security: Any) -> None:
    """Look whether a broker that serves events to everybody may."""
    hashed = made("token", "hash")
    config = module("broker.config").config_of(
        {"name": "a", "admin": {"host": "0.0.0.0", "token": hashed, "events": True}, **security}, "test"
    )
    known = module("broker.security").Security(config.security)
    module("broker.http.events").check_exposed(config, known)


def damaged_state(load: Callable[[Path], object], file: str, data: bytes) -> Try:
    """Try `remove it`: a damaged file is answered with the hint; without it, one begins anew."""

    def attempt() -> None:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as directory:
            path = Path(directory) / file
            path.write_bytes(data)
            assert "remove it" in hint_of(lambda: load(Path(directory)))
            path.unlink()
            load(Path(directory))

    return attempt


def too_large_state() -> None:
    from tempfile import TemporaryDirectory

    keeping = module("broker.plans")
    with TemporaryDirectory() as directory:
        path = Path(directory) / keeping.FILE
        with path.open("wb") as file:
            file.truncate(keeping.MOST_BYTES + 1)
        assert hint_of(lambda: keeping.load_state(Path(directory))) == "remove it"
        path.unlink()
        keeping.load_state(Path(directory))


def lateness() -> None:
    """What the hint gives is taken, also for the longest rounds."""
    settings, windows = module("coordinator.settings").Settings, module("pipeline.stream").Windows
    for every_s in (300.0, 7 * 86_400.0):

        def build(late_s: int, every_s: float = every_s) -> object:
            return settings(("http://x:1",), Path(), windows=windows(lateness_s=late_s), every_s=every_s)

        option, value = hint_of(partial(build, 1)).split()
        assert option in option_names(("coordinator",))
        build(int(value))


def closed_directory() -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        path = Path(directory)
        (path / "notes.txt").touch()
        path.chmod(0o755)
        close = module("broker.private_files").close_directory
        assert f"chmod 700 {path}" in hint_of(lambda: close(path, "store.db"))
        (path / "its-own").mkdir(mode=0o700)
        assert close(path / "its-own", "store.db") == ""
        path.chmod(0o700)
        assert close(path, "store.db") == ""


def kept_kernels() -> None:
    """What others can write is not used; after `chmod 700` it is."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        path, is_ours = Path(directory), module("matching.compile_cache").is_ours
        path.chmod(0o777)
        assert not is_ours(path.stat())
        path.chmod(0o700)
        assert is_ours(path.stat())
    assert "XDG_CACHE_HOME" in (ROOT / "src/covey/matching/jit.py").read_text(encoding="utf-8")


def pages_at(**more: Any) -> Any:
    return module("broker.config").AdminConfig(**more)


def another_version() -> None:
    from tempfile import TemporaryDirectory

    memory = module("coordinator.memory")
    with TemporaryDirectory() as directory, TemporaryDirectory() as another:
        (Path(directory) / memory.FILE).write_text('{"version": -1}', encoding="utf-8")
        assert "another data directory" in hint_of(lambda: memory.Memory.load(Path(directory)))
        memory.Memory.load(Path(another))
    assert "--data-dir" in option_names(("coordinator",))


def network(links: list[tuple[str, str]], strategy: str) -> Try:
    def attempt() -> None:
        from covey.sim import Network

        Network(links, strategy=strategy)

    return attempt


TRIANGLE = [("a", "b"), ("b", "c"), ("c", "a")]


def connecting_twice() -> None:
    async def attempt() -> None:
        client = covey.connect("covey://127.0.0.1:1", connect_timeout_s=0.2)
        with pytest.raises(CoveyError, match="async with"):
            await client.publish({"a": 1})
        assert hasattr(client, "__aenter__")
        with pytest.raises(CoveyError, match="no broker can be reached"):
            async with client:
                raise AssertionError("nobody listens there")
        with pytest.raises(CoveyError, match=r"covey\.connect again"):
            async with client:
                raise AssertionError("a client connects once")
        covey.connect("covey://127.0.0.1:1")

    asyncio.run(attempt())


DECLARED, ACCENTED = '<?xml version="1.0" encoding="iso-8859-1"?>', "<a b='é'/>"


class Colour(Enum):
    RED = "red"


# Values that no event carries, of every kind that has a hint of its own; the hint, and what it leads to.
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
DO_NOT_TRAVEL: list[tuple[object, str, list[object]]] = [
    (b"x", "publish them as the payload, or as a text", [b"x".decode()]),
    (Decimal("12.5"), "float(...) or str(...) of it", [12.5, "12.5"]),
    (NOON, "its isoformat(), or its timestamp()", [NOON.isoformat(), NOON.timestamp()]),
    (NOON.date(), "its isoformat()", [NOON.date().isoformat()]),
    (NOON.time(), "its isoformat()", [NOON.time().isoformat()]),
    (NOON - NOON, "its total_seconds()", [(NOON - NOON).total_seconds()]),
    (Colour.RED, "its value", [Colour.RED.value]),
    ([1, 2], "an attribute for each element, or the payload", [{"0": 1, "1": 2}]),
    (object(), "a text or a number for it", ["text", 1]),
]


def values_that_do_not_travel() -> None:
    content = module("core.content")
    for value, hint, right in DO_NOT_TRAVEL:
        assert hint_of(partial(check_content, {"a": value})) == hint
        for method in re.findall(r"its (\w+)\(\)", hint):
            assert hasattr(value, method)
        for one in right:
            check_content({"a": one})
        if "payload" in hint:
            published_payload(value if isinstance(value, bytes) else json.dumps(value).encode())
    assert {one.file.name for one in MESSAGES if "(hint: {hint})" in one.text} == {"content.py"}
    assert {hint for _, hint in content._HINTS} < {hint for _, hint, _ in DO_NOT_TRAVEL}


def lost_events() -> None:
    fate = module("commands.pub").Fate()
    fate.broken("it is gone")
    assert hint_of(fate.check) == "--confirm"


def data_files() -> None:
    data = module("lab.data")
    for words in COMMANDS:
        if words[:1] == ("lab",) and words[1:] in (("run",), ("scoreboard",), ("report",), ("document",)):
            assert "--data-files" in option_names(words)
    assert data.VARIABLE == "COVEY_LAB_DATA"
    assert data.VARIABLE in (ROOT / "docs/lab.md").read_text(encoding="utf-8")


def one_figure() -> None:
    papers = module("lab.papers").papers()
    results = module("commands.lab_results")
    hinted = hint_of(lambda: results.figures_wanted(papers, "no-such-figure")).split(", ")
    assert results.figures_wanted(papers, hinted[0])


def lab_on_brokers() -> None:
    where = module("commands.lab_results").where
    hint_of(lambda: where("brokers", "R", "local[2]"))
    assert where("brokers", "R", None)[1]


def strategy_settings() -> None:
    strategies = module("routing.strategy")
    covey.strategies()
    for name in strategies.names():
        known = strategies.registered(name)
        hinted = hint_of(partial(known.check, ["no such setting"]))
        known.check([] if hinted == "it has none" else hinted.removeprefix("one of ").split(", "))


def broken_plan(change: Callable[[dict[str, Any]], object]) -> None:
    plan = module("planning.plan")
    tree = plan.PlannedTree("a", (("a", "b"),))
    made = plan.Plan(method="single", seed=1, brokers=("a", "b"), links=(("a", "b", 1.0),), trees=(tree,))
    file = json.loads(made.encode())
    change(file)
    plan.Plan.decode(json.dumps(file).encode())


def trial_topologies() -> None:
    names(lambda name: cli.app(["trial", "trees", "--topology", name], standalone_mode=False))()


def scenario() -> None:
    lines("covey sim tour", "covey sim --list")()
    assert "tour" in module("sim.library").scenario_names()


def workload() -> None:
    lines("covey data generate keywords --out example")()
    module("datasets.catalogue").workload_named("keywords")


def newer_store() -> None:
    """A store of a newer format is refused; the copy of before the migration, put back, is opened."""
    log = module("broker.durable.sqlite")
    with TemporaryDirectory() as folder:
        path = Path(folder, "store.db")

        def opened() -> None:
            one = log.SqliteLog(path, "a")
            one.open()
            one.close()

        opened()
        copy = path.read_bytes()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version={log.FORMAT + 1}")
        follow(opened, lambda: path.write_bytes(copy))()
        opened()


def backed_up(
    wrong: Callable[[Path], object], right: Callable[[Path], object], data: str = "data", out: str = "copy"
) -> Try:
    """Try a hint about a backup of a store: `wrong` spoils it, `right` does what the hint says."""

    def attempt() -> None:
        log, back_up = module("broker.durable.sqlite"), module("broker.durable.backup").back_up
        with TemporaryDirectory() as name:
            folder = Path(name)

            def opened() -> None:
                one = log.SqliteLog(folder / "data" / "store.db", "a")
                one.open()
                one.close()

            opened()
            wrong(folder)
            assert hint_of(lambda: back_up(folder / data, folder / out))
            right(folder)
            opened()  # which mends it, where that is needed
            back_up(folder / "data", folder / (out if out.startswith("new/") else "copy"))

    return attempt


def page_that_is_served(path: str) -> Try:
    def attempt() -> None:
        assert path in {one.path for one in module("broker.http.admin").ENDPOINTS}

    return attempt


# -- all hints -----------------------------------------------------------------------------------------------

JOIN = "', '.join"
TRIED: dict[str, Try] = (
    planning_hints.TRIED
    | {
        # names that there are
        f"one of {{{JOIN}(PARTS)}}": names(
            lambda name: module("bench.parts").measured(name, None, quick=None)
        ),
        f"one of {{{JOIN}(_KNOWN)}}": names(
            lambda name: covey.strategies() and module("routing.strategy").registered(name)
        ),
        f"one of {{{JOIN}(WAYS)}}": names(
            lambda name: covey.strategies() and module("routing.advertisements").reduction(name)
        ),
        f"one of {{{JOIN}(WORKLOADS)}}": names(
            lambda name: module("datasets.catalogue").workload_named(name)
        ),
        f"one of {{{JOIN}(methods())}}": names(
            lambda name: module("pipeline.jobs")._check(
                module("pipeline.jobs").Request(Path(), Path(), None, name, known=None)
            )
        ),
        f"one of {{{JOIN}(METHODS)}}": both(
            names(lambda name: module("planning.groups.registry").group(None, name)),
            names(lambda name: module("pipeline.groups").check_method(name)),
        ),
        f"one of {{{JOIN}(ALGORITHMS)}}": names(
            lambda name: module("planning.aggregation.registry").aggregate(None, theta=1, method=name)
        ),
        f"one of {{{JOIN}(MEASURES)}}": names(
            lambda name: module("planning.groups.likeness").dendrogram(None, measure=name)
        ),
        f"one of {{{JOIN}(CHANGES)}}": names(
            lambda name: module("planning.groups.semcast").semcast(None, changes=name)
        ),
        f"one of {{{JOIN}(RULES)}}": both(
            names(lambda name: module("planning.groups.regions").placed(None, 1, name)),
            names(
                lambda name: module("routing.carrying").Carrying(
                    None, module("routing.carrying").OneCopy(name, None)
                )
            ),
        ),
        f"one of {{{JOIN}(DELAYS)}}": names(lambda name: module("sim.delays").build(name, 1.0, Random(1))),
        f"one of {{{JOIN}(REDUCTIONS)}}": names(
            lambda name: module("pipeline.tables.steps").reduction_of(name), "incremental"
        ),
        "one of zero, table-ii, linear, measured": names(
            lambda name: module("sim.service").build(name, "covering")
        ),
        f"{{{JOIN}(POLICIES)}}": names(lambda name: module("client.link").Limits(policy=name)),
        f"{{{JOIN}(LANGUAGES)}}": names(
            lambda name: module("pipeline.network.rows").content_of(
                "[]" if name == "keywords" else "{}", name
            )
        ),
        f"{{{JOIN}(BY_NAME)}}": names(
            lambda name: (
                module("pipeline.network.options").BY_NAME[name]
                if name != "no-such-name"
                else module("pipeline.network.options").options_of({name: ""})
            )
        ),
        f"{{{JOIN}((table.name for table in INPUTS))}}": names(
            lambda name: module("pipeline.schemas").table_named(name)
        ),
        f"{{{JOIN}(WALKS)}}": names(
            lambda name: module("lab.paper_x.population").population(
                None, None, unique=None, walks=name, seed=1
            )
        ),
        f"{{{JOIN}(TOPOLOGIES)}} or any": trial_topologies,
        "{names}": both(
            names(lambda name: module("lab.papers").chosen(name)),
            names(lambda name: module("lab.papers").on_brokers(name)),
            names(lambda name: module("lab.papers").experiment_named(name)),
            names(lambda name: module("pipeline.inputs").check_columns({name: "meta.time"})),
            names(lambda name: module("pipeline.inputs").check_tables({name: "catalog.db.table"})),
        ),
        "{there[:300]}": one_figure,
        "--on brokers without --master": lab_on_brokers,
        "{known}": strategy_settings,
        f"{{{JOIN}(PLACEMENTS)}}": names(
            lambda name: module("sim.workload.covering_burst").covering_burst(
                None, 1, covered=1, placement=name
            )
        ),
        # commands and options
        "--token-file": options("dashboard", "--token-file"),
        "--token, COVEY_ADMIN_TOKEN": options("up", "--token"),
        "/linkz lists them": links_page,
        "{command} --help": plain,  # tests/unit/test_help.py follows it
        "{self.hint}": plain,  # of filters: tests/unit/test_language_hints.py follows them
        "make one with covey token": follow(
            lambda: module("broker.security").read_token_hash("x"),
            lambda: module("broker.security").read_token_hash(made("token", "hash")),
        ),
        "make one with covey password": follow(
            lambda: module("broker.security").read_password_hash("x"),
            lambda: module("broker.security").read_password_hash(made("password", "password", "secret\n")),
        ),
        "covey token": follow(
            admin_on_all_addresses, lambda: admin_on_all_addresses(token=made("token", "hash"))
        ),
        "covey password < file": lines("covey password"),
        "about a minute, once; covey compile does it ahead": lines("covey compile"),
        "covey sim tour, or covey sim --list": scenario,
        "covey data generate keywords --out example": workload,
        "covey data generate makes one": both(lines("covey data generate"), workload),
        "covey pub - --json": lines("covey pub - --json"),
        "quote it": follow(
            lambda: module("commands.pub").given(["<a", "b='1'/>"], "xpath", b"", 1),
            lambda: module("commands.pub").given(["<a b='1'/>"], "xpath", b"", 1),
        ),
        "covey tables URL lists them": lines("covey tables URL"),
        "--at http://127.0.0.1:7401, once for each broker": lines(
            "covey explain {} --to a/1 --at http://127.0.0.1:7401 --at http://127.0.0.1:7402"
        ),
        "--replace, or another --out": options("data generate", "--replace", "--out"),
        "--data-files or {VARIABLE}": data_files,
        "name a new directory": options("demo", "--keep"),
        "a smaller sample": options("plan", "--sample"),
        "a larger one": options("plan", "--sample"),
        "no more than its length": both(
            follow(
                lambda: module("pipeline.stream").Windows(60, 61),
                lambda: module("pipeline.stream").Windows(60, 60),
            ),
            options("coordinator", "--window", "--slide"),
        ),
        "--lateness {lateness_for(self.every_s)}": lateness,
        # packages
        "pip install 'covey[{extra}]'": lambda: extra(*module("extras").MODULES)(),
        # settings and files
        "it needs a data_dir": settings(data_dir="data"),
        "its settings sample and data_dir": settings(sample=0.1, data_dir="data"),
        "[tls], or a token in [neighbours] at both brokers": both(
            settings(neighbours={"token": "secret of both"}),
            section_tls,
        ),
        "a section [anonymous] says what everybody may do": follow(
            exposed, lambda: exposed(anonymous={"publish": "TRUE", "subscribe": "TRUE"})
        ),
        "remove it": too_large_state,
        "remove it; neighbours know the plan": damaged_state(
            lambda directory: module("broker.plans").load_state(directory), "plans.bin", b"damaged"
        ),
        "remove it to begin anew": damaged_state(
            lambda directory: module("coordinator.memory").Memory.load(directory),
            "coordinator.json",
            b"damaged",
        ),
        "another data directory": another_version,
        "name a directory of its own, or chmod 700 {path}": closed_directory,
        "chmod go-w {one}, or another XDG_CACHE_HOME": kept_kernels,
        "another XDG_CACHE_HOME": kept_kernels,
        "a higher ulimit -n": plain,
        "a higher ulimit -n, or a lower max_connections": plain,
        "without a port; .example.org for all below": follow(
            lambda: pages_at(hosts=("a.example.org:8080",)), lambda: pages_at(hosts=(".example.org",))
        ),
        "[admin] hosts says which are": lambda: pages_at(hosts=("a.example.org",)),
        "https://app.example.org, without a path": follow(
            lambda: pages_at(origins=("https://app.example.org/page",)),
            lambda: pages_at(origins=("https://app.example.org",)),
        ),
        "[admin] origins says which may": lambda: pages_at(origins=("https://app.example.org",)),
        # addresses and pages
        "{DEFAULT_URL}": follow(
            lambda: module("client.link").address_of("http://x"),
            lambda: module("client.link").address_of(module("client.link").DEFAULT_URL),
        ),
        "http://127.0.0.1:7401": follow(
            lambda: module("client.admin").Pages("covey://x"),
            lambda: module("client.admin").Pages("http://127.0.0.1:7401"),
        ),
        "http://127.0.0.1:7401 …": follow(
            lambda: module("coordinator.settings").Settings((), Path()),
            lambda: module("coordinator.settings").Settings(("http://127.0.0.1:7401",), Path()),
        ),
        "ask again with /planz": page_that_is_served("/planz"),
        "?filter=price > 10": lambda: covey.parse("price > 10"),
        # the library
        "connect(..., name=...)": parameter(lambda: covey.connect, "name"),
        "async with covey.connect(...) as client": connecting_twice,
        "covey.connect again": connecting_twice,
        "subscribe again": plain,
        "publish its text": follow(
            lambda: module("protocol.events").encode_content(covey.Document.parse("<a/>")),
            lambda: module("protocol.events").encode_content("<a/>"),
        ),
        # what cannot be published
        "{hint}": values_that_do_not_travel,
        "leave the attribute out": follow(
            lambda: check_content({"a": float("nan"), "b": 1}), lambda: check_content({"b": 1})
        ),
        "float(...) of it": follow(
            lambda: check_content({"a": Fraction(1, 3)}), lambda: check_content({"a": float(Fraction(1, 3))})
        ),
        "publish its bytes, or leave the declaration out": follow(
            lambda: check_content(f"{DECLARED}{ACCENTED}"),
            both(
                lambda: check_content(f"{DECLARED}{ACCENTED}".encode("iso-8859-1")),
                lambda: check_content(ACCENTED),
            ),
        ),
        "large data goes into the payload": follow(
            lambda: check_content({f"a{number}": number for number in range(5_000)}),
            lambda: published_payload(json.dumps({f"a{number}": number for number in range(5_000)}).encode()),
        ),
        "encode a text": follow(lambda: published_payload("text"), lambda: published_payload(b"text")),
        "--confirm": both(lost_events, options("pub", "--confirm")),
        # networks
        "use the strategy trees, or a spanning tree": both(
            follow(network(TRIANGLE, "covering"), network(TRIANGLE, "trees")),
            network(TRIANGLE[:2], "covering"),
        ),
        "tables(…, keys=True)": parameter(lambda: module("pipeline.tables.stage").tables, "keys"),
        # what to do with one's own data
        "a newer Covey": follow(
            lambda: broken_plan(lambda file: file.update(version=module("planning.plan").VERSION + 1)),
            lambda: broken_plan(lambda file: file),
        ),
        "plan again, or fetch the file again": follow(
            lambda: broken_plan(lambda file: file.update(checksum="")), lambda: broken_plan(lambda file: file)
        ),
        "name the data_dir of a broker": backed_up(lambda _: None, lambda _: None, data="elsewhere"),
        "mkdir -p {out.parent}": backed_up(
            lambda _: None, lambda folder: (folder / "new").mkdir(), out="new/copy"
        ),
        "another disk for the copy": backed_up(lambda _: None, lambda _: None, out="data/copy"),
        "remove it if none is": backed_up(
            lambda folder: (folder / "copy.partial").mkdir(), lambda folder: (folder / "copy.partial").rmdir()
        ),
        "restart the broker, which mends its store, and back up then": backed_up(
            lambda folder: (folder / "data" / "store.db").write_bytes(bytes(8_192)), lambda _: None
        ),
        "restart the broker": plain,
        "let the broker write beside its store, and make room on that disk": plain,
        "restart the broker, which mends its store": plain,
        "the broker's log says why, and it must be restarted": plain,
        "be the user that the broker runs as": plain,
        "use the version of Covey that the broker runs with": plain,
        "start the newer version that wrote it, or put back the copy that it kept": newer_store,
        "start a version in between first": plain,
        "start the version that wrote it, which mends it, before this one": plain,
        "{problem.tree.most_gain} is the most": plain,
        "install it again": plain,
        "plan each part by itself": plain,
        "plan each part apart": plain,
    }
)


@pytest.mark.parametrize("hint", sorted(HINTS))
def test_a_hint_helps(hint: str) -> None:
    found = HINTS[hint]
    place = f"{found.file.relative_to(ROOT)}:{found.line}"
    assert hint in TRIED, f"{place}: nobody has tried the hint {hint!r}; give it a line in TRIED"
    TRIED[hint]()


LISTED = re.compile(r"\{', '\.join\((.+?)\)\}(?: or a struct of these|\))")


@pytest.mark.parametrize(
    "found",
    [one for one in MESSAGES if HINT.search(one.text) and LISTED.search(one.text)],
    ids=lambda found: f"{found.file.stem}:{found.line}",
)
def test_a_hint_that_lists_names_has_some(found: Found) -> None:
    """In every module that gives it: one hint may be in several, each with a list of its own."""
    listed = LISTED.search(found.text)
    assert listed
    module = import_module(".".join(found.file.relative_to(ROOT / "src").with_suffix("").parts))
    there = list(eval(listed[1], vars(module)))
    assert there
    assert all(isinstance(name, str) and name for name in there)


def test_only_hints_that_there_are_are_tried() -> None:
    assert set(TRIED) - set(HINTS) == set()


# -- what all messages name ----------------------------------------------------------------------------------

OPTION = re.compile(r"(?<![\w/(`'-])--[a-z][a-z0-9-]+(?![a-z]*:)")  # but not variables of CSS
OF_OTHERS = {
    *("--add-modules", "--add-opens", "--enable-native-access"),  # Java's
    *("--driver-java-options", "--properties-file", "--remote"),  # of spark-submit, which are read
}
LINE = re.compile(r"`(covey [a-z][^`\n]*)`")
DOCUMENT = re.compile(r"\b(?:docs|examples)/[\w./-]+\.(?:md|py|svg|json)")


def test_options_in_messages_are_options_of_commands() -> None:
    known = {name for words in COMMANDS for name in option_names(words)} | OF_OTHERS
    wrong = [
        f"{one.file.relative_to(ROOT)}:{one.line}: {option}"
        for one in MESSAGES
        for option in OPTION.findall(one.text)
        if option not in known
    ]
    assert wrong == []


def test_command_lines_in_the_sources_are_right() -> None:
    """Those in help and messages, and those in what modules say of themselves."""
    wrong = [
        f"{one.file.relative_to(ROOT)}:{one.line}: {line}: {problem}"
        for one in STRINGS
        for line in LINE.findall(one.text)
        for problem in problems(line)
    ]
    assert wrong == []


def test_documents_that_the_sources_name_are_there() -> None:
    missing = [
        f"{one.file.relative_to(ROOT)}:{one.line}: {path}"
        for one in STRINGS
        for path in DOCUMENT.findall(one.text)
        if not (ROOT / path).exists()
    ]
    assert missing == []


def test_extras_that_the_sources_name_are_there() -> None:
    for one in STRINGS:
        for found in re.findall(r"covey\[([a-z, ]+)\]", one.text):
            extra(*re.split(r", *", found))()


def test_what_tries_hints_would_notice() -> None:
    """A list with a name that is not taken, an option that is not there, a setting that is not read."""

    def refuses_one(name: str) -> None:
        if name != "good":
            raise ConfigError("no (hint: one of good, bad)")

    with pytest.raises(CoveyError):
        names(refuses_one)()
    with pytest.raises(AssertionError):
        options("lab report", "--output")()
    with pytest.raises(ConfigError):
        settings(data_directory="x")()
    with pytest.raises(AssertionError):
        lines("covey lab document --output x")()
    with pytest.raises(typer.TyperException):
        lines("covey lab run")()
