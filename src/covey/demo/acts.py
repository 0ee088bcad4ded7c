"""The acts on live brokers, in their order; each leaves what it found in `Findings`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from covey.broker.local import SAMPLE_EVERY_S, Brokers
from covey.client.admin import Metrics, control_messages, total
from covey.core.filter import Filter
from covey.demo import burst
from covey.demo.admin import Admin
from covey.demo.crossings import OneTree, Planned, Ways, needed
from covey.demo.examples import MOST_TAKERS, examples
from covey.demo.findings import Findings, Latency, Pair, Phase
from covey.demo.oracle import Oracle, differences
from covey.demo.planning import Planner, gathered
from covey.demo.scene import CITIES, Scene
from covey.demo.settings import Settings
from covey.demo.telling import Teller
from covey.demo.traffic import Traffic
from covey.errors import CoveyError
from covey.planning.plan import Plan

POLL_S: Final = 0.5
LATE_S: Final = 15.0  # for deliveries that are still to come when everything is quiet
FORWARDED: Final = "covey_events_forwarded_total"

Look = dict[str, Metrics]


class Acts:
    """One run on brokers that are up; see the module's text."""

    def __init__(
        self,
        scene: Scene,
        settings: Settings,
        brokers: Brokers,
        planner: Planner,
        teller: Teller,
        found: Findings,
    ) -> None:
        self.scene, self.settings, self.found = scene, settings, found
        self._brokers, self._planner, self._teller = brokers, planner, teller
        self._traffic = Traffic(brokers.clients, scene.event)
        self._oracle = Oracle(scene)
        self._admin = Admin({city: brokers.pages[city] for city in CITIES}, brokers.token)
        self._begun_s = 0.0
        self._marks: dict[str, tuple[int, Look]] = {}
        self._stages: dict[str, int] = {}  # the first event of each, for latencies

    async def run(self, directory: Path) -> None:
        """Play all acts; CoveyError if one cannot be played."""
        watching: asyncio.Task[None] | None = None
        await self._oracle.start()
        self._rehearsing = asyncio.get_running_loop().create_task(self._planner.ready())
        try:
            await self._subscribe()
            watching = asyncio.get_running_loop().create_task(self._watch())
            await self._arrive()
            await self._burst()
            await self._plan(directory / "samples")
            await self._install()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._check()
        finally:
            self._rehearsing.cancel()
            if watching is not None:
                watching.cancel()
            await self._traffic.close()
            await self._oracle.stop()

    # -- acts ------------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        scene, traffic, found = self.scene, self._traffic, self.found
        words = f"{found.clients} clients with {found.subscriptions:,} subscriptions connect to {found.brokers} brokers"
        with self._teller.act("subscribe", words):
            for city in CITIES:
                await traffic.feed(city, scene.advertisements(city))
            wanted: dict[tuple[str, int], list[tuple[int, Filter]]] = {
                (city, number): [] for city in CITIES for number in range(scene.clients)
            }
            for wish in scene.wishes:
                wanted[wish.city, wish.client].append((wish.number, wish.filter))
            clients = {key: await traffic.client(key[0]) for key in wanted}
            await asyncio.gather(*(traffic.subscribe(clients[key], mine) for key, mine in wanted.items()))
            await traffic.in_force()
            found.tree = await self._admin.tree()
            if len(found.tree) != len(CITIES) - 1:
                raise CoveyError(f"brokers route over {len(found.tree)} links, which is no tree")

    async def _arrive(self) -> None:
        with self._teller.act("arrive", f"{self.settings.rate:g} events a second arrive by their content"):
            await self._mark("start")
            self._begun_s = time.monotonic()
            self._stage("calm")
            self._traffic.flow(self.settings.rate)
            await asyncio.sleep(self.settings.examples_s)
        self.found.examples = examples(self.scene, self._traffic.record)
        for example in self.found.examples:
            self._teller.note(f"{example.source} publishes {example.content}")
            for place, whose, filter in example.takers[:MOST_TAKERS]:
                self._teller.note(f"  → {place}, {whose}: {filter}")
            if len(example.takers) > MOST_TAKERS:
                self._teller.note(f"  → and {len(example.takers) - MOST_TAKERS} more")

    async def _burst(self) -> None:
        words = "covering subscriptions leave, under covering and under incremental, side by side"
        with self._teller.act("burst", words):
            self._stage("burst")
            told = await asyncio.gather(*map(self._departures, burst.STRATEGIES))
        self.found.bursts = {one.strategy: one for one in told}
        said = ", ".join(f"{one.messages:,} under {one.strategy}" for one in told)
        self._teller.note(f"control messages: {said}")

    async def _departures(self, strategy: str) -> burst.Told:
        brokers = self._brokers
        pages = {name: brokers.pages[name] for name in burst.names(strategy)}
        act = burst.Departures(strategy, brokers.clients, self.settings.burst, self.settings.seed)
        return await act.run(Admin(pages, brokers.token))

    async def _plan(self, samples: Path) -> None:
        found, traffic = self.found, self._traffic
        with self._teller.act("plan", "Spark plans trees from what brokers have sampled, while events go on"):
            self._stage("planning")
            await self._rehearsed()
            enough = max(traffic.published, self.settings.sampled)
            while traffic.published < enough:
                traffic.check()
                await asyncio.sleep(POLL_S)
            self._teller.passing("waiting for the brokers' samples")
            places = [self._brokers.samples(city) for city in CITIES]
            found.sampled = await gathered(places, samples, enough, 60.0 + 5 * SAMPLE_EVERY_S)
            made = await self._planner.plan(samples, self._teller.passing)
            await self._mark("before")
        self._made = made
        found.plan, found.explain, found.plan_s = made.plan, made.explain, made.seconds
        found.predicted_cost = _predicted(made.plan, made.plan.method)
        found.predicted_single = _predicted(made.plan, "single")
        self._teller.note(made.explain.splitlines()[0])

    async def _rehearsed(self) -> None:
        """Return when the planner is ready; say what it does until then."""
        said = ""
        while not self._rehearsing.done():
            if self._planner.step != said:
                said = self._planner.step
                self._teller.passing(f"the planner is {said}")
            await asyncio.wait([self._rehearsing], timeout=POLL_S)
        self._rehearsing.result()

    async def _install(self) -> None:
        found = self.found
        with self._teller.act("install", "the plan is installed while events go on"):
            self._stage("plan going in")
            begun_s = time.monotonic()
            await self._admin.install(self._made.data, next(iter(CITIES)))
            found.install_s = time.monotonic() - begun_s
            found.switched_s = time.monotonic() - self._begun_s
            await asyncio.sleep(1.0)
            epochs = await self._admin.current_epochs()
            if len(epochs) != 1 or 0 in epochs:
                raise CoveyError(f"brokers have not all switched to the plan: epochs {sorted(epochs)}")
            await self._mark("switched")
        with self._teller.act("after", "events go on, on the planned trees"):
            self._stage("planned")
            await asyncio.sleep(self.settings.after_s)
            await self._mark("after", ends=True)

    async def _check(self) -> None:
        found, traffic = self.found, self._traffic
        found.published = traffic.published
        words = f"every delivery of {found.published:,} events is checked against what each filter matches"
        with self._teller.act("check", words):
            answers = await self._oracle.wait(found.published)
            until_s = time.monotonic() + LATE_S
            due = sum(map(len, answers))
            while len(traffic.record) < due and time.monotonic() < until_s:
                await asyncio.sleep(POLL_S)
            found.wrong = differences(traffic.record, answers)
            found.deliveries = len(traffic.record)
            half, most, all_ = np.percentile(
                np.array(traffic.record.delays_ms or [0.0]), [50, 99, 100]
            ).tolist()
            found.delays_ms = half, most, all_
            found.latency = self._latency()
            assert found.plan is not None, "planned before"
            own = OneTree(found.tree)
            found.before = self._phase("start", "before", own, answers)
            found.after = self._phase("switched", "after", Planned(found.plan), answers)
            (_, earlier), (_, later) = self._marks["before"], self._marks["switched"]
            found.install_messages = control_messages(later) - control_messages(earlier)
            sampled = needed(own, *self._wanted(answers, 0, found.sampled))
            found.predicted_before = sum(sampled.values()) / max(1, found.sampled)

    # -- latency ---------------------------------------------------------------------------------------------

    def _stage(self, name: str) -> None:
        """Events that are published from now on belong to this stage."""
        self._stages[name] = self._traffic.published

    def _latency(self) -> dict[str, Latency]:
        firsts = list(self._stages.values())
        delays = self._traffic.record.delays_by_stage(firsts)
        counts = [last - first for first, last in pairwise([*firsts, self._traffic.published])]
        return {
            name: Latency.of(count, mine)
            for name, count, mine in zip(self._stages, counts, delays, strict=True)
        }

    # -- looking ---------------------------------------------------------------------------------------------

    async def _mark(self, name: str, ends: bool = False) -> None:
        """Note what brokers have counted when all events so far have arrived."""
        look = await self._traffic.at_rest(self._admin.metrics, ends)
        self._marks[name] = self._traffic.published, look

    async def _watch(self) -> None:
        while True:
            if self._begun_s:
                with suppress(
                    CoveyError
                ):  # a page that comes too late leaves a gap in a curve, and nothing else
                    look = await self._admin.metrics()
                    published = total(look, "covey_events_published_total")
                    self.found.points.append(
                        (time.monotonic() - self._begun_s, published, total(look, FORWARDED))
                    )
                self._oracle.tell(self._traffic.published)
            await asyncio.sleep(POLL_S)

    def _phase(self, start: str, end: str, ways: Ways, answers: Any) -> Phase:
        (first, earlier), (last, later) = self._marks[start], self._marks[end]
        crossed = needed(ways, *self._wanted(answers, first, last))
        entries = sum(int(mine["covey_table_entries"]["remote"]) for mine in later.values())
        links = _by_link(later)
        links.subtract(_by_link(earlier))
        return Phase(
            first=first,
            events=last - first,
            forwarded=total(later, FORWARDED) - total(earlier, FORWARDED),
            needed=sum(crossed.values()),
            entries=entries,
            links=dict(links),
        )

    def _wanted(
        self, answers: Any, first: int, last: int
    ) -> tuple[list[str], list[list[tuple[str, Filter]]]]:
        """Return where events were published, and which filters at which brokers want each."""
        wishes = self.scene.wishes
        sources = [self.scene.event(number)[0] for number in range(first, last)]
        wanted = [
            [(wishes[wish].city, wishes[wish].filter) for wish in answers[number]]
            for number in range(first, last)
        ]
        return sources, wanted


def _predicted(plan: Plan, alternative: str) -> float:
    """Return what an event costs under an alternative, on events to which its trees were not fitted."""
    parts = [part for part in ("held_out", "fresh") if plan.basis.get(part)]
    cost = sum(plan.predictions[alternative][f"cost_{part}"] for part in parts)
    return float(cost / sum(plan.basis[part] for part in parts))


def _by_link(look: Mapping[str, Metrics]) -> Counter[Pair]:
    """Return how many events were sent over each link, both ways together."""
    counts: Counter[Pair] = Counter()
    for broker, mine in look.items():
        for other, sent in mine.get("covey_link_events_sent_total", {}).items():
            counts[min(broker, other), max(broker, other)] += int(sent)
    return counts
