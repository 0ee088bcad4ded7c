"""Command lines of `covey` in documents and messages, held against the program itself without being run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from covey import cli

OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[a-z])(?![\w-])")


def commands(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return all commands and groups with the words that call them, the program itself first."""
    command = get_command(cli.app) if command is None else command
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*words, name))


COMMANDS = dict(commands())


def option_names(words: tuple[str, ...]) -> set[str]:
    """Return the names of all options of a command."""
    found = {"-h", "--help"}
    for one in COMMANDS[words].params:
        if one.param_type_name == "option":
            found |= {*one.opts, *one.secondary_opts}
    return found


def problems(line: str) -> list[str]:
    """Return what is wrong with a line as manuals have them: `covey plan DIR --out DIR [--explain] | less`.

    The command and its options must be there. What stands for values, in capitals or with …, is not read.
    """
    line = re.split(r"\s[|>&]\s|\s#|;\s", line)[0]
    try:
        given = shlex.split(line.replace("[", " ").replace("]", " "))
    except ValueError:
        given = line.split()
    assert given[0] == "covey"
    words: tuple[str, ...] = ()
    for word in given[1:]:
        if (*words, word) not in COMMANDS:
            if hasattr(COMMANDS[words], "commands") and not word.startswith("-"):
                return [f"{' '.join(('covey', *words))} has no command {word!r}"]
            break
        words = (*words, word)
    unknown = set(OPTION.findall(" ".join(word for word in given if word.startswith("-")))) - option_names(
        words
    )
    return [f"{' '.join(('covey', *words))} has no option {name}" for name in sorted(unknown)]


def parses(line: str) -> None:
    """Let the program read a complete line, without running it; typer's error if it cannot."""
    given = shlex.split(line)
    assert given[0] == "covey"
    words: tuple[str, ...] = ()
    rest = given[1:]
    while rest and (*words, rest[0]) in COMMANDS:
        words, rest = (*words, rest[0]), rest[1:]
    COMMANDS[words].make_context(" ".join(("covey", *words)), list(rest))
