"""Write the configuration of five brokers, with tokens that are made here and are in no repository.

    python configure.py CONFIG_DIR TOKEN_DIR

CONFIG_DIR gets a file for each broker, which only its owner can read. TOKEN_DIR gets the tokens themselves:
`admin-token` for the coordinator and for people who change the network, `view-token` for Prometheus and for people who
only look, `client-token` for programs that publish and subscribe. If CONFIG_DIR
has a configuration already, nothing is changed. To begin anew, remove both volumes.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Final, NamedTuple

from covey.broker.security import hash_token, new_token

PORT: Final = 7400
ADMIN_PORT: Final = 7401


class Link(NamedTuple):
    """Two neighbours; the second dials the first. Links with a higher number are used when there is no other way."""

    first: str
    second: str
    priority: int = 1


LINKS: Final = (
    Link("paris", "lyon"),
    Link("paris", "lille"),
    Link("paris", "brest"),
    Link("lyon", "nice"),
    Link("lyon", "lille", 2),
    Link("nice", "brest", 2),
)
BROKERS: Final = tuple(sorted({name for link in LINKS for name in link[:2]}))

SETTINGS: Final = """\
name = "{name}"
host = "0.0.0.0"
port = {port}
strategy = "incremental"
data_dir = "/var/lib/covey/data"
sample = 0.1                          # what the coordinator plans from
log_format = "json"

[admin]
host = "0.0.0.0"
port = {admin_port}
token = "{admin}"
view_token = "{view}"
hosts = ["{name}"]

[neighbours]
token = "{neighbours}"

[[tokens]]
name = "client"
hash = "{client}"
"""
LINK: Final = """
[[links]]
name = "{name}"
priority = {priority}
"""


def configuration(name: str, admin: str, view: str, client: str, neighbours: str) -> str:
    """Return the file of one broker; `admin`, `view` and `client` are hashes of tokens, `neighbours` is a token."""
    text = SETTINGS.format(
        name=name,
        port=PORT,
        admin_port=ADMIN_PORT,
        admin=admin,
        view=view,
        client=client,
        neighbours=neighbours,
    )
    for link in LINKS:
        if name == link.first:
            text += LINK.format(name=link.second, priority=link.priority)
        elif name == link.second:
            text += LINK.format(name=link.first, priority=link.priority)
            text += f'address = "{link.first}:{PORT}"\n'
    return text


def write(path: Path, text: str, mode: int) -> None:
    """Make a file that has this mode from the beginning."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask
        file.write(text)


def main(config_dir: Path, token_dir: Path) -> int:
    """Do it; return the exit code."""
    if any(config_dir.glob("*.toml")):
        print(f"{config_dir} has a configuration; nothing is changed")
        return 0
    admin, view, client, neighbours = new_token(), new_token(), new_token(), secrets.token_urlsafe(32)
    # The token's readers are other users, in containers that mount nothing else of this.
    write(token_dir / "admin-token", admin, 0o444)
    write(token_dir / "view-token", view, 0o444)
    write(token_dir / "client-token", client, 0o444)
    for name in BROKERS:
        text = configuration(name, hash_token(admin), hash_token(view), hash_token(client), neighbours)
        write(config_dir / f"{name}.toml", text, 0o600)
    print(f"configured {', '.join(BROKERS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
