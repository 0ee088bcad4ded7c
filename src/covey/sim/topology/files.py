"""Topologies that somebody else made: lists of links, and edge-list files as network collections publish them.

A file has one link a line, two names with white space between; `#` starts a comment, empty lines are skipped. Files
come from strangers: their size is bounded and every problem is named with file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from covey.errors import ConfigError
from covey.sim.topology.graph import Link, Topology, link_problem, one_way

MAX_FILE_BYTES = 64 << 20
MAX_LINKS = 2_000_000
MAX_NAME_LENGTH = 255


def from_links(links: Iterable[Sequence[str]], name: str = "links") -> Topology:
    """Return the topology of these pairs of broker names; brokers come in the order in which they appear."""
    pairs: list[Link] = []
    for number, link in enumerate(links, start=1):
        if isinstance(link, str) or not isinstance(link, Sequence) or len(link) != 2:
            raise ConfigError(f"link {number} must be a pair of broker names, not {link!r:.60}")
        a, b = link
        if not (isinstance(a, str) and isinstance(b, str) and a and b):
            raise ConfigError(f"link {number} must be a pair of broker names, not {link!r:.60}")
        pairs.append((a, b))
    brokers = dict.fromkeys(broker for pair in pairs for broker in pair)
    return Topology(name, tuple(pairs), tuple(brokers))


def read_edges(path: str | Path) -> Topology:
    """Return the topology of an edge-list file; ConfigError names the file and the line that is wrong."""
    file = Path(path)
    try:
        if not file.is_file():
            raise ConfigError(f"{str(file)!r} is not a file of links")
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the links in {str(file)!r} cannot be read: {error}") from None
    return parse_edges(raw, file)


def parse_edges(raw: bytes, file: Path) -> Topology:
    """Return the topology of an edge-list file's content; ConfigError names the file and the line that is wrong."""
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{file}: the file has more than {MAX_FILE_BYTES} bytes")
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the links in {str(file)!r} cannot be read: {error}") from None
    links: list[Link] = []
    seen: set[Link] = set()
    for number, text in enumerate(lines, start=1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        problem = _line_problem(words, seen)
        if problem is None and len(links) == MAX_LINKS:
            problem = f"there are more than {MAX_LINKS} links"
        if problem:
            raise ConfigError(f"{file}:{number}: {problem}")
        a, b = words
        seen.add(one_way(a, b))
        links.append((a, b))
    if not links:
        raise ConfigError(f"{file}: there is no link in the file")
    return from_links(links, name=file.stem)


def _line_problem(words: list[str], seen: set[Link]) -> str | None:
    if len(words) != 2:
        return f"a line must have two broker names, not {len(words)}"
    if max(map(len, words)) > MAX_NAME_LENGTH:
        return f"a broker name is longer than {MAX_NAME_LENGTH} characters"
    return link_problem(words[0], words[1], seen)
