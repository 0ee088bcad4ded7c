"""Entries of routing tables counted link by link; the words of filters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs

import covey
from covey.errors import PlanError
from covey.planning.graph import Graph
from covey.planning.groups.costing import path_tree
from covey.planning.groups.entries import directory_entries, table_entries
from covey.planning.tree import Tree
from covey.planning.words import words_of


def counted(trees: list[Tree], group: list[int], hosts: list[int], filters: list[int]) -> int:
    """Count each (tree, broker, link, filter) with somebody who asks for it beyond the link."""
    found = set()
    for number, tree in enumerate(trees):
        links = tree.graph.ends[tree.links].tolist()
        for here, there in [*links, *(reversed(link) for link in links)]:
            beyond: set[int] = set()
            more = {there}
            while more:
                beyond |= more
                more = {y for x, y in links if x in more} | {x for x, y in links if y in more}
                more -= beyond | {here}
            for one in range(len(hosts)):
                if group[one] == number and hosts[one] in beyond:
                    found.add((number, here, there, filters[one]))
    return len(found)


@given(graphs(most=7), st.data())
@settings(max_examples=50, deadline=None)
def test_entries_are_those_counted_link_by_link(graph: Graph, data: st.DataObject) -> None:
    node = st.integers(0, graph.nodes - 1)
    trees = [path_tree(graph, root) for root in data.draw(st.lists(node, min_size=1, max_size=3))]
    rows = data.draw(st.lists(st.tuples(st.integers(0, len(trees) - 1), node, st.integers(0, 2)), max_size=6))
    group, hosts, filters = ([row[k] for row in rows] for k in range(3))
    arrays = [np.array(values, np.int32) for values in (group, hosts, filters)]
    assert table_entries(trees, *arrays) == counted(trees, group, hosts, filters)
    assert directory_entries(graph.nodes, *arrays[1:]) == (graph.nodes - 1) * len(
        {*zip(hosts, filters, strict=True)}
    )


def test_each_has_a_host_a_filter_and_a_group() -> None:
    graph = Graph(2, [(0, 1)])
    two, one = np.zeros(2, np.int32), np.zeros(1, np.int32)
    with pytest.raises(PlanError, match="for each subscription"):
        table_entries([path_tree(graph, 0)], one, two, two)


def test_words_are_what_filters_ask_for() -> None:
    assert words_of(covey.parse("nokia or (phone and cheap)", "keywords")) == {"nokia", "phone", "cheap"}
    assert words_of(covey.parse("/news//item[title]/*", "xpath")) == {"news", "item", "title"}
    ibm = words_of(covey.parse("symbol = 'IBM' and price > 10"))
    assert len(ibm) == 2
    assert len(ibm & words_of(covey.parse("symbol = 'IBM' and price > 11"))) == 1
    assert not ibm & words_of(covey.parse("symbol = 'HP' or volume = 1"))
    assert words_of(covey.parse("TRUE")) == frozenset()
