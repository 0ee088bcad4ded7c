"""Advertisements by link: few are asked in turn, many by an index, and answers are the same."""

from __future__ import annotations

from random import Random

import pytest

from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.core.keywords.parser import parse_keywords
from covey.matching.index import Index
from covey.routing import advertisements
from covey.routing.advertisements import FEW, Advertisements


def drawn(random: Random) -> Filter:
    if random.random() < 0.1:
        return parse_keywords(f"w{random.randrange(3)}")
    low = random.randrange(40)
    return parse_attributes(f"x between {low} and {low + random.randrange(4)}")


@pytest.mark.parametrize("seed", range(10))
def test_answers_are_those_of_asking_each_in_turn(seed: int) -> None:
    random = Random(seed)
    held: dict[str, tuple[Filter, str]] = {}
    ads = Advertisements()
    sizes = set()
    for step in range(200):
        if held and random.random() < (0.3 if step < 100 else 0.7):
            key = random.choice(list(held))
            assert ads.remove("u", key) == held.pop(key)[0]
        else:
            key, filter, publisher = f"a{step}", drawn(random), f"p{random.randrange(4)}"
            held[key] = (filter, publisher)
            assert ads.add("u", key, filter, publisher)
            assert not ads.add("u", key, filter, publisher)
        sizes.add(len(held) > FEW)
        asked = drawn(random)
        found = sorted({name for filter, name in held.values() if filter.overlaps(asked)})
        assert ads.publishers("u", asked) == found
        assert ads.overlap("u", asked) == bool(found)
        event = {"x": random.randrange(44)}
        assert ads.match("u", event) == any(filter.matches(event) for filter, _ in held.values())
        assert {key: ad.filter for key, ad in ads.of_link("u").items()} == {
            k: f for k, (f, _) in held.items()
        }
    assert sizes == {True, False}
    assert not ads.overlap("v", drawn(random))
    assert ads.publishers("v", drawn(random)) == []


def test_an_index_is_made_for_many_only_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making one for every advertisement took a quarter of the time of the workflow scenario."""
    made = []

    class Counted(Index):
        def __init__(self) -> None:
            made.append(self)
            super().__init__()

    monkeypatch.setattr(advertisements, "Index", Counted)
    ads = Advertisements()
    for number in range(FEW):
        ads.add("u", f"a{number}", parse_attributes("x = 1"), "p")
    assert made == []
    for number in range(FEW, 5 * FEW):
        ads.add("u", f"a{number}", parse_attributes("x = 1"), "p")
    assert len(made) == 1
