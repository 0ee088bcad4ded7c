"""Rolling upgrades: a broker of today answers peers of the version before as a broker of that version did.

The recordings beside this are what clients and brokers of commit d642115 said to a broker of that commit, and what it
said to them; `record` makes them, and `playing` says how they are compared.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.version_before.playing import Playing, read

from covey.broker.config import LinkConfig

HERE = Path(__file__).parent
LINKS = {
    "clients": (),
    "neighbours": (LinkConfig("b", priority=2), LinkConfig("c")),
    "dialling": (LinkConfig("b", "127.0.0.1", 7401),),
}


@pytest.mark.parametrize("name", LINKS)
def test_it_answers_as_the_version_before_did(name: str, tmp_path: Path) -> None:
    playing = Playing(read(HERE / f"{name}.txt"), LINKS[name], tmp_path)
    playing.play()
    assert playing.unexpected() == []
