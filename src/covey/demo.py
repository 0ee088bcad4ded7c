"""`covey demo`: a market-data scene with 100,000 subscriptions, in which every answer is checked.

Subscribers ask for quotes by symbol, price, volume and venue. An index finds whom each quote concerns; the
same is found the slow way, filter by filter, and must be equal. Then a new subscription meets those that are
there already, two filters become one, and XML documents and news by keywords share the index with the quotes.
Last, some of the subscribers sit at the brokers of an overlay, and four routing strategies carry the same quotes
to the same people at different prices.
"""

from __future__ import annotations

import random
import time
from itertools import accumulate
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import covey
from covey.core.filter import Filter
from covey.matching.index import Index, warm_up
from covey.sim import Network
from covey.sim.topology import Topology, rebeca

SUBSCRIPTIONS = 100_000
EVENTS = 2_000
CHECKED_EVENTS = 5
LINKS = 16
OVERLAY_SUBSCRIPTIONS = 600
OVERLAY_EVENTS = 200
STRATEGIES = ("flooding", "simple", "covering", "merging")
SYMBOLS = 500
VENUES = ("NYSE", "XETRA", "LSE", "TSE")

NEWS = """<news><item section="technology"><title>New phone</title><body><p>Nokia</p></body></item></news>"""
WORDS = {"nokia", "phone", "launch", "helsinki"}
OTHER_FAMILIES = (
    ("xpath", "/news//item[title]/body"),
    ("xpath", "//item[@section='sport']"),
    ("xpath", "//item[@section]//p"),
    ("keywords", "nokia or motorola"),
    ("keywords", "nokia and (watch or tablet)"),
    ("keywords", "phone and helsinki"),
)


class Market:
    """Where subscriptions and quotes come from: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        names = {"IBM"}
        while len(names) < SYMBOLS:
            names.add("".join(self._random.choices(letters, k=self._random.choice((3, 4)))))
        self._symbols = ["IBM", *sorted(names - {"IBM"})]
        # The hundredth symbol is asked for and traded a hundred times less than the first.
        self._weights = list(accumulate(1 / rank for rank in range(1, SYMBOLS + 1)))

    def symbols(self, count: int) -> list[str]:
        return self._random.choices(self._symbols, cum_weights=self._weights, k=count)

    def subscription(self, symbol: str) -> Filter:
        """Return one of the usual wishes, about this symbol or about a venue."""
        pick = self._random
        low = pick.randrange(5, 480)
        venue = ("venue", "=", pick.choice(VENUES))
        wishes: tuple[list[tuple[str, str, object]], ...] = (
            [("symbol", "=", symbol), ("price", "between", (low, low + pick.randrange(5, 50)))],
            [("symbol", "=", symbol), ("volume", ">", pick.randrange(100, 100_000))],
            [("symbol", "in", [symbol, *self.symbols(2)]), ("price", "<", low), venue],
            [("symbol", "like", symbol[:2] + "%"), ("price", ">", low + 0.5), venue],
            [venue, ("price", "between", (low, low + 2)), ("volume", ">=", 50_000)],
        )
        return covey.conjunction(pick.choice(wishes))

    def quote(self, symbol: str) -> dict[str, Any]:
        pick = self._random
        return {
            "symbol": symbol,
            "price": round(pick.uniform(1, 500), 2),
            "volume": pick.randrange(1, 100_000),
            "venue": pick.choice(VENUES),
        }


class Demo:
    """The scene, step by step; `failures` are the answers that were not equal to the slow way's."""

    def __init__(self, console: Console, subscriptions: int, seed: int) -> None:
        self.console = console
        self.failures: list[str] = []
        market = Market(seed)
        self.filters = [market.subscription(symbol) for symbol in market.symbols(subscriptions)]
        self.links = [key % LINKS for key in range(subscriptions)]
        self.quotes = [market.quote(symbol) for symbol in market.symbols(EVENTS)]
        self.index = Index()

    def fill(self) -> None:
        start = time.perf_counter()
        self.index.add_batch(range(len(self.filters)), self.filters, self.links)
        seconds = time.perf_counter() - start
        self.say(
            f"{len(self.filters):,} subscriptions in the index after {seconds:.2f} s, "
            f"{seconds / len(self.filters) * 1e6:.1f} µs each; for example:"
        )
        for wish in self.filters[:4]:
            self.console.print(f"    {wish}", markup=False, highlight=False, soft_wrap=True)

    def match(self) -> None:
        start = time.perf_counter()
        answers = self.index.match_batch(self.quotes)
        seconds = time.perf_counter() - start
        concerned = sum(map(len, answers)) / len(answers)
        start = time.perf_counter()
        naive = [self.naive(quote) for quote in self.quotes[:CHECKED_EVENTS]]
        naive_seconds = (time.perf_counter() - start) / CHECKED_EVENTS
        self.check("match_batch", [set(answer) for answer in answers[:CHECKED_EVENTS]], naive)
        self.check("match", [set(self.index.match(quote)) for quote in self.quotes[:CHECKED_EVENTS]], naive)
        links = [set(self.index.links(quote)) for quote in self.quotes[:CHECKED_EVENTS]]
        self.check("links", links, [{self.links[key] for key in keys} for keys in naive])
        table = new_table("Whom does a quote concern?", "way", "µs a quote", "subscribers a quote")
        each = seconds / len(self.quotes)
        table.add_row("the index, a batch of quotes", f"{each * 1e6:,.1f}", f"{concerned:,.0f}")
        table.add_row("filter by filter", f"{naive_seconds * 1e6:,.0f}", "the same")
        self.console.print(table)
        self.say(f"The index is {naive_seconds / each:,.0f} times as fast, with equal answers.")

    def cover(self) -> None:
        asked = covey.parse("symbol = 'IBM' and price between 100 and 110")
        covering, covered = set(self.index.covering(asked)), set(self.index.covered(asked))
        slow_covering = {key for key, wish in enumerate(self.filters) if wish.covers(asked)}
        slow_covered = {key for key, wish in enumerate(self.filters) if asked.covers(wish)}
        self.check("covering", covering, slow_covering)
        self.check("covered", covered, slow_covered)
        table = new_table(f"A new subscription: {asked}", "relation", "filters", "one of them")
        for relation, keys in (("is covered by", covering), ("covers", covered)):
            table.add_row(relation, f"{len(keys):,}", escape(str(self.filters[min(keys)])) if keys else "")
        self.console.print(table)
        if covering:
            self.say("It is covered: a broker need not tell its neighbours about it.")

    def merge(self) -> None:
        pairs = (
            ("symbol = 'IBM' and price between 10 and 20", "symbol = 'IBM' and price between 20 and 30"),
            ("symbol = 'IBM' and price < 10", "symbol = 'SAP' and price < 20"),
        )
        table = new_table("One filter for two", "one", "other", "merged", "exact")
        for one, other in pairs:
            a, b = covey.parse(one), covey.parse(other)
            merged, exact = a.merge(b)
            self.check("merge", merged.covers(a) and merged.covers(b), True)
            for quote in self.quotes:
                either = a.matches(quote) or b.matches(quote)
                if either != merged.matches(quote) and (exact or either):
                    self.failures.append("merge")
            table.add_row(*(escape(str(f)) for f in (a, b, merged)), "yes" if exact else "no")
        self.console.print(table)

    def other_families(self) -> None:
        wishes = {text: covey.parse(text, language=language) for language, text in OTHER_FAMILIES}
        for key, wish in wishes.items():
            self.index.add(key, wish, link=0)
        document = covey.Document.parse(NEWS)
        found = set(self.index.match(document)) | set(self.index.match(WORDS))
        slow = {text for text, wish in wishes.items() if wish.matches(document) or wish.matches(WORDS)}
        self.check("other families", found, slow)
        table = new_table("XML and keywords in the same index", "language", "filter", "the news match")
        for language, text in OTHER_FAMILIES:
            table.add_row(language, escape(text), "yes" if text in found else "no")
        self.console.print(table)
        for key in wishes:
            self.index.remove(key)

    def leave(self) -> None:
        leaving = range(0, len(self.filters), 2)
        start = time.perf_counter()
        for key in leaving:
            self.index.remove(key)
        seconds = time.perf_counter() - start
        quote = self.quotes[0]
        self.check("after removal", set(self.index.match(quote)), self.naive(quote) - set(leaving))
        self.say(
            f"{len(leaving):,} subscriptions left, {seconds / len(leaving) * 1e6:.1f} µs each, "
            "and the answers still agree."
        )

    def overlay(self) -> None:
        topology = rebeca(levels=3)
        wishes = dict(enumerate(self.filters[:OVERLAY_SUBSCRIPTIONS]))
        quotes = self.quotes[:OVERLAY_EVENTS]
        due = [
            (key, n) for n, quote in enumerate(quotes) for key, wish in wishes.items() if wish.matches(quote)
        ]
        title = f"{len(wishes)} of them at {len(topology.brokers)} brokers: who is told, who is sent what?"
        columns = (
            "strategy",
            "table entries",
            "control messages",
            "events forwarded",
            "of them in vain",
            "delivered",
        )
        table = new_table(title, *columns)
        for strategy in STRATEGIES:
            net, delivered = self.routed(topology, strategy, wishes, quotes)
            self.check(f"deliveries under {strategy}", sorted(delivered), sorted(due))
            entries = sum(map(len, net.tables.values()))
            counts = (
                net.counters[name] for name in ("control_messages", "forwarded_events", "false_positives")
            )
            table.add_row(strategy, *(f"{number:,}" for number in (entries, *counts, len(delivered))))
        self.console.print(table)

    def routed(
        self, topology: Topology, strategy: str, wishes: dict[int, Filter], quotes: list[dict[str, Any]]
    ) -> tuple[Network, list[tuple[int, int]]]:
        """Return the network after the quotes, and who got which of them."""
        net = Network(topology, strategy, seed=1)
        root, homes = topology.role("root")[0], topology.role("local")
        net.advertise(root, "symbol <> ''")
        keys = {net.subscribe(homes[key % len(homes)], wish): key for key, wish in wishes.items()}
        net.settle()
        delivered: list[tuple[int, int]] = []
        for number, quote in enumerate(quotes):
            net.publish(root, quote)
            net.settle()
            delivered += [(keys[subscription], number) for subscription, _ in net.deliveries]
            net.clear_deliveries()
        return net, delivered

    def naive(self, quote: dict[str, Any]) -> set[int]:
        return {key for key, wish in enumerate(self.filters) if wish.matches(quote)}

    def check(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.failures.append(what)

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False)


def new_table(title: str, *columns: str) -> Table:
    return Table(
        *columns, title=f"\n{escape(title)}", title_justify="left", title_style="bold", box=SIMPLE_HEAD
    )


def run(console: Console | None = None, subscriptions: int = SUBSCRIPTIONS, seed: int = 1) -> bool:
    """Show the scene; return whether every answer was right."""
    console = console or Console()
    started = time.perf_counter()
    with Console(stderr=True).status("making subscriptions") as status:
        demo = Demo(console, subscriptions, seed)
        status.update("compiling the index, once on a machine")
        warm_up()
        steps = (demo.fill, demo.match, demo.cover, demo.merge, demo.other_families, demo.leave, demo.overlay)
        for step in steps:
            status.update(step.__name__.replace("_", " "))
            step()
    seconds = time.perf_counter() - started
    if demo.failures:
        console.print(f"[bold red]Wrong answers: {', '.join(dict.fromkeys(demo.failures))}.[/]")
    else:
        console.print(f"[bold green]Every answer was checked and right[/], in {seconds:.0f} s.")
    return not demo.failures
