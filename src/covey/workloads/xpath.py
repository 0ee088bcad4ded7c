"""Patterns and documents over a document type, for benchmarks and experiments.

Patterns follow the generator of Chan, Felber, Garofalakis and Rastogi, "Efficient Filtering of XML Documents with
XPath Expressions" (VLDB Journal 11(4), 2002), as Chand and Felber use it for XROUTE: a walk from the root through the
document type, of at most `height` steps; a step is a wildcard with probability `wildcard`, hangs by // with probability
`descendant`, and has a second child with probability `branch`; the names below an element are chosen by a Zipf
distribution of the given `skew`. What they leave open is settled here: a walk ends early only where nothing can
follow, or at a height drawn evenly from 1 to `height`; a // step goes down one to three levels of the type.

Randomness is an argument: the same generator state gives the same patterns and documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

import numpy as np

from covey.core.xpath.canonical import make_node
from covey.core.xpath.filter import XPathFilter
from covey.core.xpath.pattern import WILDCARD, Node, Test
from covey.core.xpath.text import check_size
from covey.errors import FilterError
from covey.workloads.dtd import DocumentType

VALUES = 10
MAX_SKIP = 3
TEXT = "the paper says that what was said about it yesterday has not been said by those who know of it "


@dataclass(frozen=True, slots=True)
class PatternOptions:
    """How patterns look; probabilities are per step."""

    height: int = 10
    wildcard: float = 0.1
    descendant: float = 0.1
    branch: float = 0.1
    skew: float = 1.0
    attribute: float = 0.0


class XPathWorkload:
    """A source of filters and documents over one document type."""

    def __init__(
        self, doctype: DocumentType, generator: np.random.Generator, options: PatternOptions | None = None
    ) -> None:
        self.doctype = doctype
        self.generator = generator
        self.options = PatternOptions() if options is None else options
        longest = max(map(len, doctype.children.values()))
        weights = 1.0 / np.arange(1, longest + 1) ** self.options.skew
        self._totals = np.cumsum(weights)

    def filters(self, count: int, *, distinct: bool = True) -> list[XPathFilter]:
        """Return `count` filters; distinct ones unless told otherwise.

        Gives up, with what there is, when a hundred draws in a row bring nothing new.
        """
        found: list[XPathFilter] = []
        seen: set[XPathFilter] = set()
        fruitless = 0
        while len(found) < count and fruitless < 100:
            drawn = self.filter()
            if distinct and drawn in seen:
                fruitless += 1
                continue
            fruitless = 0
            seen.add(drawn)
            found.append(drawn)
        return found

    def filter(self) -> XPathFilter:
        """Return one filter."""
        while True:
            height = int(self.generator.integers(1, self.options.height + 1))
            pattern = self._node(self.doctype.root, 0, height)
            try:
                check_size(pattern)
            except FilterError:
                continue
            return XPathFilter(pattern)

    def _node(self, element: str, edge: int, height: int) -> Node:
        options, draw = self.options, self.generator.random
        children: list[Node] = []
        if height > 1 and self.doctype.children[element]:
            count = 2 if draw() < options.branch else 1
            children.extend(self._below(element, height - 1) for _ in range(count))
        label = WILDCARD if draw() < options.wildcard else element
        tests: list[Test] = []
        if options.attribute and draw() < options.attribute and self.doctype.attributes[element]:
            tests.append(self._test(element))
        return make_node(edge, label, tests, children)

    def _below(self, element: str, height: int) -> Node:
        edge = 1 if self.generator.random() < self.options.descendant else 0
        child = self._child(element)
        if edge:
            for _ in range(int(self.generator.integers(0, MAX_SKIP))):
                if self.doctype.children[child]:
                    child = self._child(child)
        return self._node(child, edge, height)

    def _child(self, element: str) -> str:
        names = self.doctype.children[element]
        drawn = self.generator.random() * self._totals[len(names) - 1]
        return names[int(np.searchsorted(self._totals[: len(names)], drawn, side="right"))]

    def _test(self, element: str) -> Test:
        names = self.doctype.attributes[element]
        name = names[int(self.generator.integers(len(names)))]
        if self.generator.random() < 0.5:
            return (name,)
        return (name, _value(int(self.generator.integers(VALUES))))

    def document(self, elements: int = 131, *, depth: int = 12, bytes_per_element: int = 50) -> str:
        """Return a document of about that many elements, as XML text of about that many bytes.

        It grows from the root: an element that may hold more is drawn and given a child, until there are enough.
        """
        draw = self.generator
        names, levels = [self.doctype.root], [1]
        below: list[list[int]] = [[]]
        open_elements = [0]
        while len(names) < elements and open_elements:
            place = int(draw.integers(len(open_elements)))
            parent = open_elements[place]
            child = self._child(names[parent])
            below[parent].append(len(names))
            if self.doctype.children[child] and levels[parent] + 1 < depth:
                open_elements.append(len(names))
            names.append(child)
            levels.append(levels[parent] + 1)
            below.append([])
        parts: list[str] = []
        self._write(0, names, below, bytes_per_element, parts)
        return "".join(parts)

    def _write(
        self, element: int, names: list[str], below: list[list[int]], size: int, parts: list[str]
    ) -> None:
        name = names[element]
        tag = [name]
        for attribute in self.doctype.attributes[name]:
            if self.generator.random() < 0.2:
                value = _value(int(self.generator.integers(VALUES)))
                tag.append(f"{attribute}={quoteattr(value)}")
        head = " ".join(tag)
        parts.append(f"<{head}>")
        for child in below[element]:
            self._write(child, names, below, size, parts)
        filler = max(0, size - len(head) - len(name) - 5)
        parts.append(TEXT[:filler])
        parts.append(f"</{name}>")


def _value(number: int) -> str:
    return f"v{number}"
