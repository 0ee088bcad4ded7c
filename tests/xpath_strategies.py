"""Random patterns and documents over few names, so that they meet often."""

from __future__ import annotations

from hypothesis import strategies as st

from covey.core.xpath.canonical import make_node
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter
from covey.core.xpath.pattern import WILDCARD, Node, Test

LABELS = ("a", "b", "c")
TESTS: tuple[tuple[Test, ...], ...] = ((), (), (), (("x",),), (("x", "1"),), (("x", "2"),), (("y",),))


def _node(
    labels: tuple[str, ...], edges: tuple[int, ...], tests: tuple[tuple[Test, ...], ...], depth: int
) -> st.SearchStrategy[Node]:
    children: st.SearchStrategy[list[Node]] = st.just([])
    if depth > 1:
        below = _node(labels, edges, tests, depth - 1)
        children = st.lists(below, max_size=2) | st.lists(below, min_size=1, max_size=1)
    return st.builds(
        make_node, st.sampled_from(edges), st.sampled_from(labels), st.sampled_from(tests), children
    )


def patterns(
    *, wildcards: bool = True, descendants: bool = True, tests: bool = True, depth: int = 4
) -> st.SearchStrategy[XPathFilter]:
    """Patterns of at most `depth` steps; without wildcards, descendants or tests when told so."""
    labels = (*LABELS, WILDCARD) if wildcards else LABELS
    edges = (0, 0, 1) if descendants else (0,)
    return st.builds(XPathFilter, _node(labels, edges, TESTS if tests else ((),), depth))


def paths(*, depth: int = 5) -> st.SearchStrategy[XPathFilter]:
    """Patterns without branches: one step below the other."""
    step = st.tuples(st.sampled_from((0, 1)), st.sampled_from((*LABELS, WILDCARD)))

    def build(steps: list[tuple[int, str]]) -> XPathFilter:
        below: list[Node] = []
        for edge, label in reversed(steps):
            below = [make_node(edge, label, (), below)]
        return XPathFilter(below[0])

    return st.lists(step, min_size=1, max_size=depth).map(build)


@st.composite
def xml(draw: st.DrawFn, depth: int = 5) -> str:
    """XML text over the same names and attributes."""
    label = draw(st.sampled_from((*LABELS, "d")))
    attributes = "".join(
        f' {name}="{value}"'
        for name in ("x", "y")
        if (value := draw(st.sampled_from((None, None, "1", "2")))) is not None
    )
    children = draw(st.lists(xml(depth=depth - 1), max_size=3)) if depth > 1 else []
    return f"<{label}{attributes}>{''.join(children)}</{label}>"


def documents(depth: int = 5) -> st.SearchStrategy[Document]:
    """Documents of at most `depth` levels."""
    return xml(depth=depth).map(Document.parse)
