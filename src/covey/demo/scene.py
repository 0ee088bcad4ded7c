"""The scene: brokers in twelve cities, and an exchange in each whose quotes are of interest mostly nearby.

Everything follows from the seed and a number: subscription k and event n are the same in every process, so that what
should arrive can be computed elsewhere than where it is published.

    symbols        are listed in a city; they are watched there, and in a few cities that are one link away
    worldwide      one symbol in WORLDWIDE is watched everywhere
    subscriptions  quotes by symbol, price, volume, sector; news by keywords; filings by XPath
    events         quotes, and a few news and filings, published in the city that they are about
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from covey.core.attributes.filter import conjunction
from covey.core.families import parse
from covey.core.filter import Filter

Pair = tuple[str, str]

# Where a city is drawn: from west to east, from south to north.
CITIES: Final[Mapping[str, tuple[float, float]]] = {
    "seattle": (0.3, 3.2),
    "losangeles": (0.7, 1.5),
    "chicago": (2.1, 2.9),
    "newyork": (3.2, 2.1),
    "london": (5.2, 3.5),
    "madrid": (4.9, 2.0),
    "frankfurt": (6.4, 3.3),
    "milan": (6.2, 2.1),
    "mumbai": (8.1, 1.9),
    "singapore": (9.2, 1.0),
    "tokyo": (10.2, 2.8),
    "sydney": (10.4, 0.2),
}
LINKS: Final[Sequence[Pair]] = tuple(
    sorted(
        tuple(sorted(pair))  # type: ignore[misc]  # two of them
        for pair in (
            ("seattle", "losangeles"), ("seattle", "chicago"), ("losangeles", "chicago"),
            ("chicago", "newyork"), ("losangeles", "newyork"), ("newyork", "london"), ("newyork", "madrid"),
            ("london", "madrid"), ("london", "frankfurt"), ("madrid", "milan"), ("frankfurt", "milan"),
            ("frankfurt", "mumbai"), ("milan", "mumbai"), ("mumbai", "singapore"), ("mumbai", "tokyo"),
            ("singapore", "tokyo"), ("singapore", "sydney"), ("tokyo", "sydney"), ("tokyo", "seattle"),
            ("sydney", "losangeles"),
        )
    )
)  # fmt: skip
SYMBOLS: Final = 20  # listed in each city
WORLDWIDE: Final = 12
NEARBY: Final = 2  # cities beside its own in which a symbol is watched
SECTORS: Final = ("banks", "energy", "health", "retail", "steel")
TOPICS: Final = ("merger", "earnings", "strike", "patent", "court")
NEWS, FILINGS = 0.05, 0.02  # shares of subscriptions and of events


@dataclass(frozen=True)
class Symbol:
    """What is traded: its name, where it is listed, its sector and usual price, and where it is watched."""

    name: str
    city: str
    sector: str
    price: float
    watched: tuple[str, ...]


@dataclass(frozen=True)
class Wish:
    """A subscription: who has it (a client of a city), and its filter."""

    number: int
    city: str
    client: int
    filter: Filter


class Scene:
    """All of it; see the module's text."""

    def __init__(self, seed: int, subscriptions: int, clients: int) -> None:
        self.seed = seed
        self.clients = clients  # in each city
        pick = random.Random(f"{seed} symbols")
        self.symbols = [_symbol(pick, city, number) for city in CITIES for number in range(SYMBOLS)]
        # The twentieth symbol of a city is asked for and traded less than the first, as its rank says.
        weights = [1 / (1 + number % SYMBOLS) ** 0.7 for number in range(len(self.symbols))]
        self._weights = list(accumulate(weights))
        self.wishes = [self._wish(number) for number in range(subscriptions)]

    def wanted_at(self, city: str, client: int) -> list[Wish]:
        """Return the subscriptions of one client."""
        return [wish for wish in self.wishes if (wish.city, wish.client) == (city, client)]

    def advertisements(self, city: str) -> list[Filter]:
        """Return what the exchange of a city may publish."""
        return [
            conjunction([("venue", "=", city)]),
            parse(city, "keywords"),
            parse(f"/filing[@venue='{city}']", "xpath"),
        ]

    def event(self, number: int) -> tuple[str, Any]:
        """Return where event `number` is published, and its content."""
        pick = random.Random(f"{self.seed} event {number}")
        symbol = self._symbol(pick)
        share = pick.random()
        if share < FILINGS:
            body = f"<{symbol.sector}><name>{symbol.name}</name></{symbol.sector}>"
            return symbol.city, f'<filing venue="{symbol.city}">{body}</filing>'
        if share < FILINGS + NEWS:
            return symbol.city, {symbol.city, symbol.sector, symbol.name.lower(), pick.choice(TOPICS)}
        return symbol.city, {
            "symbol": symbol.name,
            "venue": symbol.city,
            "sector": symbol.sector,
            "price": round(pick.gauss(symbol.price, symbol.price / 10), 2),
            "volume": pick.randrange(1, 1_000) * 100,
        }

    def _symbol(self, pick: random.Random) -> Symbol:
        return pick.choices(self.symbols, cum_weights=self._weights)[0]

    def _wish(self, number: int) -> Wish:
        pick = random.Random(f"{self.seed} wish {number}")
        symbol = self._symbol(pick)
        city = symbol.city if pick.random() < 0.4 else pick.choice(symbol.watched)
        return Wish(number, city, pick.randrange(self.clients), _filter(pick, symbol))


def _symbol(pick: random.Random, city: str, number: int) -> Symbol:
    name = f"{city[:2].upper()}{''.join(pick.choices('ABCDEFGHIJKLMNOPQRSTUVWXYZ', k=2))}{number:02}"
    near = sorted(b if a == city else a for a, b in LINKS if city in (a, b))
    others = list(CITIES) if pick.randrange(WORLDWIDE) == 0 else pick.sample(near, NEARBY)
    return Symbol(name, city, pick.choice(SECTORS), round(pick.uniform(10, 400), 2), tuple(others))


def _filter(pick: random.Random, symbol: Symbol) -> Filter:
    """Return one of the usual wishes about a symbol."""
    share = pick.random()
    if share < FILINGS:
        return parse(f"/filing[@venue='{symbol.city}']//{symbol.sector}/name", "xpath")
    if share < FILINGS + NEWS:
        return parse(f"{symbol.name.lower()} and ({' or '.join(pick.sample(TOPICS, 2))})", "keywords")
    same = ("symbol", "=", symbol.name)
    low = round(symbol.price * pick.uniform(0.8, 1.1), 1)
    wishes: tuple[list[tuple[str, str, object]], ...] = (
        [same],
        [same, ("price", "between", (low, round(low + symbol.price / 8, 1)))],
        [same, ("price", ">", low)],
        [same, ("volume", ">", pick.randrange(20, 950) * 100)],
        [same, ("venue", "=", symbol.city), ("volume", ">", 50_000), ("price", "<", low)],
    )
    return conjunction(pick.choice(wishes))
