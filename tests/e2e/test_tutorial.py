"""docs/tutorials/network.md, with real brokers and the commands as they are typed."""

from __future__ import annotations

from pathlib import Path

from tests.tutorials import follow, free_ports, page

DOCUMENT = Path(__file__).parents[2] / "docs" / "tutorials" / "network.md"


def test_a_reader_gets_what_the_page_shows(tmp_path: Path) -> None:
    free = list(free_ports(0, 6).values())
    names = ["7400", "7401", "7402", "7500", "7501", "7502"]
    steps = page(DOCUMENT, dict(zip(names, free, strict=True)))
    assert len(steps.commands) >= 8
    heard = follow(steps, tmp_path)
    # The subscriber that was left running: the cheap event, then what was published for others and matches too.
    assert heard.splitlines()[1:] == [
        '{"symbol":"IBM","price":12}',
        '{"symbol":"SAP","price":30}',
        *(f'{{"symbol":"IBM","price":{price}}}' for price in (25, 18, 31)),
    ]
