"""Advertisements by link: the answers are those of asking each in turn."""

from __future__ import annotations

from random import Random

import pytest

from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.core.keywords.parser import parse_keywords
from covey.matching.index import FEW
from covey.routing.advertisements import Advertisements


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
            assert ads.remove("u", key) == held.pop(key)
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


def test_an_index_of_a_link_is_there_as_long_as_it_has_advertisements() -> None:
    ads = Advertisements()
    assert ads.index_of("u") is None
    ads.add("u", "a1", parse_attributes("x = 1"), "p")
    ads.add("u", "a2", parse_attributes("x = 2"), "p")
    index = ads.index_of("u")
    assert index is not None
    assert set(index.match({"x": 2})) == {"a2"}
    ads.remove("u", "a2")
    assert ads.index_of("u") is index
    assert not index.match({"x": 2})
    ads.remove("u", "a1")
    assert ads.index_of("u") is None
