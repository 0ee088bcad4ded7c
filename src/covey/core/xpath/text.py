"""The canonical text of a pattern: a path with the side branches in brackets.

The branch that reaches deepest continues the path, so that what was written as a path reads as one.
"""

from __future__ import annotations

from covey.core.xpath.lexer import scan
from covey.core.xpath.pattern import MAX_TEXT_LENGTH, MAX_TOKENS, Node, Test, height, is_bare
from covey.errors import FilterError


def to_text(pattern: Node) -> str:
    """Return the canonical text of the pattern; parsing it gives back the pattern."""
    parts: list[str] = []
    _write(pattern, parts, relative=False)
    return "".join(parts)


def _write(node: Node, parts: list[str], *, relative: bool) -> None:
    while True:
        _write_step(node, parts, relative=relative)
        parts.extend(map(_written, node.tests))
        if not node.children:
            return
        # The height is only asked for where it decides: it takes time by everything below.
        main = node.children[0] if len(node.children) == 1 else max(node.children, key=height)
        for child in node.children:
            if child is not main:
                parts.append("[")
                _write(child, parts, relative=True)
                parts.append("]")
        node, relative = main, False


def _write_step(node: Node, parts: list[str], *, relative: bool) -> None:
    if node.edge == 0:
        step = f"/{node.label}"
    elif is_bare(node) and not node.children:
        step = "/*" * node.edge
    else:
        step = "/*" * (node.edge - 1) + f"//{node.label}"
    if relative:
        step = f".{step}" if step.startswith("//") else step[1:]
    parts.append(step)


def _written(test: Test) -> str:
    return f"[@{test[0]}]" if len(test) == 1 else f"[@{test[0]}={quote(test[1])}]"


def quote(value: str) -> str:
    """Return the value as a literal: in single quotes, those inside doubled."""
    return "'" + value.replace("'", "''") + "'"


def check_size(pattern: Node) -> None:
    """Raise FilterError unless the pattern's canonical text keeps the limits of texts.

    Most patterns are far smaller, and an upper bound says so without writing the text.
    """
    tokens, length = _weight(pattern)
    if tokens <= MAX_TOKENS and length <= MAX_TEXT_LENGTH:
        return
    text = to_text(pattern)
    if len(text) > MAX_TEXT_LENGTH:
        raise FilterError(
            f"the filter is too long: its canonical text has {len(text)} characters",
            expected=f"at most {MAX_TEXT_LENGTH}",
        )
    scan(text)


def _weight(node: Node) -> tuple[int, int]:
    """Return an upper bound of the tokens and characters that the text needs."""
    tokens, length = 5 + 2 * node.edge, 5 + 2 * node.edge + len(node.label)
    for test in node.tests:
        tokens += 6
        length += 4 + len(test[0]) + (0 if len(test) == 1 else 3 + 2 * len(test[1]))
    for child in node.children:
        child_tokens, child_length = _weight(child)
        tokens += child_tokens
        length += child_length
    return tokens, length
