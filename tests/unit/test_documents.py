"""Documents that can rot are run: their Python, their `covey` commands, their links, and every example."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.command_lines import problems

from covey import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
ON_SPARK = {"plan_from_logs.py", "spark_stream.py"}  # run by tests/spark/test_examples.py, as is the notebook
EXAMPLES = sorted(path for path in ROOT.glob("examples/**/*.py") if path.name not in ON_SPARK)

# Pages that are run as a whole, with their files, in a directory of their own: tests/tutorials.py.
AS_A_WHOLE = {ROOT / "docs" / "tutorials" / name for name in ("network.md", "planning.md")}

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
INLINE = re.compile(r"`(covey [a-z-][^`\n]*)`")
LINES = re.compile(r"^(?:\$ |    |\t\$\(BIN\)/)?(covey [a-z-].*)$", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks(document: Path, language: str) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    found = (Block(m[1], text.count("\n", 0, m.start(2)) + 1, m[2]) for m in FENCE.finditer(text))
    return [block for block in found if block.language == language]


def prose(document: Path) -> str:
    return FENCE.sub("", document.read_text(encoding="utf-8"))


def documents_with(language: str) -> list[Path]:
    return [document for document in DOCUMENTS if document not in AS_A_WHOLE and blocks(document, language)]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", documents_with("python"), ids=name)
def test_python_in_documents_runs(document: Path) -> None:
    """The blocks of a document are one program, in order; those with `>>>` show what they print."""
    space: dict[str, object] = {"__name__": "document"}
    for block in blocks(document, "python"):
        if block.text.lstrip().startswith(">>>"):
            run_session(document, block, space)
            continue
        # Blank lines in front give errors the line of the document.
        code = compile("\n" * (block.line - 1) + block.text, str(document), "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, space)


def run_session(document: Path, block: Block, space: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, space, name(document), str(document), block.line - 1
    )
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.write, clear_globs=False)
    space.update(test.globs)
    assert runner.failures == 0, report.getvalue()


@pytest.mark.parametrize("document", documents_with("console"), ids=name)
def test_commands_in_documents_print_what_is_shown(document: Path) -> None:
    """Of `$ covey ...` with output below it, the output is compared; `...` stands for anything."""
    for block in blocks(document, "console"):
        for session in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = session.partition("\n")
            words = shlex.split(command, comments=True)
            if words[0] != "covey" or not shown.strip():
                continue
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                cli.run(words[1:])
            assert doctest.OutputChecker().check_output(shown, output.getvalue(), doctest.ELLIPSIS), (
                f"{name(document)}: {command}\n{output.getvalue()}"
            )


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "Makefile", *EXAMPLES], ids=name)
def test_commands_in_documents_are_there(document: Path) -> None:
    """Every line that begins with `covey` and all such code within lines: the command, and each of its options."""
    text = document.read_text(encoding="utf-8")
    found = [*INLINE.findall(text), *(line.strip() for line in LINES.findall(text))]
    wrong = [f"{line}: {problem}" for line in found for problem in problems(line)]
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(prose(document)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), f"{name(document)} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{name(document)} links to {link}, which has no such heading"


def anchors(document: Path) -> set[str]:
    headings = HEADING.findall(prose(document))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_first_screen_of_the_readme_is_one_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 70
    assert "make demo" in "\n".join(lines[:12])
    assert "make test" in "\n".join(lines[:12])
