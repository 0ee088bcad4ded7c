"""Plans on a live network: installed while events flow, taken back, kept over a restart; samples for planning."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.pairs import admin_url
from tests.e2e.helpers.running import eventually, run

import covey
from covey import cli
from covey.broker import server
from covey.broker.config import AdminConfig
from covey.broker.plans import Step, keep_state
from covey.broker.security import hash_token
from covey.client.admin import Pages
from covey.client.client import Client
from covey.planning.aggregation.installed import PlannedBlock, PlannedMerging
from covey.planning.plan import Plan, PlannedTree
from covey.protocol.control import PlanState
from covey.strategies.aggregation import block_of

SQUARE = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
TREE = [("a", "b"), ("b", "c"), ("c", "d")]  # of the overlay, as the last link has the worst priority


def plan(one_copy: str | None = None) -> Plan:
    links = sorted(tuple(sorted(pair)) for pair in SQUARE)
    trees = (
        PlannedTree("d", (("a", "b"), ("a", "d"), ("c", "d"))),
        PlannedTree("b", (("a", "b"), ("b", "c"), ("c", "d"))),
    )
    return Plan(
        "mine",
        1,
        tuple("abcd"),
        tuple((a, b, 1.0) for a, b in links),
        trees,
        one_copy,
        home={} if one_copy else {"c": 1},
    )


def square(**settings: Any) -> Live:
    return Live(SQUARE, priorities={("d", "a"): 9}, waits_for=TREE, **settings)


async def collect(client: Client, text: str, into: list[int], ready: asyncio.Event) -> None:
    async with client.subscribe(text) as events:
        await client.flush()
        ready.set()
        async for event in events:
            into.append(event["n"])


@pytest.mark.parametrize("one_copy", [None, "nearest"])
def test_a_plan_goes_in_and_out_while_events_flow(one_copy: str | None) -> None:
    async def main() -> None:
        async with square() as net, AsyncExitStack() as stack:
            publisher = await stack.enter_async_context(net.client("a"))
            await publisher.advertise("n >= 0")
            got: dict[str, list[int]] = {name: [] for name in "bcd"}
            tasks = []
            for name, texts in (("b", "n >= 0"), ("c", "n >= 0"), ("d", "n >= 0 and even = true")):
                client = await stack.enter_async_context(net.client(name))
                ready = asyncio.Event()
                tasks.append(asyncio.create_task(collect(client, texts, got[name], ready)))
                await ready.wait()
            published = 0

            async def flow(until: Any) -> None:
                nonlocal published
                while not until():
                    for _ in range(5):
                        await publisher.publish({"n": published, "even": published % 2 == 0})
                        published += 1
                    await asyncio.sleep(0.002)

            installing = net.brokers["b"]
            await flow(lambda: published >= 50)
            installation = installing.install(plan(one_copy).encode(), grace_s=60.0)
            await flow(lambda: installation.step is Step.SWITCHED)
            more = published + 50
            await flow(lambda: published >= more)
            assert {broker.core.epochs.current for broker in net.brokers.values()} == {installation.epoch}
            routers = [broker.core.epochs.routers[installation.epoch] for broker in net.brokers.values()]
            assert any("a" in part.neighbours() for part in routers[3].trees.values()), "d uses its link to a"
            installing.roll_back()
            more = published + 50
            await flow(lambda: published >= more)
            everything = list(range(published))
            await eventually(lambda: len(got["b"]) >= published and len(got["c"]) >= published)
            await eventually(lambda: len(got["d"]) >= len(everything[::2]))
            await asyncio.sleep(0.1)  # for what should not come
            if one_copy is None:
                assert (got["b"], got["c"], got["d"]) == (everything, everything, everything[::2])
            assert [sorted(some) for some in got.values()] == [everything, everything, everything[::2]]
            assert {broker.core.epochs.current for broker in net.brokers.values()} == {0}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(main())


def test_a_plan_that_merges_filters_delivers_exactly_while_members_leave_and_come() -> None:
    low, high, boxed = "n < 1000000 and x < 5", "n < 1000000 and x >= 5", "n < 1000000 and x >= 3 and y < 4"
    inputs = [covey.parse(text) for text in (low, high, boxed)]
    judged = [{"n": 1, "x": x, "y": y} for x in range(10) for y in range(10)]
    forms = [tuple(one.encode() for one in some) for some in block_of(inputs, judged, 0.5)]
    assert len(forms[1]) == 1
    blocks = tuple(PlannedBlock(0, *pair, *forms) for pair in (("d", "a"), ("a", "b")))
    events = tuple(("attributes", json.dumps(event)) for event in judged)
    merged = replace(
        plan(),
        trees=(PlannedTree("b", (("a", "b"), ("a", "d"), ("b", "c"))),),
        home={},
        merging=PlannedMerging("mefa", blocks, 0.5, events),
    )

    async def main() -> None:
        async with square() as net, AsyncExitStack() as stack:
            publisher = await stack.enter_async_context(net.client("b"))
            await publisher.advertise("n >= 0")
            got: dict[str, list[int]] = {"d": [], "a": []}
            tasks = []
            for name, text in (("d", high), ("a", boxed)):
                client = await stack.enter_async_context(net.client(name))
                ready = asyncio.Event()
                tasks.append(asyncio.create_task(collect(client, text, got[name], ready)))
                await ready.wait()
            installation = net.brokers["b"].install(merged.encode(), grace_s=60.0)
            await eventually(lambda: installation.step is Step.SWITCHED)
            router = net.brokers["b"].core.epochs.routers[installation.epoch]
            published: list[dict[str, int]] = []

            def told() -> set[str]:
                return {str(fact.filter) for fact in router.trees[0].strategy.heard("a")}

            async def flow(count: int) -> None:
                for number in range(len(published), len(published) + count):
                    published.append({"n": number, "x": number % 10, "y": number // 10 % 10})
                    await publisher.publish(published[-1])
                    await asyncio.sleep(0)

            await flow(50)
            narrow = told()
            member = await stack.enter_async_context(net.client("d"))
            for _ in range(3):
                subscription = await member.subscribe(low)
                await member.flush()
                await eventually(lambda: told() != narrow)
                await flow(100)
                await subscription.unsubscribe()
                await flow(100)
                await eventually(lambda: told() == narrow)
            wanted = {
                name: [e["n"] for e in published if one.matches(e)]
                for name, one in zip("da", inputs[1:], strict=True)
            }
            await eventually(lambda: all(len(got[name]) >= len(wanted[name]) for name in wanted))
            await asyncio.sleep(0.1)  # for what should not come
            assert got == wanted
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(main())


def test_a_broker_that_was_away_learns_the_plan_and_keeps_it(tmp_path: Path) -> None:
    async def main() -> None:
        dirs = {name: {"data_dir": str(tmp_path / name)} for name in "abcd"}
        for name in "abcd":
            (tmp_path / name).mkdir()
        async with square(per_broker=dirs) as net:
            installation = net.brokers["a"].install(plan().encode())
            await eventually(lambda: installation.step is Step.SWITCHED)
            await net.stop("c")
            (tmp_path / "c" / "plans.bin").unlink()
            await net.start("c")
            await eventually(lambda: net.brokers["c"].core.epochs.current == installation.epoch)
            await net.stop("d")
            net.configs["d"] = replace(net.configs["d"], links=())  # from its disk, not from neighbours
            await net.start("d")
            assert net.brokers["d"].core.epochs.current == installation.epoch

    run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_plans_are_kept_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    threads: list[int] = []

    def keep(directory: Path, state: PlanState) -> None:
        threads.append(threading.get_ident())
        if fails:
            raise OSError(errno.ENOSPC, "no room")
        keep_state(directory, state)

    monkeypatch.setattr(server, "keep_state", keep)

    async def main() -> None:
        dirs = {name: {"data_dir": str(tmp_path / name)} for name in "abcd"}
        for name in "abcd":
            (tmp_path / name).mkdir()
        async with square(per_broker=dirs) as net:
            installation = net.brokers["a"].install(plan().encode())
            await eventually(lambda: installation.step is Step.SWITCHED)
        assert all((tmp_path / name / "plans.bin").exists() != fails for name in "abcd")

    run(main())
    assert len(threads) >= 4
    assert threading.get_ident() not in threads


def test_a_plan_is_installed_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(plan().encode())

    async def covey(*words: str) -> int:
        return await asyncio.to_thread(cli.run, list(words))

    async def main() -> None:
        admin = AdminConfig(port=0, token=hash_token("let me"))
        async with square(per_broker={"a": {"admin": admin}, "b": {"admin": AdminConfig(port=0)}}) as net:
            first, second = net.brokers["a"].admin, net.brokers["b"].admin
            assert first is not None
            assert second is not None
            url, other = (f"http://127.0.0.1:{one.port}" for one in (first, second))
            assert await covey("install", url, str(file), "--token", "let me", "--json") == 0
            assert {one.core.epochs.current for one in net.brokers.values()} == {1}
            assert await covey("install", url, "--roll-back", "--token", "let me") == 0
            await eventually(lambda: {one.core.epochs.current for one in net.brokers.values()} == {0})
            capsys.readouterr()
            for words, said in (
                (("install", url, str(file), "--token", "wrong"), "want a token"),
                (("install", other, str(file)), "only where a token"),
                (("install", url, str(tmp_path / "none"), "--token", "let me"), "cannot be read"),
                (("install", url), "install a PLAN, or --none"),
            ):
                assert await covey(*words) == 2
                err = capsys.readouterr().err
                assert said in err
                assert len(err.splitlines()) == 1

    run(main())


def sent(net: Live) -> Counter[tuple[str, str]]:
    """Return how many events each link has carried."""
    neighbours = ((name, one) for name, broker in net.brokers.items() for one in broker.core.linked.values())
    return Counter({(name, one.link): one.sent for name, one in neighbours})


@pytest.mark.parametrize("one_copy", [None, "nearest"])
def test_explain_follows_the_trees_of_a_plan(
    one_copy: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ways on which an event is said to go are those on which it went, where trees share links too."""

    async def main() -> None:
        pages = {name: {"admin": AdminConfig(port=0)} for name in "abcd"}
        async with square(per_broker=pages) as net, AsyncExitStack() as stack:
            at = [word for name in "abcd" for word in ("--at", admin_url(net.brokers[name]))]
            publisher = await stack.enter_async_context(net.client("a"))
            await publisher.advertise("n >= 0")
            events = {}
            for name, filter in (("b", "n > 5"), ("c", "n > 5 or n = -1"), ("d", "n > 5 and n < 9")):
                client = await stack.enter_async_context(net.client(name))
                events[name] = await stack.enter_async_context(client.subscribe(filter))
                await client.flush()
            keys = {name: first_key(net, name) for name in "bcd"}
            installation = net.brokers["a"].install(plan(one_copy).encode())
            await eventually(lambda: installation.step is Step.SWITCHED)
            (source,) = net.brokers["a"].core.clients
            for n, homes in ((7, "bcd"), (9, "bc"), (3, ""), (-1, "c")):  # the last one is not advertised
                before = sent(net)
                await publisher.publish({"n": n})
                assert [(await anext(events[name]))["n"] for name in homes] == [n] * len(homes)
                await publisher.flush()
                said: set[tuple[str, str]] = set()
                for name, key in keys.items():
                    words = ["explain", json.dumps({"n": n}), "--to", key, "--publisher", source, "--json"]
                    code = await asyncio.to_thread(cli.run, [*words, *at])
                    report = json.loads(capsys.readouterr().out)
                    assert report["arrives"] == (name in homes), report["reason"]
                    assert code == (name not in homes)
                    if name in homes:
                        way = [hop["broker"] for hop in report["hops"]]
                        assert (way[0], way[-1]) == ("a", name)
                        assert all(hop["goes"] for hop in report["hops"][:-1])
                        said |= set(pairwise(way))
                carried = sent(net) - before
                assert said == set(carried) if n >= 0 else said < set(carried)
                asked = {"content": {"n": n}, "language": "attributes", "source": source}
                answer = await asyncio.to_thread(Pages(at[1]).post, "/explainz", asked)
                going = Counter(("a", hop["link"]) for hop in answer["hops"] if hop["goes"])
                assert going == Counter({link: count for link, count in carried.items() if link[0] == "a"})

    run(main())


def first_key(net: Live, name: str) -> str:
    """Return the key of the one subscription of the one client at a broker."""
    ((key,),) = (client.keys.values() for client in net.brokers[name].core.clients.values())
    return key


def sampled(tmp_path: Path, strategy: str) -> list[dict[str, Any]]:
    """Publish ten events at a; half of them are wanted at b, two of these at a too. Return a's events."""

    async def main() -> None:
        settings = {name: {"data_dir": str(tmp_path / name), "sample": 1.0} for name in "ab"}
        for name in "ab":
            (tmp_path / name).mkdir()
        async with (
            Live([("a", "b")], per_broker=settings, strategy=strategy) as net,
            net.client("a") as publisher,
            net.client("b") as subscriber,
            subscriber.subscribe("n > 4") as events,
            publisher.subscribe("n > 7"),
        ):
            await publisher.advertise("n >= 0")
            await subscriber.flush()
            await publisher.flush()
            for n in range(10):
                await publisher.publish({"n": n, "word": "ä"})
            assert [(await anext(events))["n"] for _ in range(5)] == [5, 6, 7, 8, 9]
            await net.stop("a")
            await net.stop("b")

    run(main())
    return list(parquet.read_table(tmp_path / "a" / "samples" / "events").to_pylist())


def test_samples_are_what_planning_reads(tmp_path: Path) -> None:
    events = sampled(tmp_path, "incremental")
    assert [row["content"] for row in events] == [f'{{"n": {n}, "word": "ä"}}' for n in range(10)]
    assert not (tmp_path / "b" / "samples" / "events").exists()
    deliveries = parquet.read_table(tmp_path / "b" / "samples" / "deliveries").to_pylist()
    assert [row["event"] for row in deliveries] == [row["event"] for row in events[5:]]
    assert [row["distance"] for row in deliveries] == [None, None, None, 1, 1], "where it is wanted at a too"
    subscriptions = parquet.read_table(tmp_path / "b" / "samples" / "subscriptions").to_pylist()
    assert {row["subscription"] for row in deliveries} == {row["subscription"] for row in subscriptions}
    assert [row["filter"] for row in subscriptions] == ["n > 4"]
    topology = parquet.read_table(tmp_path / "a" / "samples" / "topology").to_pylist()
    assert [(row["a"], row["b"]) for row in topology] == [("a", "b")]


def test_who_knows_no_distances_samples_none(tmp_path: Path) -> None:
    assert len(sampled(tmp_path, "covering")) == 10
    assert not (tmp_path / "b" / "samples" / "deliveries").exists()
