"""`covey password`, `covey token`: make what stands in a broker's configuration instead of a secret."""

from __future__ import annotations

import sys

import typer

from covey.commands.options import Json
from covey.commands.output import print_json, print_pairs
from covey.errors import ConfigError


def password(json: Json = False) -> None:
    """Hash a password for `[[users]]` of a broker's configuration: from a prompt, or a line of standard input."""
    from covey.broker.security import hash_password

    hashed = str(hash_password(_read()))
    if json:
        print_json({"password": hashed})
    else:
        typer.echo(hashed)


def token(json: Json = False) -> None:
    """Make a token for a client, and its hash for `[[tokens]]` of a broker's configuration."""
    from covey.broker.security import hash_token, new_token

    made = new_token()
    report = {"token": made, "hash": hash_token(made)}
    if json:
        print_json(report)
    else:
        print_pairs(report)


def _read() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        line = sys.stdin.readline(4096).rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError("the password on standard input is not UTF-8 text") from None
    if not line:
        raise ConfigError("no password on standard input (hint: covey password < file)")
    return line
