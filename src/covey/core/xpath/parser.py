"""From text to pattern.

    filter    = step-mark step { step-mark step } [ "/" attribute ]  |  "//" attribute
    step-mark = "/" | "//"
    step      = ( name | "*" ) { "[" condition { "and" condition } "]" }
    condition = attribute [ "=" literal ]
              | [ "." step-mark ] step { step-mark step } [ "/" attribute [ "=" literal ] ]
    attribute = "@" name

One method a rule, recursive only for brackets. Nodes are built from the last step backwards, each canonical when it
is made, so the result needs no second pass.
"""

from __future__ import annotations

from covey.core.xpath.canonical import make_node
from covey.core.xpath.lexer import END, Token, scan, value_of
from covey.core.xpath.pattern import MAX_DEPTH, WILDCARD, Node, Test
from covey.core.xpath.text import check_size
from covey.errors import FilterError


class _Step:
    """A step while its path is being read."""

    __slots__ = ("branches", "edge", "label", "position", "tests")

    def __init__(self, edge: int, label: str, position: int) -> None:
        self.edge = edge
        self.label = label
        self.position = position
        self.tests: list[Test] = []
        self.branches: list[Node] = []


def parse_pattern(text: str) -> Node:
    """Return the canonical pattern that the text says; raise FilterError with the place otherwise."""
    if not isinstance(text, str):
        raise FilterError(f"a filter's text is a string, not {type(text).__name__}")
    parser = _Parser(text, scan(text))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError(
            "an unpaired surrogate is not a character", text=text, position=error.start
        ) from None
    pattern = parser.filter()
    check_size(pattern)
    return pattern


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.next = 0
        self.depth = 0

    def filter(self) -> Node:
        if self.tokens[0].kind not in ("slash", "slashes"):
            raise self.wrong("/ or //", hint="a filter is an absolute path: /news//item")
        if self.tokens[0].kind == "slashes" and self.tokens[1].kind == "at":
            self.next = 1
            step = _Step(1, WILDCARD, self.tokens[1].position)
            step.tests.append(self.attribute(comparable=False))
            pattern = self.build([step])
        else:
            pattern = self.path(self.edge(), comparable=False)
        if self.peek().kind != END:
            raise self.wrong("/, //, [ or the end")
        return pattern

    def path(self, edge: int, *, comparable: bool) -> Node:
        """Read steps; the first hangs by `edge`. A final attribute is a test of the step before it."""
        steps = [self.step(edge)]
        while self.peek().kind in ("slash", "slashes"):
            edge = self.edge()
            if self.peek().kind == "at":
                if edge:
                    raise self.wrong("a name or *", hint="write //*[@a] below, or [@a] at the step itself")
                steps[-1].tests.append(self.attribute(comparable=comparable))
                break
            steps.append(self.step(edge))
        return self.build(steps)

    def build(self, steps: list[_Step]) -> Node:
        node: Node | None = None
        for step in reversed(steps):
            if node is not None:
                step.branches.append(node)
            try:
                node = make_node(step.edge, step.label, step.tests, step.branches)
            except FilterError as error:
                raise FilterError(
                    error.problem, text=self.text, position=step.position, hint=error.hint
                ) from None
        assert node is not None
        return node

    def edge(self) -> int:
        return 1 if self.take().kind == "slashes" else 0

    def step(self, edge: int) -> _Step:
        token = self.peek()
        if token.kind not in ("name", "star"):
            raise self.wrong("a name or *", hint=_STEP_HINTS.get(token.kind))
        self.take()
        step = _Step(edge, token.text, token.position)
        while self.peek().kind == "open":
            self.brackets(step)
        return step

    def brackets(self, step: _Step) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FilterError(
                "brackets nest too deep",
                text=self.text,
                position=self.peek().position,
                expected=f"at most {MAX_DEPTH}",
            )
        self.take()
        self.condition(step)
        while self.peek()[:2] == ("name", "and"):
            self.take()
            self.condition(step)
        if self.peek().kind != "close":
            hint = "only attributes are compared: [@a='v']" if self.peek().kind == "equals" else None
            raise self.wrong("], and, / or //", hint=hint)
        self.take()
        self.depth -= 1

    def condition(self, step: _Step) -> None:
        kind = self.peek().kind
        if kind == "at":
            step.tests.append(self.attribute(comparable=True))
            return
        edge = 0
        if kind == "dot":
            self.take()
            if self.peek().kind not in ("slash", "slashes"):
                raise self.wrong("/ or //")
            edge = self.edge()
            if self.peek().kind == "at":
                if edge:
                    raise self.wrong("a name or *", hint="write .//*[@a] below, or [@a] at the step itself")
                step.tests.append(self.attribute(comparable=True))
                return
        elif kind in ("slash", "slashes"):
            raise self.wrong(
                "a name, *, @ or .", hint="a path in brackets starts at its step: write .//a or a"
            )
        step.branches.append(self.path(edge, comparable=True))

    def attribute(self, *, comparable: bool) -> Test:
        self.take()
        token = self.peek()
        if token.kind != "name":
            raise self.wrong("an attribute's name")
        self.take()
        if self.peek().kind != "equals":
            return (token.text,)
        if not comparable:
            raise self.wrong("the end", hint="compare inside brackets: [@a='v']")
        self.take()
        literal = self.peek()
        if literal.kind != "literal":
            raise self.wrong("a value in quotes", hint="write numbers in quotes too: [@a='5']")
        self.take()
        return (token.text, value_of(literal))

    def peek(self) -> Token:
        return self.tokens[self.next]

    def take(self) -> Token:
        token = self.tokens[self.next]
        self.next += 1
        return token

    def wrong(self, expected: str, hint: str | None = None) -> FilterError:
        token = self.peek()
        problem = "the filter ends too early" if token.kind == END else f"unexpected {token.text!r:.40}"
        return FilterError(problem, text=self.text, position=token.position, expected=expected, hint=hint)


_STEP_HINTS = {
    "slash": "// is the longest run of slashes",
    "slashes": "// is the longest run of slashes",
    "dot": "a dot may only begin a path in brackets: [.//a]",
    "open": "name the element first, or write *",
}
