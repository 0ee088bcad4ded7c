"""The index against the scan: every answer equal, while filters of all families come and go."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Set
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import covey
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.core.filter import Filter
from covey.matching.index import PATIENCE, VERY_FEW, Index
from covey.matching.scan import ScanIndex
from tests import special_values
from tests.strategies import attribute_events, attribute_filters

KEYWORDS = [covey.parse(text, language="keywords") for text in ("a", "a and b", "b or c", "*")]
PATHS = [covey.parse(text, language="xpath") for text in ("/a", "//b", "/a/b[c]", "/a//*[@id='1']")]
DOCUMENTS = ("<a/>", "<a><b/></a>", "<a><b><c/></b></a>", "<a><d id='1'/></a>", "<b/>")
LINKS = [None, "north", "south", *(f"client {n}" for n in range(3))]

FILTERS = st.one_of(
    attribute_filters(),
    attribute_filters().map(lambda filter: covey.decode(filter.encode())),
    st.sampled_from(special_values.filters()),
    st.sampled_from([covey.decode(filter.encode()) for filter in special_values.filters()]),
    st.sampled_from(KEYWORDS + PATHS),
)
EVENTS = st.one_of(
    attribute_events(),
    attribute_events(),
    attribute_events().map(lambda content: covey.Event(content, b"payload")),
    st.sampled_from(special_values.events()),
    st.sampled_from(DOCUMENTS),
    st.frozensets(st.sampled_from("abc")),
)


# Hypothesis describes rules by their strategies; these two have short names, where the texts of the above are long.
@st.composite
def filters(draw: st.DrawFn) -> Filter:
    return draw(FILTERS)


@st.composite
def events(draw: st.DrawFn) -> Any:
    return draw(EVENTS)


def on_numbers(filter: Filter) -> Filter:
    """Return the filter with each of its intervals of numbers beginning at a number and ending before one.

    Filters take numbers as dense: for them `a > 0` has more in it than `a >= 5e-324`. Events have float64 and integers
    alone, for which the two are one, and the index compares some of its intervals so. Of filters in this form the
    scan knows that too.
    """
    if not isinstance(filter, AttributeFilter):
        return filter
    boxes: list[Conjunction] = []
    for conjunction in filter.conjunctions:
        sides: list[tuple[str, Constraint]] = []
        for name, side in conjunction.constraints:
            ends = [(_next_number(value), 0) if after else (value, 0) for value, after in side.numbers]
            pairs = zip(ends[::2], ends[1::2], strict=True)
            whole = Constraint(numbers=tuple(end for low, high in pairs if low < high for end in (low, high)))
            sides.append((name, msgspec.structs.replace(side, numbers=whole.numbers)))
        if not any(side.is_empty for _, side in sides):
            boxes.append(Conjunction(tuple(sides)))
    return trusted(tuple(boxes))


def _next_number(value: float) -> float:
    if abs(value) == math.inf:
        return value
    return math.nextafter(value, math.inf) if -(2**53) <= value < 2**53 else int(value) + 1


def ask_of_filters(index: Index, scan: ScanIndex, filter: Filter) -> None:
    """The index knows what filters know of each other, and what it knows beyond that is true of all events."""
    asked = on_numbers(filter)
    assert index.covers(filter) == bool(index.covering(filter))
    for found, known, is_true in (
        (index.covering(filter), scan.covering(filter), lambda other: other.covers(asked)),
        (index.covered(filter), scan.covered(filter), asked.covers),
    ):
        assert known <= set(found)
        assert all(is_true(on_numbers(scan.filter(key))) for key in set(found) - known)
    meeting, likely = set(index.overlapping(filter)), scan.overlapping(filter)
    assert meeting <= likely
    assert index.overlaps(filter) == bool(meeting)
    assert not any(asked.overlaps(on_numbers(scan.filter(key))) for key in likely - meeting)


class IndexAgainstScan(RuleBasedStateMachine):
    """One index and one scan, given the same filters and asked the same questions."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.index = Index()
        self.scan = ScanIndex()
        self.next_key = 0

    @initialize(few=st.sampled_from(["arrays", "in turn", "both"]))
    def ask(self, few: str) -> None:
        """Few filters are asked in turn, unless there are arrays already; or for a while."""
        if few == "arrays":
            self.index.attributes()
        elif few == "both":
            self.index._scanned = PATIENCE - 5 * VERY_FEW

    def new_key(self, named: bool) -> Any:
        self.next_key += 1
        return f"key {self.next_key}" if named else self.next_key

    @rule(target=keys, filter=filters(), link=st.sampled_from(LINKS), named=st.booleans())
    def add(self, filter: Filter, link: str | None, named: bool) -> Any:
        key = self.new_key(named)
        self.index.add(key, filter, link=link)
        self.scan.add(key, filter, link=link)
        return key

    @rule(filters=st.lists(filters(), max_size=12), link=st.sampled_from(LINKS))
    def add_batch(self, filters: list[Filter], link: str | None) -> None:
        keys = [self.new_key(False) for _ in filters]
        self.index.add_batch(keys, filters, [link] * len(keys))
        for key, filter in zip(keys, filters, strict=True):
            self.scan.add(key, filter, link=link)

    @rule(key=consumes(keys))
    def remove(self, key: Any) -> None:
        self.index.remove(key)
        self.scan.remove(key)

    @rule(event=events())
    def match(self, event: Any) -> None:
        found: Set[Any] = self.index.match(event)
        assert found == self.scan.match(event)
        assert self.index.links(event) == self.scan.links(event)

    @rule(events=st.lists(events(), max_size=6))
    def match_batch(self, events: list[Any]) -> None:
        answers = self.index.match_batch(events)
        assert [set(answer.tolist()) for answer in answers] == self.scan.match_batch(events)
        assert all(len(set(answer.tolist())) == len(answer) for answer in answers)
        assert self.index.links_batch(events) == [self.scan.links(event) for event in events]

    @rule(filter=filters())
    def cover(self, filter: Filter) -> None:
        ask_of_filters(self.index, self.scan, filter)

    @invariant()
    def has_all_keys(self) -> None:
        assert len(self.index) == len(self.scan)


TestIndexAgainstScan = IndexAgainstScan.TestCase
# Forty steps with large filters are often more than an example may hold: such examples are drawn again, and many are.
TestIndexAgainstScan.settings = settings(
    settings(),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def siena_filter(generator: random.Random, names: int, values: int, most: int) -> Filter:
    """A filter like those of the SIENA workload, with floats, strings and two-sided ranges as well."""
    items: list[tuple[Any, ...]] = []
    for name in {f"n{int(names ** generator.random())}" for _ in range(generator.randint(1, most))}:
        value = generator.randrange(values)
        op = generator.choice(["=", "=", "=", "<", ">", "between", "string", "in", "exists"])
        if op == "between":
            items.append((name, op, (value, value + 8.0 ** generator.uniform(-1, 2))))
        elif op == "string":
            items.append((name, "=", f"s{value}"))
        elif op == "in":
            items.append((name, op, [value, f"s{value}", value + 1.5]))
        elif op == "exists":
            items.append((name, op))
        else:
            items.append((name, op, value))
    return covey.conjunction(items)


def siena_event(generator: random.Random, names: int, values: int) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for _ in range(generator.randint(1, 12)):
        value = generator.randrange(values)
        event[f"n{int(names ** generator.random())}"] = generator.choice([value, value + 0.5, f"s{value}"])
    return event


def ask_everything(index: Index, scan: ScanIndex, events: list[Any], asked: list[Filter]) -> None:
    for event in events:
        found: Set[Any] = index.match(event)
        assert found == scan.match(event)
        assert index.links(event) == scan.links(event)
    for filter in asked:
        covering: Set[Any] = index.covering(filter)
        assert covering == scan.covering(filter)
        covered: Set[Any] = index.covered(filter)
        assert covered == scan.covered(filter)


@pytest.mark.parametrize(
    ("names", "values", "most"), [(40, 20, 5), (2, 1000, 1), (2, 1000, 2), (300, 100, 10)]
)
def test_thousands_of_filters_come_and_go(names: int, values: int, most: int) -> None:
    """Sizes at which lists move, chain and split, and shrink again."""
    generator = random.Random(names)
    index, scan = Index(), ScanIndex()
    alive: list[int] = []
    for turn in range(4):
        keys = list(range(turn * 2500, (turn + 1) * 2500))
        filters = [siena_filter(generator, names, values, most) for _ in keys]
        links = [generator.choice([None, *range(70)]) for _ in keys]
        index.add_batch(keys, filters, links)
        for key, filter, link in zip(keys, filters, links, strict=True):
            scan.add(key, filter, link)
        alive += keys
        generator.shuffle(alive)
        gone, alive = alive[: len(alive) * 2 // 3], alive[len(alive) * 2 // 3 :]
        index.remove_batch(gone)
        for key in gone:
            scan.remove(key)
        ask_everything(
            index,
            scan,
            [siena_event(generator, names, values) for _ in range(12)],
            [siena_filter(generator, names, values, most) for _ in range(4)],
        )
    index.remove_batch(alive)
    assert len(index) == 0
    assert not index.match(siena_event(generator, names, values))


def test_special_values_are_judged_as_the_scan_does() -> None:
    index, scan = Index(), ScanIndex()
    for key, filter in enumerate(special_values.filters()):
        index.add(key, filter, link=key % 5)
        scan.add(key, filter, link=key % 5)
    for event in special_values.events():
        found: Set[Any] = index.match(event)
        assert found == scan.match(event)
        assert index.links(event) == scan.links(event)
    for filter in special_values.filters():
        ask_of_filters(index, scan, filter)


def test_thousands_of_equal_filters_are_kept_apart() -> None:
    index, scan = Index(), ScanIndex()
    texts = ["a > 1", "a = 1", "a between 1 and 2", "TRUE", "a > 1 and b > 1", "a = 1 and b > 1", "a is null"]
    for key in range(7 * 1300):
        filter = covey.parse(texts[key % 7])
        index.add(key, filter, link=key % 3)
        scan.add(key, filter, link=key % 3)
    events: list[Any] = [{"a": 1, "b": 2}, {"a": 1.5, "b": 1}, {"a": 3, "b": 3}, {}, {"b": 5}]
    ask_everything(index, scan, events, [covey.parse(text) for text in texts])
    for key in range(0, 7 * 1300, 2):
        index.remove(key)
        scan.remove(key)
    ask_everything(index, scan, events, [covey.parse(text) for text in texts])


def test_memory_is_given_back() -> None:
    """Adding and removing for ever keeps what the index holds bounded, names and symbols included."""
    generator = random.Random(5)
    index = Index()
    sizes = []
    for turn in range(30):
        keys = list(range(200))
        index.add_batch(
            keys,
            [
                covey.conjunction(
                    [
                        (f"t{turn}.{key}", "=", f"{turn}.{key}"),
                        ("x", ">", generator.random()),
                        ("y", "like", f"{key}%"),
                    ]
                )
                for key in keys
            ],
        )
        index.remove_batch(keys)
        sizes.append(index.nbytes)
    assert sizes[-1] == sizes[5]
    assert index.attributes().channels.attributes == {}


def test_a_key_in_use_is_refused_and_nothing_is_added() -> None:
    index = Index()
    index.add("a", covey.parse("x = 1"))
    with pytest.raises(ValueError, match="'a' is in the index already"):
        index.add_batch(["b", "a"], [covey.parse("x = 1")] * 2)
    with pytest.raises(ValueError, match="do not fit together"):
        index.add_batch(["b"], [])
    with pytest.raises(KeyError):
        index.remove_batch(["a", "b"])
    found: Set[Any] = index.match({"x": 1})
    assert found == {"a"}


def test_links_beyond_the_mask_are_found_one_by_one() -> None:
    index, scan = Index(), ScanIndex()
    for key in range(200):
        filter = covey.conjunction([("a", ">", key % 10), ("b", "=", key % 3)][: 1 + key % 2])
        index.add(key, filter, link=f"link {key}")
        scan.add(key, filter, link=f"link {key}")
    for event in ({"a": 5, "b": 1}, {"a": 100, "b": 2}, {"a": 0.5}, {"b": 1}):
        assert index.links(event) == scan.links(event)


def test_an_index_of_all_families_goes_to_another_process() -> None:
    """Its arrays are elsewhere then: whatever kernels are told of their places is told anew."""
    index, scan = Index(), ScanIndex()
    filters: list[covey.Filter] = [covey.parse(f"a > {n}") for n in range(40)]
    filters += [covey.parse(f"/a/b{n % 4}[c{n % 3}]", language="xpath") for n in range(40)]
    filters += [covey.parse(f"w{n % 5} and v{n % 7}", language="keywords") for n in range(40)]
    for key, filter in enumerate(filters):
        index.add(key, filter)
        scan.add(key, filter)
    copy = pickle.loads(pickle.dumps(index))
    for key in range(0, len(filters), 2):  # the original goes on, on its own arrays
        index.remove(key)
    index.add_batch(range(1_000, 1_200), filters[40:80] * 5)
    for content in ({"a": 12}, "<a><b1><c1/></b1><b2><c0/></b2></a>", frozenset(("w1", "v1", "w0"))):
        assert set(copy.match(content)) == scan.match(content)
    for key in range(1, len(filters), 2):
        copy.remove(key)
        scan.remove(key)
    copy.add_batch(range(2_000, 2_120), filters)
    for key, filter in enumerate(filters, 2_000):
        scan.add(key, filter)
    for content in ({"a": 12}, "<a><b1><c1/></b1><b2><c0/></b2></a>", frozenset(("w1", "v1", "w0"))):
        assert set(copy.match(content)) == scan.match(content)


def test_warming_up_leaves_nothing_to_compile() -> None:
    """After it, using an index of all families compiles no kernel for new types of arguments."""
    from covey.matching.attributes import asking, changing, query, view
    from covey.matching.index import warm_up

    warm_up()
    kernels: list[Any] = [query.query_batch, changing.change_rows, asking.ask, view.match_one]
    kinds = [len(one.signatures) for one in kernels]
    assert kinds == [1] * len(kernels), "each is compiled for one kind of arguments"
    index = Index()
    index.add_batch(["x", "y"], [covey.parse("a = 1"), covey.parse("a = 1 or b like '%x%'")])
    assert set(index.match_batch([{"a": 1}])[0]) == {"x", "y"}
    found: Set[Any] = index.match({"b": "axa"})
    assert found == {"y"}
    assert [len(one.signatures) for one in kernels] == kinds


def test_wide_filters_and_wide_events() -> None:
    """More constraints in a filter, and attributes in an event, than any fixed room would hold."""
    generator = random.Random(11)
    index, scan = Index(), ScanIndex()
    names = [f"n{k}" for k in range(700)]
    wide = {name: generator.randrange(3) for name in names}
    for key in range(40):
        chosen = generator.sample(names, generator.choice([1, 70, 300, 600]))
        items: list[tuple[Any, ...]] = [
            (name, generator.choice(["=", ">=", "<="]), wide[name]) for name in chosen
        ]
        filter = covey.conjunction(items)
        index.add(key, filter, link=key % 5)
        scan.add(key, filter, link=key % 5)
    events = [wide, {**wide, "n1": 99, "n2": -99}, dict.fromkeys(names[:100], 1)]
    asked = [covey.conjunction([(name, "=", wide[name]) for name in names]), covey.parse("n1 >= 0")]
    assert len(index.match(wide)) == 40
    ask_everything(index, scan, events, asked)
    assert [set(answer.tolist()) for answer in index.match_batch(events)] == scan.match_batch(events)
    for key in range(0, 40, 2):
        index.remove(key)
        scan.remove(key)
    ask_everything(index, scan, events, asked)


def test_overlapping_and_covered_among_thousands_on_one_topic_each() -> None:
    """Where all rows constrain an attribute, candidates come from it alone: by its values, or by ranges that meet."""
    generator = random.Random(12)
    index, scan = Index(), ScanIndex()

    def draw() -> Filter:
        low = generator.randrange(1000)
        items: list[tuple[Any, ...]] = [("topic", "=", f"t{generator.randrange(300)}")]
        if generator.random() < 0.8:
            items.append(("value", "between", (low, low + generator.randrange(200))))
        if generator.random() < 0.3:
            items.append(("grade", "in", [generator.randrange(5), "none"]))
        return covey.conjunction(items)

    def ask_some() -> None:
        asked = [draw() for _ in range(6)]
        asked += [
            covey.parse(text)
            for text in ("value > 900", "topic in ('t1', 't2') or grade = 2", "topic is null")
        ]
        asked.append(covey.parse("topic like 't1%' and value between 100 and 120"))
        for filter in asked:
            overlapping: Set[Any] = index.overlapping(filter)
            assert overlapping == scan.overlapping(filter), filter
            covered: Set[Any] = index.covered(filter)
            assert covered == scan.covered(filter), filter

    for key in range(6000):
        filter = draw()
        index.add(key, filter)
        scan.add(key, filter)
    ask_some()
    for key in range(0, 6000, 2):
        index.remove(key)
        scan.remove(key)
    ask_some()
    free = covey.parse("grade = 1")
    index.add("free", free)
    scan.add("free", free)
    ask_some()


def test_links_of_long_conjunctions_are_those_of_rows_that_hold() -> None:
    """Rows are verified until all links of a list are hit, those beyond the mask one by one."""
    generator = random.Random(15)
    for links in (5, 90):
        index, scan = Index(), ScanIndex()
        for key in range(900):
            sides = [(name, generator.choice((">", "<")), generator.randrange(10)) for name in "bcdef"]
            filter = covey.conjunction([("a", "=", key % 3), *sides[: key % 6]])
            index.add(key, filter, link=key % links)
            scan.add(key, filter, link=key % links)
        for _ in range(60):
            event = {name: generator.randrange(10) for name in "bcdef"} | {"a": generator.randrange(4)}
            assert index.links(event) == scan.links(event), event
