"""`covey broker`, `covey check-config` and `covey up`: run a broker, look at a configuration, run a whole overlay."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covey.commands.dashboard import announce, running
from covey.commands.options import HOST, NAME, PORT, STRATEGY, AdminToken, Json, Settings
from covey.commands.output import print_json
from covey.errors import ConfigError
from covey.extras import require

if TYPE_CHECKING:
    from covey.broker.config import BrokerConfig

READY_S = 30.0

File = Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file.")]


def broker(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Its settings, a TOML file.")
    ] = None,
    name: Annotated[str | None, NAME] = None,
    host: Annotated[str | None, HOST] = None,
    port: Annotated[int | None, PORT] = None,
    strategy: Annotated[str | None, STRATEGY] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link", metavar="NAME[=HOST:PORT]", help="A neighbour, with where to dial it; repeatable."
        ),
    ] = None,
    settings: Settings = None,
) -> None:
    """Run a broker until it is told to end.

    Settings come from the file, then from the environment (COVEY_NAME, COVEY_PORT, …), then from these options. The
    strategy is covering unless set. SIGTERM drains and ends the broker, SIGUSR2 makes it a lame duck, SIGHUP lets it
    read its settings again.
    """
    require("broker", "covey broker")
    # Loaded here: it brings the compiler, which takes half a second.
    from covey.broker.config import read_config
    from covey.broker.logs import configure as configure_logs
    from covey.broker.process import run

    flags = {"name": name, "host": host, "port": port, "strategy": strategy, **_pairs(settings)}
    given = {path: str(value) for path, value in flags.items() if value is not None}

    def read() -> Any:
        return read_config(config, os.environ, given, link)

    known = read()
    configure_logs(known.log_level, known.log_format)

    def report(news: str) -> None:
        what, _, rest = news.partition(" ")
        if what == "listening":
            typer.echo(f"broker {known.name} listens on covey://{known.host}:{rest}")
        elif what in ("ready", "ended"):
            typer.echo(f"broker {known.name}: {what}")

    run(known, report, reread=read)


def _pairs(settings: list[str] | None) -> dict[str, str]:
    found = {}
    for said in settings or ():
        path, equals, value = said.partition("=")
        if not equals:
            raise ConfigError(f"--set: expected KEY=VALUE, not {said!r:.60}")
        found[path] = value
    return found


def check_config(
    file: File,
    json: Json = False,
) -> None:
    """Check a broker's configuration or an overlay's topology, as `covey broker` and `covey up` would read it.

    With --json, every setting is printed.
    """
    require("broker", "covey check-config")
    from covey.broker.config import as_values, config_of, is_topology, read_toml, topology_of

    values = read_toml(file)
    if is_topology(values):
        topology = topology_of(values, str(file))
        configs = topology.configs(dict.fromkeys(topology.brokers, 0))
        if json:
            print_json({name: as_values(config) for name, config in configs.items()})
        else:
            typer.echo(f"{file}: an overlay of {len(configs)} brokers and {len(topology.links)} links")
        return
    config = config_of(values, str(file), str(file.parent))
    if json:
        print_json(as_values(config))
    else:
        typer.echo(
            f"{file}: broker {config.name} on {config.host}:{config.port}, {len(config.links)} links, "
            f"strategy {config.strategy}"
        )


def up(
    file: File,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="SECONDS", min=0, help="End by itself after so long.")
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show the overlay on a web page, as covey dashboard does.")
    ] = False,
    token: AdminToken = "",
) -> None:
    """Start a whole overlay on this machine, for trying things; Ctrl-C ends it.

    One process a broker. Prints their addresses, and "ready" once all links are open. The dashboard needs the token of
    the admin pages, if the file has its hash; brokers without admin pages get some, with a new token.
    """
    require("broker", "covey up")
    import time
    from contextlib import ExitStack

    from covey.broker.config import read_topology
    from covey.broker.logs import configure as configure_logs
    from covey.broker.process import Family, listen

    topology = read_topology(file)
    settings = topology.settings
    if dashboard and not token:
        planned = topology.configs(dict.fromkeys(topology.brokers, 0)).values()
        if any(config.admin is not None and config.admin.token for config in planned):
            raise ConfigError("the admin pages of this file want a token (hint: --token, COVEY_ADMIN_TOKEN)")
    configure_logs(str(settings.get("log_level", "warning")), str(settings.get("log_format", "logfmt")))
    sockets = {
        name: listen("127.0.0.1", topology.first_port + number if topology.first_port else 0)
        for number, name in enumerate(topology.brokers)
    }
    configs = topology.configs({name: one.getsockname()[1] for name, one in sockets.items()})
    is_new = False
    if dashboard:
        configs, token, is_new = _with_pages(configs, token)
    family, beside = Family(), ExitStack()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        # It loads what it needs while the brokers do, and tries them until they are there.
        dashboard_line = beside.enter_context(running(pages_of(configs), token)) if dashboard else None
        family.start(configs, sockets)
        family.wait("listening", READY_S)
        for name, config in configs.items():
            pages = "" if config.admin is None else f" http://{config.admin.host}:{config.admin.port}"
            typer.echo(f"{name} covey://{config.host}:{config.port}{pages}")
        family.wait("linked", READY_S)
        typer.echo("ready")
        if dashboard_line is not None:
            announce(dashboard_line(), token, is_new=is_new)
        until_s = None if seconds is None else time.monotonic() + seconds
        while any(child.is_alive for child in family.children):
            if until_s is not None and time.monotonic() > until_s:
                break
            for child, news in family.listen(0.2):
                if news == "gone":
                    typer.echo(f"{child.name} has ended")
    except KeyboardInterrupt:
        typer.echo("ending")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        beside.close()
        family.stop(max(config.drain_s for config in configs.values()) + 5.0)


def pages_of(configs: Mapping[str, BrokerConfig]) -> list[str]:
    """Return the addresses of brokers' admin pages."""
    shown = [config.admin for config in configs.values() if config.admin is not None]
    return [f"http://{admin.host}:{admin.port}" for admin in shown]


def _with_pages(configs: Mapping[str, BrokerConfig], token: str) -> tuple[dict[str, BrokerConfig], str, bool]:
    """Return configurations in which every broker has admin pages, their token, and whether that is new."""
    from dataclasses import replace
    from secrets import token_urlsafe

    from covey.broker.config import AdminConfig
    from covey.broker.process import listen
    from covey.broker.security import hash_token

    if any(config.admin is not None for config in configs.values()):
        return dict(configs), token, False
    token = token_urlsafe(24)
    # Pages open their own sockets: their ports are given back at the last moment.
    held = {name: listen("127.0.0.1", 0) for name in configs}
    ports = {name: int(one.getsockname()[1]) for name, one in held.items()}
    for one in held.values():
        one.close()
    admins = {name: AdminConfig(port=port, token=hash_token(token)) for name, port in ports.items()}
    return {name: replace(config, admin=admins[name]) for name, config in configs.items()}, token, True


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
