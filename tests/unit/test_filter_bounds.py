"""Filters of clients have a cost: what is refused, what it is told, and what is free again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.oracles.cores import Client, Machine
from tests.oracles.faults import Line

from covey.bench.heavy_filters import FAMILIES, many_ranges, patterns, plain, sets, words
from covey.broker import effects
from covey.broker.config import BrokerConfig
from covey.broker.introspection import Introspection, Page, linkz, storez
from covey.core import costs
from covey.core.costs import SHORT, Cost, cost_of
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import FilterError
from covey.protocol.control import (
    AdvertiseRequest,
    ReplaceRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)

SMALL = parse("topic = 1").encode()
EACH = cost_of(SMALL).bytes


def machine_with(**settings: Any) -> Machine:
    """Return a broker with a disk and these settings, which it has taken while it ran."""
    machine = Line("a", 1).machines["a"]
    config = replace(machine.config, **settings)
    machine.give(effects.Configured(config, machine.core.security))
    return machine


def settle(machine: Machine) -> None:
    """Let the log answer."""
    assert machine.log is not None
    while not machine.log.is_idle:
        machine.commit()


class Asker(Client):
    """A client whose requests return what they were answered."""

    def try_to(self, kind: type, *rest: object) -> str:
        request = self.ask(kind, *rest)
        settle(self.machine)
        return self.replies[request].error

    def subscribe_to(self, filter: bytes, durable: str = "") -> str:
        self.sids += 1
        return self.try_to(SubscribeRequest, self.sids, filter, durable)


def test_a_filter_that_costs_too_much_is_refused_and_the_client_stays() -> None:
    machine = machine_with(max_filter_cost=1_000)
    client = Asker(machine, "me")
    data = words(1).encode()
    said = client.subscribe_to(data)
    assert f"costs {cost_of(data, 1_000).units:,.0f} units or more" in said
    assert "max_filter_cost is 1,000 here" in said
    assert client.try_to(AdvertiseRequest, 1, data) == said
    assert client.subscribe_to(data, "mine") == said
    assert client.subscribe_to(SMALL) == ""
    assert client.try_to(ReplaceRequest, client.sids, data) == said
    assert client.is_open
    assert client.session.bytes == EACH, "what is refused takes nothing"
    assert client.session.refused == 4


@pytest.mark.parametrize("most", [0, 100, 1_000, 7_000, 10_000, 1 << 40])
@pytest.mark.parametrize("filter", [patterns(0), patterns(0, 1), sets(0, 60), many_ranges(0)])
def test_a_filter_is_judged_until_it_costs_too_much(
    monkeypatch: pytest.MonkeyPatch, filter: Filter, most: int
) -> None:
    data = filter.encode()
    whole, judged = cost_of(data), 0

    def counted(*given: Any) -> Cost:
        nonlocal judged
        judged += 1
        return of_conjunction(*given)

    of_conjunction = costs._of_conjunction
    monkeypatch.setattr(costs, "_of_conjunction", counted)
    found = cost_of(data, most)
    monkeypatch.setattr(costs, "_decode", lambda data: pytest.fail("its length says enough"))
    assert cost_of(data, 0.05 * len(data)).units > 0.05 * len(data)
    count = len(msgspec.msgpack.decode(data[1:]))
    if whole.units <= most:
        assert (found, judged) == (whole, count)
    else:
        assert most < found.units <= whole.units
        assert judged < count, "the rest is not looked at"


def test_the_memory_of_all_filters_of_a_client_is_bounded() -> None:
    machine = machine_with(max_client_bytes=3 * EACH)
    client, other = Asker(machine, "me"), Asker(machine, "you")
    assert client.subscribe_to(SMALL) == ""
    assert client.subscribe_to(SMALL, "mine") == ""
    assert client.try_to(AdvertiseRequest, 1, SMALL) == ""
    for said in (
        client.subscribe_to(SMALL),
        client.subscribe_to(SMALL, "also mine"),
        client.try_to(AdvertiseRequest, 2, SMALL),
    ):
        assert f"takes {EACH:,} bytes" in said
        assert f"{4 * EACH:,}: max_client_bytes is {3 * EACH:,} here" in said
    assert client.try_to(ReplaceRequest, 1, parse("topic = 2").encode()) == "", "as large as what it replaces"
    assert client.try_to(ReplaceRequest, 2, parse("topic = 2").encode()) == "", "a durable one too"
    assert "max_client_bytes" in client.try_to(ReplaceRequest, 1, parse("topic = 200").encode())
    assert "max_client_bytes" in client.try_to(ReplaceRequest, 2, parse("topic = 200").encode())
    assert other.subscribe_to(SMALL) == "", "another client has bounds of its own"


def test_what_ends_is_free_again() -> None:
    machine = machine_with(max_client_bytes=EACH)
    client = Asker(machine, "me")
    for _ in range(3):
        assert client.subscribe_to(SMALL) == ""
        assert client.subscribe_to(SMALL) != ""
        assert client.try_to(UnsubscribeRequest, client.sids - 1, False) == ""
        assert client.try_to(AdvertiseRequest, 1, SMALL) == ""
        assert client.subscribe_to(SMALL) != ""
        assert client.try_to(UnadvertiseRequest, 1) == ""
        assert client.subscribe_to(SMALL, "mine") == ""
        assert client.try_to(UnsubscribeRequest, client.sids, True) == ""
    assert client.session.bytes == 0
    assert client.session.costs == {}
    assert machine.durable.filter_bytes("", "me") == 0


def test_durable_subscriptions_count_for_their_name_also_after_the_client_or_the_broker_was_away() -> None:
    machine = machine_with(max_client_bytes=2 * EACH)
    client = Asker(machine, "me")
    assert client.subscribe_to(SMALL, "mine") == ""
    assert client.subscribe_to(SMALL) == ""
    client.leave()
    again = Asker(machine, "me")
    assert again.session.bytes == 0, "what was not durable is gone"
    assert again.subscribe_to(SMALL) == ""
    assert "max_client_bytes" in again.subscribe_to(SMALL)
    assert again.subscribe_to(SMALL, "mine") == "", "it is there already"
    assert again.is_open
    nobody = Asker(machine)
    assert nobody.subscribe_to(SMALL) == nobody.subscribe_to(SMALL) == ""
    machine.net.kill("a")
    machine.net.start("a")
    assert machine.durable.filter_bytes("", "me") == EACH


def test_a_revoked_subscription_takes_nothing_any_longer() -> None:
    machine = machine_with()
    client = Asker(machine, "me")
    client.subscribe_to(SMALL)
    client.try_to(AdvertiseRequest, 1, SMALL)
    session = client.session
    assert session.bytes == 2 * EACH
    machine.do(machine.core.sessions.revoke(lambda name: None))
    assert session.bytes == 0


def test_pages_show_what_filters_take() -> None:
    machine = machine_with()
    client = Asker(machine, "me")
    client.subscribe_to(SMALL)
    client.subscribe_to(SMALL, "mine")
    view = Introspection.__new__(Introspection)
    view.core = machine.core
    rows = [row for row in linkz(view, Page())["rows"] if row["kind"] == "client"]
    assert [row["filter_bytes"] for row in rows] == [2 * EACH]
    assert [row["filter_bytes"] for row in storez(view, Page())["rows"]] == [EACH]


def test_a_hundred_thousand_ordinary_subscriptions_fit_and_heavy_filters_are_told_apart() -> None:
    config = BrokerConfig("a")
    ordinary = max(cost_of(plain(number).encode()).bytes for number in range(0, 100_000, 997))
    assert config.max_subscriptions * ordinary <= config.max_client_bytes
    assert cost_of(words(1).encode()).units <= config.max_filter_cost
    assert cost_of(patterns(1).encode()).units > config.max_filter_cost
    assert cost_of(patterns(1).encode()).units > 5 * cost_of(words(1).encode()).units


@pytest.mark.parametrize("family", FAMILIES)
def test_more_of_a_filter_never_costs_less(family: str) -> None:
    cost = cost_of(FAMILIES[family](1).encode())
    least = cost_of(SMALL)
    assert cost.bytes >= least.bytes
    assert cost.units >= least.units
    assert cost.plus(least).minus(cost).bytes == least.bytes


def test_bytes_that_are_no_filter_have_no_cost() -> None:
    for data in (b"A" + b"\xc1" * SHORT, b"A" + b"\x81" * SHORT, b"A\x00" + b"." * SHORT):
        with pytest.raises(FilterError, match="damaged"):
            cost_of(data)
