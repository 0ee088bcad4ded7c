"""Documents: XML read once, kept flat, judged by many filters.

A document keeps only what filters can ask about: the tree of elements in document order, their names and their
attributes. Text, comments and processing instructions are not kept. Distinct names and attributes are listed once and
referred to by number, so that an index translates each of them once and not once an element.

Names are plain: a prefix is part of the name and namespace declarations are attributes like others.

Documents come from strangers. Size, depth and number of elements are bounded, entity declarations are refused before
they can expand, nothing outside the document is ever read.
"""

from __future__ import annotations

from array import array
from xml.parsers import expat

from covey.core.xpath.containment import Target
from covey.errors import EventError

MAX_DOCUMENT_BYTES = 1 << 20
MAX_DOCUMENT_DEPTH = 256
MAX_DOCUMENT_ELEMENTS = 1 << 16


class Document:
    """An XML document as flat arrays, in document order.

    `names[name[i]]` is the name of element i, `parent[i]` its parent (-1 for the root element) and `depth[i]` its
    level (1 for the root element). Attribute j belongs to element `owner[j]` and is `attributes[attribute[j]]`, a pair
    of name and value; owners do not decrease.
    """

    __slots__ = ("_target", "attribute", "attributes", "depth", "name", "names", "owner", "parent")

    def __init__(
        self,
        names: tuple[str, ...],
        name: array[int],
        parent: array[int],
        depth: array[int],
        attributes: tuple[tuple[str, str], ...],
        attribute: array[int],
        owner: array[int],
    ) -> None:
        self.names = names
        self.name = name
        self.parent = parent
        self.depth = depth
        self.attributes = attributes
        self.attribute = attribute
        self.owner = owner
        self._target: Target | None = None

    @classmethod
    def parse(
        cls,
        xml: str | bytes,
        *,
        max_bytes: int = MAX_DOCUMENT_BYTES,
        max_depth: int = MAX_DOCUMENT_DEPTH,
        max_elements: int = MAX_DOCUMENT_ELEMENTS,
    ) -> Document:
        """Return the document that the XML says; raise EventError, in one line, for anything else."""
        if not isinstance(xml, (str, bytes)):
            raise EventError(f"a document is XML text or bytes, not {type(xml).__name__}")
        if len(xml) > max_bytes:
            raise EventError(f"the document has {len(xml)} bytes; at most {max_bytes} are read")
        return _Reader(max_depth, max_elements).read(xml)

    @property
    def target(self) -> Target:
        """The document as a target for patterns, made when it is first asked for."""
        if self._target is None:
            attributes: dict[int, dict[str, str | None]] = {}
            for element, number in zip(self.owner, self.attribute, strict=True):
                name, value = self.attributes[number]
                attributes.setdefault(element, {})[name] = value
            names = self.names
            labels = (names[i] for i in self.name)
            self._target = Target(labels, self.parent, self.depth, (True,) * len(self.parent), attributes)
        return self._target

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.parent)

    def __repr__(self) -> str:
        return f"<document: root {self.names[self.name[0]]!r}, {len(self)} elements>"


class _Reader:
    """Collects a document from the parser's calls."""

    def __init__(self, max_depth: int, max_elements: int) -> None:
        self.max_depth = max_depth
        self.max_elements = max_elements
        self.numbers: dict[str, int] = {}
        self.pairs: dict[tuple[str, str], int] = {}
        self.name: list[int] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.attribute: list[int] = []
        self.owner: list[int] = []
        self.open = [-1]

    def read(self, xml: str | bytes) -> Document:
        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.EntityDeclHandler = self.refuse_entity
        parser.ExternalEntityRefHandler = self.refuse_external
        try:
            parser.Parse(xml, True)
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code)
            raise EventError(
                f"the document is not well-formed XML: {problem} at line {error.lineno}, character {error.offset + 1}"
            ) from None
        except (ValueError, LookupError) as error:
            raise EventError(f"the document cannot be decoded: {error}") from None
        return Document(
            tuple(self.numbers),
            array("i", self.name),
            array("i", self.parent),
            array("i", self.depth),
            tuple(self.pairs),
            array("i", self.attribute),
            array("i", self.owner),
        )

    def start(self, name: str, attributes: list[str]) -> None:
        element = len(self.name)
        above = self.open
        if len(above) > self.max_depth:
            raise EventError(f"the document's elements nest deeper than {self.max_depth} levels")
        if element >= self.max_elements:
            raise EventError(f"the document has more than {self.max_elements} elements")
        self.parent.append(above[-1])
        self.depth.append(len(above))
        above.append(element)
        numbers = self.numbers
        self.name.append(numbers.setdefault(name, len(numbers)))
        if attributes:
            pairs = self.pairs
            for pair in zip(attributes[::2], attributes[1::2], strict=True):
                self.attribute.append(pairs.setdefault(pair, len(pairs)))
                self.owner.append(element)

    def end(self, name: str) -> None:
        self.open.pop()

    def refuse_entity(self, name: str, *_: object) -> None:
        raise EventError(f"the document declares the entity {name!r}; entity declarations are refused")

    def refuse_external(self, *_: object) -> int:
        raise EventError("the document refers to something outside itself; external entities are refused")
