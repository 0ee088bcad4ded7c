"""Document types, read far enough to generate from: which elements an element may hold, which attributes it has.

The reader knows ELEMENT, ATTLIST and internal parameter entities. Of a content model it keeps the names in the order
in which they are written, not how often and in which combination they may occur. Everything is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from covey.errors import ConfigError

MAX_DTD_LENGTH = 1 << 20
MAX_ENTITY_ROUNDS = 16

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ENTITY = re.compile(r"""<!ENTITY\s+%\s+([\w.:-]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""")
_REFERENCE = re.compile(r"%([\w.:-]+);")
_ELEMENT = re.compile(r"<!ELEMENT\s+([\w.:-]+)\s+([^>]*)>")
_ATTLIST = re.compile(r"""<!ATTLIST\s+([\w.:-]+)((?:[^>"']|"[^"]*"|'[^']*')*)>""")
_ATTRIBUTE = re.compile(
    r"""([\w.:-]+)\s+(CDATA|NMTOKENS?|IDREFS?|ID|ENTITY|ENTITIES|(?:NOTATION\s+)?\([^)]*\))\s+
        (?:\#REQUIRED|\#IMPLIED|(?:\#FIXED\s+)?(?:"[^"]*"|'[^']*'))""",
    re.VERBOSE,
)
_NAME = re.compile(r"#?[\w:][\w.:-]*")


@dataclass(frozen=True, slots=True)
class DocumentType:
    """The elements of a document type with what each may hold, in the order of the declaration."""

    root: str
    children: dict[str, tuple[str, ...]]
    attributes: dict[str, tuple[str, ...]]

    @property
    def attribute_count(self) -> int:
        """The number of attributes over all elements."""
        return sum(map(len, self.attributes.values()))


def parse_dtd(text: str, root: str | None = None) -> DocumentType:
    """Return the document type that the text declares; its root is the first element unless one is named.

    Raises ConfigError when there is no element, the root is not declared, or a limit is passed.
    """
    text = _expand(text)
    children: dict[str, tuple[str, ...]] = {}
    for name, model in _ELEMENT.findall(text):
        held = (n for n in _NAME.findall(model) if not n.startswith("#") and n not in ("EMPTY", "ANY"))
        children[name] = tuple(dict.fromkeys(held))
    if not children:
        raise ConfigError("the DTD declares no element")
    if root is None:
        root = next(iter(children))
    if root not in children:
        raise ConfigError(f"the DTD does not declare the root element {root!r}")
    attributes: dict[str, tuple[str, ...]] = dict.fromkeys(children, ())
    for name, declared in _ATTLIST.findall(text):
        more = tuple(match[0] for match in _ATTRIBUTE.findall(declared))
        attributes[name] = tuple(dict.fromkeys(attributes.get(name, ()) + more))
    # A name that is used and never declared holds nothing.
    for names in tuple(children.values()):
        for name in names:
            children.setdefault(name, ())
            attributes.setdefault(name, ())
    return DocumentType(root, children, attributes)


def read_dtd(path: str | Path, root: str | None = None) -> DocumentType:
    """Return the document type of a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the DTD {str(path)!r} cannot be read: {error}") from None
    return parse_dtd(text, root)


def newspaper() -> DocumentType:
    """Return Covey's own document type: newspaper articles, 123 elements, 513 attributes."""
    return read_dtd(Path(__file__).with_name("newspaper.dtd"))


def _expand(text: str) -> str:
    """Return the text without comments and with parameter entities put in."""
    if len(text) > MAX_DTD_LENGTH:
        raise ConfigError(f"the DTD has {len(text)} characters; at most {MAX_DTD_LENGTH} are read")
    text = _COMMENT.sub(" ", text)
    entities: dict[str, str] = {}
    for name, one, two in _ENTITY.findall(text):
        entities.setdefault(name, one or two)
    text = _ENTITY.sub(" ", text)
    for _ in range(MAX_ENTITY_ROUNDS):
        parts: list[str] = []
        length = position = 0
        for match in _REFERENCE.finditer(text):
            parts += (text[position : match.start()], entities.get(match[1], " "))
            length += len(parts[-1]) + len(parts[-2])
            position = match.end()
            if length > MAX_DTD_LENGTH:
                raise ConfigError(f"the DTD's entities expand beyond {MAX_DTD_LENGTH} characters")
        if not parts:
            return text
        text = "".join(parts) + text[position:]
    raise ConfigError("the DTD's entities refer to each other without end")
