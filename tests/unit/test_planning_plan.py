"""A plan's file gives back the plan, and nothing else does; whatever cannot be used is refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covey
from covey.errors import PlanError
from covey.planning.joining import Witness
from covey.planning.plan import MOST_BYTES, VERSION, Plan, PlannedTree, _checksum

IBM = covey.parse("symbol = 'IBM'")
HP = covey.parse("symbol = 'HP'")

#    a ─ b
#    │   │
#    c ─ d
RING = Plan(
    method="held-out",
    seed=7,
    brokers=("a", "b", "c", "d"),
    links=(("a", "b", 1.0), ("a", "c", 0.1), ("b", "d", 1.0), ("c", "d", 2.5)),
    trees=(
        PlannedTree("a", (("a", "b"), ("a", "c"), ("b", "d"))),
        PlannedTree("d", (("a", "c"), ("b", "d"), ("c", "d"))),
    ),
    groups={("a", IBM.encode()): 1, ("b", IBM.encode()): 0},
    home={"a": 1, "c": 1},
    aggregation=({"broker": "a", "tree": 1, "members": ["x"], "gain": 0.5},),
    predictions={"held-out": {"cost": 0.1 + 0.2, "copies": 2.0}, "single": {"cost": 1e300}},
    basis={"subscriptions": 2, "digest": "é", "masters": ["x", None]},
)


def refusal(call: Any) -> str:
    """Return the one line in which the call refuses."""
    with pytest.raises(PlanError) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def test_the_file_gives_back_the_plan() -> None:
    data = RING.encode()
    assert Plan.decode(data) == RING
    assert Plan.decode(data).encode() == data
    assert json.loads(data)["plan"]["trees"][1] == {"root": "d", "links": [1, 2, 3]}
    # Written by another hand, in another order: the same plan.
    assert Plan.decode(json.dumps(json.loads(data), indent=2).encode()) == RING
    shuffled = replace(RING, groups=dict(reversed([*RING.groups.items()])), home={"c": 1, "a": 1})
    assert shuffled.encode() == data


def test_the_tree_of_a_filter() -> None:
    assert RING.tree_of("a", IBM) == 1
    assert RING.tree_of("b", IBM) == 0
    assert RING.tree_of("a", HP) == 1  # where most of the broker's are
    assert RING.tree_of("b", HP) == 0
    assert RING.tree_of("d", IBM) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"brokers": ()}, "1 to"),
        ({"brokers": ("a", "c", "b", "d")}, "sorted and distinct"),
        ({"brokers": ("", "a", "b", "c", "d")}, "must have names"),
        ({"links": (("a", "z", 1.0),)}, "no broker of the plan"),
        ({"links": (("b", "a", 1.0),)}, "the smaller broker first"),
        ({"links": (("a", "b", 0.0),)}, "positive and finite"),
        ({"links": (("a", "b", float("nan")),)}, "positive and finite"),
        ({"links": (("a", "b", 1.0), ("a", "b", 2.0))}, "sorted and distinct"),
        ({"trees": ()}, "at least one tree"),
        ({"trees": (PlannedTree("z", RING.trees[0].links),)}, "root 'z' of tree 0"),
        ({"trees": (PlannedTree("a", (("a", "b"), ("a", "d"), ("b", "d"))),)}, "a–d that is not in"),
        ({"trees": (PlannedTree("a", (("a", "b"), ("a", "c"))),)}, "does not span"),
        ({"trees": (PlannedTree("a", (("a", "c"), ("a", "b"), ("b", "d"))),)}, "sorted and distinct"),
        ({"trees": (PlannedTree("a", tuple((a, b) for a, b, _ in RING.links)),)}, "cycle over the link c–d"),
        ({"one_copy": "dearest"}, "no rule 'dearest'"),
        ({"groups": {("z", b"A"): 0}}, "broker 'z'"),
        ({"groups": {("a", b"A"): 2}}, "tree 2 and has 2"),
        ({"home": {"a": -1}}, "tree -1"),
        ({"home": {"a": True}}, "tree True"),
        ({"aggregation": ({"broker": "y", "tree": 0},)}, "broker 'y'"),
    ],
)
def test_what_cannot_be_used_is_no_plan(change: dict[str, Any], said: str) -> None:
    assert said in refusal(lambda: replace(RING, **change))


def test_a_plan_of_one_broker() -> None:
    alone = Plan("single", 1, ("a",), (), (PlannedTree("a", ()),))
    assert Plan.decode(alone.encode()) == alone


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"format": NaN}', "not JSON"),
        (b"[]", "its format is not covey-plan"),
        (b'{"format": "covey-lab"}', "its format is not covey-plan"),
        (b'{"format": "covey-plan", "version": "1"}', "version is '1'"),
        (b'{"format": "covey-plan", "version": 0}', "version is 0"),
        (b'{"format": "covey-plan", "version": %d}' % (VERSION + 1), "a newer Covey"),
        (b'{"format": "covey-plan", "version": 1}', "damaged"),
        (b'{"format": "covey-plan", "version": 1, "plan": {"a": "\\ud800"}}', "cannot be written"),
    ],
)
def test_other_files_are_refused(data: bytes, said: str) -> None:
    assert said in refusal(lambda: Plan.decode(data))


def test_a_file_may_be_too_large() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return MOST_BYTES + 1

    assert "not read" in refusal(lambda: Plan.decode(Large()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 1.5),
        ("method", None),
        ("brokers", [1, 2]),
        ("brokers", None),
        ("links", [["a", "b"]]),
        ("links", [["a", "b", "much"]]),
        ("links", [[["a"], "b", 1]]),
        ("trees", [{"root": "a", "links": [99]}]),
        ("trees", [{"root": "a", "links": [-1]}]),
        ("trees", [{"root": ["a"], "links": []}]),
        ("trees", [{"links": []}]),
        ("groups", {"a": {"not base64!": 0}}),
        ("groups", {"a": 3}),
        ("groups", {"a": {"QQ==": "0"}}),
        ("home", []),
        ("aggregation", [1]),
        ("aggregation", [{"broker": {}}]),
        ("predictions", {"x": {"cost": "y"}}),
        ("predictions", {"x": None}),
        ("basis", None),
        ("one_copy", []),
        ("witnesses", [1]),
        ("witnesses", [{"publisher": "a", "language": "attributes", "content": "{}"}]),
        ("witnesses", [{"publisher": "a", "language": "attributes", "content": "{}", "wanted": {"x": []}}]),
        ("witnesses", [{"publisher": "a", "language": "attributes", "content": {}, "wanted": {}}]),
    ],
)
def test_a_wrong_part_with_a_right_checksum_is_refused(name: str, value: Any) -> None:
    file = json.loads(RING.encode())
    plans = [{**file["plan"], name: value}]
    if name != "witnesses":  # plans of before have none
        plans.append({key: file["plan"][key] for key in file["plan"] if key != name})
    for plan in plans:
        changed = json.dumps({**file, "plan": plan, "checksum": _checksum(plan)}).encode()
        refusal(lambda: Plan.decode(changed))  # noqa: B023 - called at once


def test_a_plan_from_before_there_were_witnesses_is_read() -> None:
    file = json.loads(RING.encode())
    plan = {key: value for key, value in file["plan"].items() if key != "witnesses"}
    old = json.dumps({**file, "plan": plan, "checksum": _checksum(plan)}).encode()
    assert Plan.decode(old) == RING


def test_numbers_that_json_has_not_cannot_be_written() -> None:
    assert "cannot be written" in refusal(replace(RING, predictions={"x": {"cost": float("inf")}}).encode)
    assert "cannot be written" in refusal(replace(RING, basis={"x": b""}).encode)


# -- at random -------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
).filter(lambda value: "\\ud" not in json.dumps(value))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    brokers = sorted(draw(st.sets(NAMES, min_size=1, max_size=6)))
    costs = st.floats(1e-3, 1e3) | st.integers(1, 5)
    links: dict[tuple[str, str], float] = {}
    trees = []
    for _ in range(draw(st.integers(1, 3))):  # each tree hangs every broker on one before it
        order = draw(st.permutations(brokers))
        mine = [
            tuple(sorted((broker, draw(st.sampled_from(order[:place])))))
            for place, broker in enumerate(order)
            if place
        ]
        trees.append(PlannedTree(draw(st.sampled_from(brokers)), tuple(sorted(mine))))  # type: ignore[arg-type]
        for link in mine:
            links.setdefault(link, draw(costs))  # type: ignore[arg-type]
    numbers = st.integers(0, len(trees) - 1)
    floats = st.floats(allow_nan=False, allow_infinity=False)
    return Plan(
        draw(NAMES),
        draw(st.integers(0, 1 << 70)),
        tuple(brokers),
        tuple((a, b, cost) for (a, b), cost in sorted(links.items())),
        tuple(trees),
        draw(st.sampled_from([None, "nearest"])),
        draw(
            st.dictionaries(st.tuples(st.sampled_from(brokers), st.binary(max_size=6)), numbers, max_size=5)
        ),
        draw(st.dictionaries(st.sampled_from(brokers), numbers)),
        draw(st.lists(st.builds(dict, tree=numbers, more=VALUES), max_size=2).map(tuple)),
        draw(st.dictionaries(NAMES, st.dictionaries(NAMES, floats, max_size=3), max_size=3)),
        draw(st.dictionaries(NAMES, VALUES, max_size=3)),
        draw(st.lists(witnesses(brokers, len(trees)), max_size=2).map(tuple)),
    )


def witnesses(brokers: list[str], trees: int) -> st.SearchStrategy[Witness]:
    broker = st.sampled_from(brokers)
    wanted = st.dictionaries(st.integers(0, trees - 1), st.lists(broker, max_size=3).map(tuple), max_size=3)
    contents = st.sampled_from([("attributes", '{"é": 1}'), ("keywords", '["a"]'), ("xpath", "<a/>")])
    return st.builds(
        lambda one, content, who: Witness(one, content[0], content[1], who), broker, contents, wanted
    )


@given(plans())
@settings(max_examples=60, deadline=None)
def test_any_plan_comes_back(plan: Plan) -> None:
    data = plan.encode()
    back = Plan.decode(data)
    assert back == plan
    assert back.encode() == data


@given(plans(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_is_refused_or_says_the_same(plan: Plan, data: st.DataObject) -> None:
    file = bytearray(plan.encode())
    place = data.draw(st.integers(0, len(file) - 2))
    assert refusal(lambda: Plan.decode(bytes(file[:place])))
    file[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert Plan.decode(bytes(file)).encode() == plan.encode()
    except PlanError as error:
        assert "\n" not in str(error)


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_refused(data: bytes) -> None:
    refusal(lambda: Plan.decode(data))


def test_backups_are_in_the_file_and_are_checked() -> None:
    links = (("a", "b", 1.0), ("a", "c", 1.0), ("b", "c", 1.0))
    one, other = (("a", "b"), ("a", "c")), (("a", "c"), ("b", "c"))
    plan = Plan("single", 1, ("a", "b", "c"), links, (PlannedTree("a", one),))
    assert b"backups" not in plan.encode(), "older programs read it"
    spare = replace(plan, backups=(PlannedTree("c", other),))
    assert Plan.decode(spare.encode()) == spare
    with pytest.raises(PlanError, match="does not span"):
        replace(plan, backups=(PlannedTree("c", other[:1]),))
