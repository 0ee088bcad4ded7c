"""Tree patterns: the value an XPath filter is made of.

A pattern is a tree of nodes. Each node says how it hangs below its parent (`edge`), which name its element must have
(`label`), what must hold of the element's attributes (`tests`) and which patterns must hang below it (`children`).
The parent of the top node is the document itself, the invisible parent of the root element.

    edge 0        a child of its parent                              /a
    edge n > 0    at least n levels below its parent                 //a is 1, /*//a and //*/a are 2

A document matches when its elements can be given to the nodes so that all of this holds; only whether that is
possible matters, so there is no result node and the main path of a text is a branch like the others. The same
structure read as a target (containment.py) decides covering, and canonical.py keeps one form for each meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_TEXT_LENGTH = 4096
MAX_TOKENS = 200
MAX_DEPTH = 32

WILDCARD = "*"

# A name as XML writes it, near enough: a colon makes a prefixed name, which is a plain name here.
NAME = re.compile(r"[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*)?")

# ("lang",) asks for the attribute, ("lang", "en") for the attribute with that value.
Test = tuple[str, ...]


class Node(NamedTuple):
    """One node of a pattern with everything below it; the fields are in the order that sorts branches."""

    edge: int
    label: str
    tests: tuple[Test, ...]
    children: tuple[Node, ...]


@lru_cache(maxsize=8192)
def is_name(text: str) -> bool:
    """Return whether `text` can be an element's or attribute's name."""
    return NAME.fullmatch(text) is not None


def is_bare(node: Node) -> bool:
    """Return whether the node asks nothing of its element: any name, no tests."""
    return node.label == WILDCARD and not node.tests


def node_count(node: Node) -> int:
    """Return the number of nodes of the pattern."""
    return 1 + sum(map(node_count, node.children))


def height(node: Node) -> int:
    """Return the number of nodes on the longest path downwards, counting the levels that an edge skips."""
    return (node.edge or 1) + max(map(height, node.children), default=0)
