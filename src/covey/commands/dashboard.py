"""`covey dashboard`: one web page for a whole network."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, Final

import typer

from covey.commands.options import HOST, PORT, AdminToken, TlsCa
from covey.errors import ConfigError
from covey.extras import require

USUAL_PORT: Final = 7480
MAX_FILE: Final = 1 << 20
END_S: Final = 5.0  # that a dashboard has to end

_RANGE: Final = re.compile(r"(.*:)([0-9]{1,5})-([0-9]{1,5})/?")


Urls = Annotated[
    list[str],
    typer.Argument(
        metavar="URL",
        help="Admin pages of all brokers; http://127.0.0.1:7500-7504 is five of them, @FILE has one a line.",
    ),
]
Hostnames = Annotated[
    list[str] | None,
    typer.Option(
        "--hostname", metavar="NAME", help="A name of this machine that browsers may use; repeatable."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="A file with the token to authenticate with."),
]
ViewTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--view-token-file",
        metavar="FILE",
        help="A file with a token for those who may only look. Without the other token, brokers get this one.",
    ),
]
RoundsDir = Annotated[
    Path | None,
    typer.Option("--rounds-dir", metavar="DIR", help="A coordinator's data directory, for its rounds."),
]


def dashboard(
    urls: Urls,
    host: Annotated[str | None, HOST] = None,
    port: Annotated[int | None, PORT] = None,
    name: Hostnames = None,
    token: AdminToken = "",
    token_file: TokenFile = None,
    view_token_file: ViewTokenFile = None,
    rounds: RoundsDir = None,
    tls_ca: TlsCa = "",
) -> None:
    """Serve one web page for a whole network, live, from the admin pages of its brokers. Ends with Ctrl-C.

    People log in with the brokers' token; without one, with a token that is printed. Whoever has the token may
    install plans and end connections, where the brokers' own pages have one. With the view token alone, nobody can
    change anything.
    """
    require("dashboard", "covey dashboard")
    from covey.broker.process import loop_factory
    from covey.broker.security import is_loopback
    from covey.dashboard.server import Settings, serve
    from covey.dashboard.sessions import ADMIN, VIEWER, Sessions

    host, port = host or "127.0.0.1", USUAL_PORT if port is None else port
    if token and token_file is not None:
        raise ConfigError("give either --token or --token-file")
    token = token or (read_token(token_file) if token_file is not None else "")
    view_token = read_token(view_token_file) if view_token_file is not None else ""
    if not (token or view_token or is_loopback(host)):
        raise ConfigError("beyond this machine the dashboard needs the brokers' token (hint: --token-file)")
    shown = "" if token or view_token else token_urlsafe(24)
    known = {view_token: VIEWER} if view_token else {}
    if token or shown:
        known[token or shown] = ADMIN
    settings = Settings(host, port, tuple(name or ()), rounds)

    def started(port: int) -> None:
        place = f"[{host}]" if ":" in host else host
        typer.echo(f"dashboard http://{place}:{port}/" + (f"#token={shown}" if shown else ""))

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await serve(
            addresses(urls), Sessions(known), settings, started, token=token or view_token, authority=tls_ca
        )

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())


@contextmanager
def beside(urls: Sequence[str], token: str, *, is_new: bool) -> Iterator[None]:
    """Run a dashboard for brokers that this program runs, in a process of its own, and print where it is."""
    with running(urls, token) as line:
        announce(line(), token, is_new=is_new)
        yield


def announce(line: str, token: str, *, is_new: bool) -> None:
    """Print where a dashboard is, with its token if that is new and not of a configuration: nobody else knows it."""
    if line:  # otherwise it has said on standard error why it cannot be
        typer.echo(f"{line}#token={token}" if is_new else line)


@contextmanager
def running(urls: Sequence[str], token: str) -> Iterator[Callable[[], str]]:
    """Run a dashboard in a process of its own; give a function that waits until it can be opened, and returns its line.

    Brokers need not be there yet: the dashboard tries them again.
    """
    environment = {**os.environ, "COVEY_ADMIN_TOKEN": token}
    process = subprocess.Popen(
        [sys.executable, "-m", "covey", "dashboard", *urls, "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C is for us, who end it
    )
    try:
        assert process.stdout is not None
        said = process.stdout
        yield lambda: said.readline().strip()
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def addresses(urls: list[str]) -> list[str]:
    """Return the addresses that are meant: of files, and of ranges of ports; ConfigError if one cannot be read."""
    found: list[str] = []
    for url in urls:
        if url.startswith("@"):
            found += addresses(_read(Path(url[1:])).split())
        elif ports := _RANGE.fullmatch(url):
            first, last = int(ports[2]), int(ports[3])
            if not 1 <= first <= last <= 65_535:
                raise ConfigError(f"{url!r:.80}: expected ports from a smaller to a larger one")
            found += [f"{ports[1]}{port}" for port in range(first, last + 1)]
        else:
            found.append(url)
    return found


def read_token(file: Path) -> str:
    """Return the token that a file has; ConfigError if it has none."""
    token = _read(file).strip()
    if not 8 <= len(token) <= 1_000 or not token.isprintable():
        raise ConfigError(f"{str(file)!r:.200} has no token: expected one line of 8 to 1,000 characters")
    return token


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return os.fsdecode(opened.read(MAX_FILE))
    except OSError as error:
        raise ConfigError(f"cannot read {str(file)!r:.200}: {error.strerror or error}") from None
