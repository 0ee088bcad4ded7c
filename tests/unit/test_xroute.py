"""XROUTE message by message: the smallest examples on which the printed protocol fails, and what brokers refuse."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.oracles.bit_filters import ALL, EVENTS, bits, name
from tests.oracles.xroute_checks import check_empty, check_instances, check_rest, strategy_of

import covey
from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.routing.digest import Fact
from covey.routing.messages import Change, Message, Subscribe, Triple, Unsubscribe, Update
from covey.sim import Network

# P has the producer, N is in between, C1 and C2 have consumers.
FORK = [("P", "N"), ("N", "C1"), ("N", "C2")]
LINE = [("P", "C")]
EVERYTHING = bits("111")

Shown = tuple[str, int, int]


class Wire:
    """A network with one producer, settled after every step; `said` has what went over each link since `listen`."""

    def __init__(self, links: Sequence[tuple[str, str]], strategy: str = "xroute") -> None:
        self.net = Network(links, strategy)
        self.net.advertise("P", EVERYTHING)
        self.net.settle()
        self.net.observer = self._note
        self.said: dict[tuple[str, str], list[list[Shown]]] = {}
        self.held: dict[tuple[str, str], list[object]] = {}

    def _note(self, sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Update):
            shown = [(name(t.filter), t.own, t.others) for t in message.triples]
            self.said.setdefault((sender, receiver), []).append(shown)

    def play(self, text: str) -> Wire:
        """Carry out "C1: 110; C1: -110": a filter appears at a broker, or with a minus goes from there."""
        for step in text.split(";"):
            broker, sign = (part.strip() for part in step.split(":"))
            handles = self.held.setdefault((broker, sign.lstrip("-")), [])
            self.said.clear()
            if sign.startswith("-"):
                self.net.unsubscribe(handles.pop())  # type: ignore[arg-type]
            else:
                handles.append(self.net.subscribe(broker, ALL[sign]))
            self.net.settle()
            check_instances(self.net)
            check_rest(self.net, EVENTS)
        return self

    def told(self, broker: str, link: str) -> dict[str, tuple[int, ...]]:
        """Return what a broker lets a neighbour know: counts by filter."""
        return {name(fact.filter): fact.counts for fact in strategy_of(self.net, broker).told(link)}

    def below(self, broker: str, link: str) -> dict[str, str]:
        """Return which entry is below which."""
        entries = strategy_of(self.net, broker).instances[link].entries.values()
        return {name(entry.filter): name(entry.above.filter) for entry in entries if entry.above}


def test_d1_a_new_filter_is_told_as_such() -> None:
    assert Wire(LINE).play("C: 100").said == {("C", "P"): [[("100", 1, 0)]]}


def test_d2_a_filter_represents_what_its_link_had_below_it() -> None:
    wire = Wire(LINE).play("C: 100; C: 101")
    assert wire.said == {("C", "P"): [[("101", 1, 0)]]}
    assert wire.told("C", "P") == {"101": (1, 1)}  # the checks compare it with what P has


def test_d3_what_a_filter_from_elsewhere_substituted_is_told_when_that_goes() -> None:
    wire = Wire(FORK).play("C1: 001; C2: 011; C2: -011")
    assert wire.said == {("C2", "N"): [[("011", -1, 0)]], ("N", "P"): [[("011", -1, 0), ("001", 1, 0)]]}


def test_d3_a_filter_that_is_gone_swallows_nothing() -> None:
    assert Wire(LINE).play("C: 111; C: -111; C: 101").told("C", "P") == {"101": (1, 0)}


def test_d4_what_is_below_an_entry_that_is_dropped_stays_below_the_next() -> None:
    wire = Wire([("P", "N"), ("N", "A"), ("N", "B")]).play("B: 010; A: 011; A: 111")
    assert wire.below("N", "P") == {"010": "111"}
    assert wire.told("N", "P") == {"111": (1, 2)}


def test_d5_an_entry_that_was_substituted_before_counts_in_full() -> None:
    assert Wire(LINE).play("C: 110; C: 100; C: -110; C: 111").told("C", "P") == {"111": (1, 1)}


def test_d5_nothing_is_lost_when_filters_are_substituted_twice() -> None:
    wire = Wire(LINE).play("C: 111; C: 110; C: 100; C: -111; C: -100")
    assert wire.told("C", "P") == {"110": (1, 0)}


def test_d6_a_freed_entry_that_falls_below_another_top_is_counted_there() -> None:
    wire = Wire(LINE).play("C: 101; C: 001; C: 011; C: -101")
    assert wire.said == {("C", "P"): [[("101", -1, 0), ("011", 0, 1)]]}
    assert wire.play("C: -001").said == {("C", "P"): [[("011", 0, -1)]]}


def test_d7_others_that_go_with_a_filter_are_counted_before_it_is_cleared() -> None:
    wire = Wire(FORK).play("C1: 100; C1: 110; C2: 111; C1: -110")
    assert wire.said == {("C1", "N"): [[("110", -1, 0), ("100", 1, 0)]], ("N", "P"): [[("111", 0, -1)]]}


def test_d8_what_comes_instead_below_another_top_is_told_too() -> None:
    wire = Wire(FORK).play("C2: 110; C2: 100; C2: 101; C1: 110; C2: -110")
    assert wire.said == {
        ("C2", "N"): [[("110", -1, 0), ("101", 0, 1)]],
        ("N", "P"): [[("110", -1, -1), ("101", 0, 1)]],
    }


def test_d9_triples_that_follow_a_registration_go_all_the_way() -> None:
    wire = Wire([("P", "M"), ("M", "N"), ("N", "C1"), ("N", "C2")]).play("C2: 001; C1: 101; C2: 011")
    up = [[("011", 1, 1), ("101", 0, -1)]]
    assert wire.said == {("C2", "N"): [[("011", 1, 0)]], ("N", "M"): up, ("M", "P"): up}


def test_a_filter_held_twice_is_counted_and_goes_with_the_last() -> None:
    wire = Wire(LINE).play("C: 110; C: 100; C: 110; C: 110")
    assert wire.told("C", "P") == {"110": (3, 1)}
    assert wire.play("C: -110").said == {("C", "P"): [[("110", -1, 0)]]}
    assert wire.play("C: -110; C: -110").said == {("C", "P"): [[("110", -1, 0), ("100", 1, 0)]]}
    wire.play("C: -100")
    check_empty(wire.net)


def test_one_client_may_hold_a_filter_twice() -> None:
    net = Network(LINE, "xroute", advertisements=False)
    one, two = (net.subscribe("C", ALL["110"], client="twice") for _ in range(2))
    net.settle()
    assert [fact.counts for fact in strategy_of(net, "P").heard("C")] == [(2, 0)]
    net.unsubscribe(one)
    net.settle()
    net.publish("P", EVENTS[0])
    net.settle()
    assert net.deliveries == [(two, EVENTS[0])]


# -- advertisements ----------------------------------------------------------------------------------------------


@pytest.fixture
def unannounced() -> Network:
    """Three brokers in a line with filters at one end and no producer yet."""
    net = Network([("P", "N"), ("N", "C")], "xroute")
    for text in ("110", "100", "010", "001", "001"):
        net.subscribe("C", ALL[text])
    net.settle()
    return net


def heard(net: Network, broker: str, link: str) -> dict[str, tuple[int, ...]]:
    return {name(fact.filter): fact.counts for fact in strategy_of(net, broker).heard(link)}


def test_without_a_producer_nothing_is_told(unannounced: Network) -> None:
    assert unannounced.counters["control_messages"] == 0


def test_an_advertisement_draws_what_overlaps_it_the_largest_first(unannounced: Network) -> None:
    said: list[list[Shown]] = []
    unannounced.observer = lambda sender, receiver, message: (
        said.append([(name(t.filter), t.own, t.others) for t in message.triples])
        if isinstance(message, Update) and receiver == "N"
        else None
    )
    unannounced.advertise("P", ALL["100"])
    unannounced.settle()
    assert said == [[("110", 1, 0)], [("110", 0, 1)]]  # the second stands for 100; 010 and 001 are not wanted
    unannounced.advertise("P", ALL["011"])
    unannounced.settle()
    assert said[2:] == [[("110", 0, 1)], [("001", 2, 0)]]
    assert heard(unannounced, "P", "N") == {"110": (1, 2), "001": (2, 0)}
    check_rest(unannounced, EVENTS)


def test_what_is_wanted_no_more_leaves(unannounced: Network) -> None:
    kept = unannounced.advertise("P", ALL["100"])
    gone = unannounced.advertise("P", ALL["011"])
    unannounced.settle()
    unannounced.clear_counters()
    unannounced.unadvertise(gone)
    unannounced.settle()
    assert heard(unannounced, "P", "N") == {"110": (1, 1)}  # 010 is taken from its count, 001 cancelled
    check_rest(unannounced, EVENTS)
    unannounced.unadvertise(kept)
    unannounced.settle()
    assert unannounced.tables == {"P": [], "N": [], "C": []}
    check_instances(unannounced)


def test_a_filter_stands_for_others_even_towards_producers_that_those_are_not_addressed_to() -> None:
    """010 is told to nobody but counted with 110, which the producer at the far end gets with that count."""
    net = Network([("P", "N"), ("N", "Q"), ("N", "C")], "xroute")
    net.advertise("P", ALL["100"])
    net.advertise("Q", ALL["010"])
    broad = net.subscribe("C", ALL["110"])
    net.subscribe("C", ALL["010"])
    net.settle()
    assert heard(net, "P", "N") == heard(net, "Q", "N") == {"110": (1, 1)}
    net.unsubscribe(broad)
    net.settle()
    assert heard(net, "P", "N") == {}
    assert heard(net, "Q", "N") == {"010": (1, 0)}
    check_rest(net, EVENTS)


# -- links -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["xroute", "xroute-sets"])
def test_a_link_that_comes_back_says_again_what_it_said(strategy: str) -> None:
    net = Network(FORK, strategy)
    net.advertise("P", EVERYTHING)
    for broker, text in (("C1", "110"), ("C2", "100"), ("C2", "011"), ("P", "111"), ("C1", "110")):
        net.subscribe(broker, ALL[text])
    net.settle()
    tables = {broker: set(entries) for broker, entries in net.tables.items()}
    for a, b in FORK:
        net.link_down(a, b)
        net.settle()
        net.link_up(a, b)
        net.settle()
        check_instances(net)
        check_rest(net, EVENTS)
    assert {broker: set(entries) for broker, entries in net.tables.items()} == tables


def test_a_broker_that_crashed_learns_everything_anew() -> None:
    net = Network(FORK, "xroute", advertisements=False)
    for broker, text in (("C1", "110"), ("C2", "100"), ("N", "001"), ("P", "011")):
        net.subscribe(broker, ALL[text])
    net.settle()
    net.crash("N")
    net.settle()
    net.restart("N")
    net.settle()
    check_instances(net)
    check_rest(net, EVENTS)


# -- what is refused ---------------------------------------------------------------------------------------------

A, B, C = ALL["110"], ALL["100"], ALL["001"]


@pytest.mark.parametrize(
    ("triples", "complaint"),
    [
        ([Triple(C, 0, 1)], "was not told"),
        ([Triple(C, -1, 0)], "was not told"),
        ([Triple(A, -3, 0)], r"counted \(-1; 1\)"),
        ([Triple(A, 0, -2)], r"counted \(2; -1\)"),
        ([Triple(A, 1, 0), Triple(A, -3, 0)], r"counted \(0; 1\)"),
        ([Triple(C, 1, -1)], r"counted \(1; -1\)"),
        ([Triple(C, 1, 0), Triple(B, 0, 1)], "was not told"),
        ([Triple(A, -2, 0), Triple(A, 1, 0)], "was not told"),
        ([Triple(A, -2, 0), Triple(B, 0, 1)], "was not told"),
        ([Triple(ALL["111"], 1, 0), Triple(A, 0, 1)], "was not told"),
    ],
)
def test_counts_that_cannot_be_are_refused_before_anything_changes(
    triples: list[Triple], complaint: str
) -> None:
    net = Network(FORK, "xroute", advertisements=False)
    for text in ("110", "110", "100"):
        net.subscribe("C1", ALL[text])
    net.settle()
    strategy = strategy_of(net, "N")
    before = strategy.heard("C1"), strategy.told("P"), strategy.told("C2")
    with pytest.raises(ProtocolError, match=complaint):
        strategy.receive("C1", Update(tuple(triples)))
    assert (strategy.heard("C1"), strategy.told("P"), strategy.told("C2")) == before
    check_instances(net)


@pytest.mark.parametrize("strategy", ["xroute", "xroute-sets"])
@pytest.mark.parametrize("message", [Subscribe("k", A), Unsubscribe("k"), Change((), (A,)), Update(())])
def test_messages_of_other_dialects_are_refused(strategy: str, message: Message) -> None:
    own = {"xroute": Update, "xroute-sets": Change}[strategy]
    router = Network(LINE, strategy).nodes["P"].router
    if isinstance(message, own):
        router.handle(message, "C")
    else:
        with pytest.raises(ProtocolError, match=f"routes by {strategy}, was sent {type(message).__name__}"):
            router.handle(message, "C")


def test_facts_need_counts() -> None:
    strategy = strategy_of(Network(LINE, "xroute"), "P")
    with pytest.raises(ProtocolError, match="has no counts"):
        strategy.learn("C", [Fact("", A)])
    with pytest.raises(ProtocolError, match="was not told"):
        strategy.learn("C", [Fact("", A, counts=(0, 1))])


# -- the set-based form ------------------------------------------------------------------------------------------


def changes(play: Sequence[tuple[str, str]]) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """Return what is said while filters come ("C1", "110") and go ("C1", "-110"), of the last step."""
    net = Network(FORK, "xroute-sets")
    net.advertise("P", EVERYTHING)
    handles: dict[tuple[str, str], object] = {}
    said: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = []

    def note(sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Change):
            parts = (tuple(map(name, filters)) for filters in (message.removed, message.added))
            said.append((sender, receiver, *parts))  # type: ignore[arg-type]

    net.settle()
    net.observer = note
    for broker, sign in play:
        said.clear()
        if sign.startswith("-"):
            net.unsubscribe(handles.pop((broker, sign[1:])))  # type: ignore[arg-type]
        else:
            handles[broker, sign] = net.subscribe(broker, ALL[sign])
        net.settle()
        check_instances(net)
        check_rest(net, EVENTS)
    return said


def test_sets_say_what_is_new_and_not_what_it_covers() -> None:
    assert changes([("C1", "110"), ("C1", "111")]) == [("C1", "N", (), ("111",)), ("N", "P", (), ("111",))]


def test_sets_stop_where_nothing_changes() -> None:
    assert changes([("C1", "110"), ("C2", "100")]) == [("C2", "N", (), ("100",))]
    assert changes([("C1", "110"), ("C1", "100")]) == []
    assert changes([("C1", "110"), ("C2", "110"), ("C2", "-110")]) == [("C2", "N", ("110",), ())]


def test_sets_say_in_one_message_what_goes_and_what_comes_instead() -> None:
    said = changes([("C1", "100"), ("C2", "010"), ("C2", "110"), ("C2", "-110")])
    assert said == [("C2", "N", ("110",), ("010",)), ("N", "P", ("110",), ("100", "010"))]


# -- filters that cover each other -------------------------------------------------------------------------------

# One area, an L, cut into boxes in two ways; a box of it; a box around it.
TWINS: tuple[Filter, Filter] = (
    covey.parse("(x between 0 and 2 and y between 0 and 1) or (x between 0 and 1 and y between 0 and 2)"),
    covey.parse("(x between 0 and 2 and y between 0 and 1) or (x between 0 and 1 and y between 1 and 2)"),
)


@pytest.mark.parametrize("strategy", ["xroute", "xroute-sets"])
def test_of_filters_that_cover_each_other_one_is_told(strategy: str) -> None:
    one, two = TWINS
    assert one != two
    assert one.covers(two)
    assert two.covers(one)
    for first, second in ((one, two), (two, one)):
        net = Network(FORK, strategy, advertisements=False)
        handles = [net.subscribe("C1", first), net.subscribe("C2", second)]
        net.settle()
        told = min(TWINS, key=lambda filter: filter.encode())
        assert [fact.filter for fact in strategy_of(net, "P").heard("N")] == [told]
        check_instances(net)
        for handle in handles:
            net.unsubscribe(handle)
            net.settle()
            check_instances(net)
            check_rest(net, [{"x": 1, "y": 1}])
        check_empty(net)
