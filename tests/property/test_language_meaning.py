"""The parsed filter means what the text says: NOT, DNF and simplification never change when it is TRUE."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.oracles.filter_texts import events_for, one_attribute_trees, texts, trees
from tests.oracles.three_valued import judge
from tests.strategies import attribute_filters

from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.parser import MAX_CANONICAL_CHARACTERS, parse_attributes, parse_tree
from covey.core.attributes.syntax import And, Not, Or, Tree, Truth, Within
from covey.errors import FilterError

# The heart of the language: more examples than usual, and no fewer than the profile asks for.
assert settings.default is not None
THOROUGH = settings(max_examples=max(250, settings.default.max_examples))


def parsed(text: str) -> AttributeFilter:
    try:
        return parse_attributes(text)
    except FilterError as error:
        assume("conjunctions" not in error.problem)
        raise


@THOROUGH
@given(st.data())
def test_a_filter_matches_exactly_when_its_text_is_true(data: st.DataObject) -> None:
    tree = data.draw(trees)
    text = data.draw(texts(tree))
    filter = parsed(text)
    for event in data.draw(st.lists(events_for(tree), min_size=1, max_size=8)):
        expected = judge(tree, event) is True
        assert filter.matches(event) == expected, (text, str(filter), event)
        assert (judge(parse_tree(text), event) is True) == expected, (text, event)


@THOROUGH
@given(st.data())
def test_conditions_on_one_attribute_combine_as_sets(data: st.DataObject) -> None:
    tree = data.draw(one_attribute_trees)
    filter = parsed(data.draw(texts(tree)))
    for event in data.draw(st.lists(events_for(tree), min_size=1, max_size=10)):
        assert filter.matches(event) == (judge(tree, event) is True), (str(filter), event)


@given(st.data())
def test_a_filter_and_its_negation_are_true_of_no_common_event(data: st.DataObject) -> None:
    tree = data.draw(trees)
    filter, negation = parsed(data.draw(texts(tree))), parsed(data.draw(texts(Not(tree))))
    for event in data.draw(st.lists(events_for(tree), min_size=1, max_size=6)):
        verdict = judge(tree, event)
        assert (filter.matches(event), negation.matches(event)) == (verdict is True, verdict is False)


@THOROUGH
@given(st.data())
def test_canonical_text_parses_back_to_an_equal_filter(data: st.DataObject) -> None:
    filter = parsed(data.draw(st.one_of(trees, one_attribute_trees).flatmap(texts)))
    again = parse_attributes(str(filter))
    assert again == filter, str(filter)
    assert hash(again) == hash(filter)
    assert str(again) == str(filter)


@given(st.data())
def test_spelling_does_not_matter(data: st.DataObject) -> None:
    tree = data.draw(trees)
    assert parsed(data.draw(texts(tree))) == parsed(data.draw(texts(tree)))


@given(st.data(), st.randoms(use_true_random=False))
def test_the_order_of_operands_does_not_matter(data: st.DataObject, random: Any) -> None:
    tree = data.draw(trees)
    one, other = parsed(data.draw(texts(tree))), parsed(data.draw(texts(_shuffled(tree, random))))
    for event in data.draw(st.lists(events_for(tree), min_size=1, max_size=6)):
        assert one.matches(event) == other.matches(event)
    if "LIKE '" not in str(one):
        # Which of several LIKE patterns a list of values joins is the only thing left to the order.
        assert one == other


def _shuffled(tree: Tree, random: Any) -> Tree:
    if isinstance(tree, Not):
        return Not(_shuffled(tree.operand, random))
    if isinstance(tree, And | Or):
        operands = [_shuffled(operand, random) for operand in tree.operands]
        random.shuffle(operands)
        return type(tree)(tuple(operands))
    if isinstance(tree, Within):
        return tree._replace(values=tuple(random.sample(tree.values, len(tree.values))))
    assert isinstance(tree, Truth) or tree.name
    return tree


@given(attribute_filters(), attribute_filters())
def test_filters_that_were_not_parsed_have_text_too(one: AttributeFilter, other: AttributeFilter) -> None:
    merged = one.merge(other).filter
    for filter in (one, merged):
        text = str(filter)
        assume(len(text) <= MAX_CANONICAL_CHARACTERS)
        assert parse_attributes(text) == filter, text
