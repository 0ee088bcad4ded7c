"""A few events to look at: who got them, and because of which filter."""

from __future__ import annotations

from typing import Final

from covey.demo.findings import Example
from covey.demo.scene import Scene
from covey.demo.traffic import Record

MOST_TAKERS: Final = 4  # that are shown of one event


def examples(scene: Scene, record: Record) -> list[Example]:
    """Return an event of each family: one that reached several places, because of several filters."""
    takers: dict[int, list[int]] = {}
    for event, wish in zip(record.events, record.subscriptions, strict=True):
        takers.setdefault(event, []).append(wish)
    best: dict[type, tuple[tuple[bool, int, int], int]] = {}
    for event, wishes in takers.items():
        places = {scene.wishes[wish].city for wish in wishes}
        filters = {scene.wishes[wish].filter for wish in wishes}
        rank = (len(places) > 1, min(len(filters), MOST_TAKERS), -len(wishes))
        kind = type(record.contents[event])
        if kind not in best or rank > best[kind][0]:
            best[kind] = rank, event
    return [_example(scene, event, takers[event]) for event in sorted(event for _, event in best.values())]


def _example(scene: Scene, event: int, takers: list[int]) -> Example:
    source, content = scene.event(event)
    if isinstance(content, dict):
        text = ", ".join(f"{name} {value}" for name, value in content.items())
    else:
        text = content if isinstance(content, str) else " ".join(sorted(content))
    wishes = [scene.wishes[number] for number in sorted(takers)]
    rows = tuple((wish.city, f"client {wish.client + 1}", str(wish.filter)) for wish in wishes)
    return Example(event, source, text, rows)
