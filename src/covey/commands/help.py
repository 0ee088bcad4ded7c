"""Help pages of the `covey` program: plain text that says everything its source says.

Typer draws help with Rich, which takes `[[users]]` for markup, cuts names of options short in narrow terminals and
shows a type such as `<bool>` for every flag. These pages are Click's plain ones instead, with three changes. An
argument is shown by its name alone, as an option is by its metavar. The list of commands has the whole first sentence
of each. Lines are as long as the terminal allows, up to MAX_WIDTH.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.models import CommandFunctionType

MAX_WIDTH: Final = 120
SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": MAX_WIDTH}


class Page(TyperCommand):
    """A command whose page names arguments as its usage does: FILE, not `file <path>`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the command's name in its usage."""
        arguments = [usage_of(one) for one in self.get_params(ctx) if isinstance(one, TyperArgument)]
        return ["[OPTIONS]", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of arguments and of options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None and isinstance(one, TyperArgument):
                sections["Arguments"].append((name_of(one), record[1]))
            elif record is not None:
                sections["Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(TyperGroup):
    """A group whose page has a whole sentence for each of its commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the section of commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, summary_of(one.help or "")) for name, one in commands if one and not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Application(typer.Typer):
    """A group of commands with these pages."""

    def __init__(self, help: str, **settings: Any) -> None:
        super().__init__(
            help=help,
            cls=Group,
            no_args_is_help=True,
            rich_markup_mode=None,
            context_settings=SETTINGS,
            **settings,
        )

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Return a decorator that makes a function a command."""
        return super().command(name, cls=Page, **settings)


def name_of(argument: TyperArgument) -> str:
    """Return an argument's name on a page."""
    return (argument.metavar or argument.name.upper()) + ("..." if argument.nargs != 1 else "")


def usage_of(argument: TyperArgument) -> str:
    """Return an argument as it stands in a usage: in brackets if it may be left out."""
    return name_of(argument) if argument.required else f"[{name_of(argument)}]"


def summary_of(help: str) -> str:
    """Return the first sentence of a help text, without its full stop."""
    paragraph = " ".join(inspect.cleandoc(help).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".")
