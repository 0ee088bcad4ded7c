"""Links that fail: noticed within a lease, interest kept or moved, and everything as before once they are back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually, punctuality, run
from tests.e2e.helpers.traffic import Traffic, some_filter

LINE = [("a", "b"), ("b", "c"), ("c", "d")]
RING = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
LINE_OF_RING = [("a", "b"), ("b", "c"), ("a", "d")]  # its tree, while all is well
LEASE_S = 0.8


@asynccontextmanager
async def line(name: str) -> AsyncIterator[tuple[Live, Traffic]]:
    """A line of brokers with clients at all of them, where the link b–c can be harmed."""
    random = Random(name)
    async with (
        Live(LINE, proxied=[("b", "c")], lease_s=LEASE_S) as net,
        Traffic(net.client, random) as traffic,
    ):
        await traffic.populate(net.names)
        yield net, traffic


async def ended_and_back(net: Live, harm: Callable[[], None]) -> None:
    """Harm the link b–c; return once it has ended, was dialled again and is in use."""
    accepted = net.proxies["b", "c"].accepted
    harm()
    await eventually(lambda: net.proxies["b", "c"].accepted > accepted)
    await net.linked()


@pytest.mark.parametrize("strategy", ["covering", "merging", "xroute", "incremental", "match-first"])
def test_a_cut_link_keeps_its_interest_and_comes_back(strategy: str) -> None:
    random = Random(f"cut {strategy}")

    async def main() -> None:
        async with (
            Live(LINE, proxied=[("b", "c")], lease_s=LEASE_S, strategy=strategy) as net,
            Traffic(net.client, random) as traffic,
        ):
            await traffic.populate(net.names)
            before = net.tables()
            net.proxies["b", "c"].cut()
            await eventually(lambda: "c" not in net.open_links("b") and "b" not in net.open_links("c"))
            assert net.tables() == before
            await traffic.flush()  # is answered by those who are there
            late = await traffic.add_consumer("d", [some_filter(random)])  # said while the link is cut
            await traffic.flush()
            net.proxies["b", "c"].heal()
            await net.linked()
            await traffic.judge_anew()
            await late.stop()
            traffic.consumers.remove(late)
            await late.client.flush()
            assert net.tables() == before

    run(main())


@pytest.mark.parametrize("strategy", ["covering", "merging-imperfect", "xroute-sets", "incremental"])
def test_with_a_redundant_link_traffic_moves_and_comes_back(strategy: str) -> None:
    random = Random(f"ring {strategy}")

    async def main() -> None:
        async with (
            Live(
                RING, proxied=[("b", "c")], lease_s=LEASE_S, strategy=strategy, waits_for=LINE_OF_RING
            ) as net,
            Traffic(net.client, random) as traffic,
        ):
            await traffic.populate(net.names)
            assert net.open_links("d") == {"a"}  # c–d is the link that is not needed
            before = net.tables()
            net.proxies["b", "c"].cut()
            await net.linked([("a", "b"), ("a", "d"), ("c", "d")], 4 * LEASE_S)
            assert net.open_links("b") == {"a"}
            await traffic.judge_anew()
            net.proxies["b", "c"].heal()
            await net.linked(LINE_OF_RING)
            await eventually(lambda: net.open_links("d") == {"a"})
            await traffic.flush()
            assert net.tables() == before
            await traffic.judge_anew()

    run(main())


def test_priorities_choose_the_tree() -> None:
    async def main() -> None:
        async with Live(
            RING, priorities={("a", "b"): 9}, waits_for=[("b", "c"), ("c", "d"), ("a", "d")]
        ) as net:
            assert net.open_links("a") == {"d"}

    run(main())


@pytest.mark.parametrize("redundant", [False, True])
def test_a_half_open_link_is_noticed_within_a_lease(redundant: bool) -> None:
    random = Random("half open")
    links = RING if redundant else LINE

    async def main() -> None:
        loop = asyncio.get_running_loop()
        waits_for = LINE_OF_RING if redundant else LINE
        async with (
            Live(links, proxied=[("b", "c")], lease_s=LEASE_S, waits_for=waits_for) as net,
            Traffic(net.client, random) as traffic,
        ):
            await traffic.populate(net.names)
            proxy = net.proxies["b", "c"]
            proxy.stall()
            began_s = loop.time()
            async with punctuality() as machine:
                await eventually(lambda: "c" not in net.open_links("b") and "b" not in net.open_links("c"))
            assert loop.time() - began_s < LEASE_S + 0.3 or not machine.is_good
            if redundant:
                await net.linked([("a", "b"), ("a", "d"), ("c", "d")])
                await traffic.judge_anew()
            proxy.heal()
            await net.linked(waits_for)
            await traffic.judge_anew()

    run(main())


def test_a_half_closed_link_ends_and_comes_back() -> None:
    async def main() -> None:
        async with line("half closed") as (net, traffic):
            await ended_and_back(net, net.proxies["b", "c"].half_close)
            await traffic.judge_anew()

    run(main())


def test_garbage_on_a_link_ends_it_and_it_comes_back() -> None:
    async def main() -> None:
        async with line("garbage") as (net, traffic):
            for garbage in (b"\xff" * 64, b"\x05\x00\x00\x00\x10abcd", b"\x02\x00\x00\x00\x11\x00"):
                await ended_and_back(net, partial(net.proxies["b", "c"].corrupt, garbage))
            await traffic.judge_anew()

    run(main())


def test_who_is_away_for_too_long_is_given_up() -> None:
    async def main() -> None:
        async with (
            Live([("a", "b")], proxied=[("a", "b")], lease_s=LEASE_S, forget_after_s=0.5) as net,
            net.client("a") as client,
            net.client("b") as other,
            other.subscribe("x = 1"),
        ):
            await client.advertise("x = 1")
            await other.flush()
            assert net.tables()["a"] == [("b", "x = 1")]
            net.proxies["a", "b"].cut()
            await eventually(lambda: not net.open_links("a"))
            assert net.tables()["a"] == [("b", "x = 1")]
            await eventually(lambda: not net.tables()["a"], 2.0)

    run(main())


def test_both_ends_may_dial() -> None:
    async def main() -> None:
        async with Live([("a", "b")], lease_s=LEASE_S) as net:
            link = net.configs["a"].links[0]
            both = type(link)(link.name, "127.0.0.1", net.ports["b"])
            await net.stop("a")
            net.configs["a"] = type(net.configs["a"])(
                "a", port=net.ports["a"], links=(both,), lease_s=LEASE_S
            )
            await net.start("a")
            await net.linked()
            connection = net.brokers["a"].core.peer_at("b")
            await asyncio.sleep(1.0)
            await net.linked()
            assert net.brokers["a"].core.peer_at("b") is connection

    run(main())
