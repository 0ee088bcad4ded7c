"""Scripts of trials with whole brokers: what clients do and what fails, drawn from one seed, as text.

    script = draw(17)
    print(script)

    seed 17
    links a-b b-c
    strategy covering
    reader r1 at c
    publisher p1 at a
    0.003  publish p1 3
    0.010  kill b 5
    …
    rest

A line is a setting, a client, or a step: seconds to wait before it, its name and its words. `Script.parse` reads the
text back. A step that cannot be done where it stands (a broker that is down is killed) does nothing, so any part of a
script is a script: that is how scripts shrink.

Each seed draws which kinds of steps there are and how often, so that some seeds are full of one kind of fault, and some
have a little of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from covey.errors import ConfigError
from covey.protocol.outbox import POLICIES
from covey.routing.advertisements import NONE, WAYS

# What filters, advertisements and permissions of trials are; events have x from 0 to 9 and a number n.
FILTERS: Final = ("n>=0", "x>=5", "x<=3", "x>=2&x<=6", "x=4", "x>=8", "x<=7", "x<>5")
ALLOWED: Final = ("all", "x<=7", "x>=5", "none")
STRATEGIES: Final = (
    "covering", "covering", "covering", "simple", "merging", "incremental", "xroute-sets", "match-first",
    "merging-imperfect", "flooding", "identity",
)  # fmt: skip
DAY_S: Final = 86_400.0


class Step(NamedTuple):
    """One thing that is done, after a wait."""

    wait_s: float
    name: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.wait_s:<6g} {' '.join((self.name, *self.words))}"


class Actor(NamedTuple):
    """A client: a `reader` has durable subscriptions, a `listener` ordinary ones, a `publisher` publishes."""

    role: str
    name: str
    broker: str

    def __str__(self) -> str:
        return f"{self.role} {self.name} at {self.broker}"


@dataclass(frozen=True)
class Script:
    """A trial; see the module's text."""

    seed: int
    links: tuple[tuple[str, str], ...] = ()
    strategy: str = "covering"
    advertisements: bool = True
    delay_ms: float = 1.0
    drift: float = 0.0
    window: int = 1_000  # deliveries to a durable subscription that wait to be acknowledged
    again_after_s: float = 60.0
    store_bytes: int = 1 << 30
    queue_events: int = 0  # that may wait for a client; 0: the broker's own bound, which trials do not reach
    policy: str = "disconnect"  # what happens to events beyond that
    users: bool = False  # whether clients log in, so that permissions can be cut
    turn_ms: float = (
        0.0  # how long a broker gathers what arrives, and handles it as one input; 0: each read is one
    )
    reduce_advertisements: str = NONE
    actors: tuple[Actor, ...] = ()
    steps: tuple[Step, ...] = ()
    final: tuple[str, ...] = field(default=())  # what must work at the end, beside events: "plans"

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers."""
        return sorted({name for link in self.links for name in link} or {"a"})

    @property
    def is_tree(self) -> bool:
        """Whether there is one way between two brokers."""
        return len(self.links) < len(self.brokers)

    def without(self, steps: Sequence[Step]) -> Script:
        """Return the script with these steps alone."""
        return replace(self, steps=tuple(steps))

    def __str__(self) -> str:
        lines = [f"seed {self.seed}", " ".join(["links", *("-".join(link) for link in self.links)])]
        plain = Script(self.seed)
        for name in SETTINGS:
            value = getattr(self, name)
            if value != getattr(plain, name):
                lines.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
        lines += [f"final {what}" for what in self.final]
        return "\n".join([*lines, *map(str, self.actors), *map(str, self.steps)])

    @classmethod
    def parse(cls, text: str) -> Script:
        """Return the script that a text says; ConfigError that names the line for any other text."""
        script = cls(0)
        for number, line in enumerate(text.strip().splitlines(), start=1):
            words = line.split()
            try:
                script = script._with(words)
            except (ValueError, IndexError, KeyError):
                raise ConfigError(f"line {number} of the script is none: {line!r:.60}") from None
        return script

    def _with(self, words: Sequence[str]) -> Script:
        match words:
            case []:
                return self
            case ["seed", value]:
                return replace(self, seed=int(value))
            case ["links", *pairs]:
                links = tuple((a, b) for a, _, b in (pair.partition("-") for pair in pairs))
                return replace(self, links=links)
            case ["final", what]:
                return replace(self, final=(*self.final, what))
            case [("reader" | "listener" | "publisher") as role, name, "at", broker]:
                return replace(self, actors=(*self.actors, Actor(role, name, broker)))
            case [setting, value] if setting in SETTINGS:
                return replace(self, **{setting: SETTINGS[setting](value)})  # type: ignore[arg-type]
            case [wait_s, name, *rest]:
                return replace(self, steps=(*self.steps, Step(float(wait_s), name, tuple(rest))))
        raise ValueError(words)


SETTINGS: Final[dict[str, Callable[[str], object]]] = {
    "strategy": str,
    "advertisements": lambda text: text == "True",
    "reduce_advertisements": str,
    "delay_ms": float,
    "drift": float,
    "window": int,
    "again_after_s": float,
    "store_bytes": int,
    "queue_events": int,
    "policy": str,
    "users": lambda text: text == "True",
    "turn_ms": float,
}


# -- drawing -----------------------------------------------------------------------------------------------------

# How often each thing is done in parts, in a script that has it. `kind` groups what is drawn or left out together.
_CLIENTS: Final = {
    "publish": 40, "subscribe": 5, "unsubscribe": 3, "advertise": 5, "unadvertise": 2, "flush": 3,
}  # fmt: skip
_KINDS: Final[dict[str, dict[str, int]]] = {
    "kills": {"kill": 12, "restart": 10, "power": 2},
    "hangs": {"hang": 8, "resume": 6},
    "cuts": {"cut": 6, "mend": 6, "reset": 4},
    "silence": {"silence": 4, "deafen": 4, "mend": 5},
    "slowness": {"stall": 5, "half-close": 3},
    "clients": {"drop": 5, "mute": 2, "stall-client": 2, "half-close-client": 2},
    "readers": {"deaf": 3, "hear": 3, "stop-reading": 2, "read": 3, "takeover": 3, "refilter": 2},
    "travel": {"leave": 3, "come": 4, "move": 3, "forget": 2},
    "writes": {"full": 4, "room": 4, "fail": 4, "unreadable": 2, "readable": 3},
    "damage": {"flip": 5},
    "loss": {"lie": 5, "truncate": 3, "tear": 5, "power": 6, "restart": 10},
    "crowds": {"stop-reading": 4, "read": 3, "stall-client": 3, "publish": 20},
    "clocks": {"jump": 6, "leave": 3, "come": 2, "deaf": 2},
    "drains": {"drain": 3, "restart": 3},
    "rights": {"allow": 8},
    "plans": {"install": 6, "none": 2, "roll-back": 3},
    "news": {"advertise": 4, "unadvertise": 4},
}
# Steps that mean something to each other, which single draws seldom put in a row: a script that has the kind has one of
# its rows in each phase. `A` is a reader, `R` its broker, `L` a link of that to the broker `B`, `O` a reader elsewhere
# if there is one, or `A`, and the publisher `P` is behind `B` if possible; `F` is a filter and `N` a number; a wait is
# one of those that are given.
_STREAM: Final = "/".join(8 * ["0.001 publish P 2 confirmed"])
_ANEW: Final = "0 unadvertise P/0.3 advertise P n>=0/1.2 full B"
_UNSAID: Final = (
    "0.3 leave A/0 deafen R B/0.01 publish P 3 confirmed/0.3 kill R 0/0 flip R 0/0 flip R 2/0.3 restart R"
)
_ROWS: Final[dict[str, tuple[str, ...]]] = {
    # Events come while a link comes up again, and brokers tell each other what they want.
    "cuts": ("0.3 reset L/0.1" + "/0.01,0.02".join(12 * [" publish P 1 confirmed"]),),
    # Events come one after the other while a disk refuses them.
    "writes": (
        f"0 full R/{_STREAM}/0.3,3 room R",
        f"0 fail R 3/{_STREAM}",
    ),
    # Events that wait at two brokers are damaged at one of them, several at a time. Events are damaged after a broker
    # has taken them, and before the neighbour that has sent them hears of it: that one is back at once, or after the
    # broker has given them up.
    "damage": (
        "0.3 leave A/0 leave O/0.3 publish P 5 confirmed/0.3,1.2 flip R 0/0 flip R 1/0 flip R 3/0,0.3 come A/3 come O",
        f"{_UNSAID}/0.3 mend R B/3,12 come A",
        f"{_UNSAID}/0,0.3 come A/35 mend R B",
    ),
    # A clock is set forward while events wait for longer than it takes to look for what is too old.
    "clocks": (f"0 leave A/0.3 publish P N confirmed/0.3 jump R {30 * DAY_S:g}/35 come A",),
    # A durable subscription is made while the disk fails, and its broker is killed while its client is away.
    "travel": (
        "0 fail B 1/0 move A B/1.2 rest/0 leave A/0.3 publish P N confirmed/0.3 kill B 0/0.3 restart B/0.3 come A",
    ),
    # Something new is advertised while a neighbour hangs, whose link is then lost. Something is advertised anew while
    # an event of before waits for room on its way, and before the reader's broker can say what it wants of it.
    "news": (
        "0 unadvertise P/0.3 hang R/0.01 advertise P F/0 publish P N confirmed/12,35 publish P N confirmed",
        f"{_ANEW}/0.3 publish P 5 confirmed/0.05 unadvertise P/0.3 hang R/0 advertise P F/0 room B/3 resume R",
    ),
    # The broker that installs a plan is killed, again and again; another one is, while a plan goes in.
    "plans": (
        "/".join(f"0.3 install B {which}/0.001,0.01 kill B 0/0.3 restart B" for which in range(3)),
        "0 install B 0/0,0.01 kill R 0/0.3,3 restart R/12 none B/0.3 publish P N confirmed",
    ),
}
KINDS: Final = tuple(_KINDS)
# From bursts to longer than a lease (10 s), once in a while for longer than anything is tried for.
_WAITS: Final = (0.0, 0.0, 0.0, 0.0, 0.001, 0.001, 0.001, 0.003, 0.003, 0.01, 0.01, 0.05, 0.3, 1.2, 3.0, 12.0)
_LONG_WAIT_S: Final = 35.0
_EXCHANGED: Final = 6  # one of so many scripts has brokers of earlier releases
_CIRCLES: Final = 2  # in one of so many networks where that can be, links form a circle for a moment
# The tree goes another way around the link X Y, and comes back while the brokers at its ends reach the others late:
# those leave their link of the circle only then. Meanwhile events that nobody has advertised go both ways.
_CIRCLE: Final = (
    "0.3 unadvertise P/0.3 cut X Y/3 mend X Y/0 stall S 5/0 stall T 5" + "/0.3 publish P 1 plain" * 10
)
_RELEASES: Final = ("before", "before", "today")
_TURNS_MS: Final = (0.0, 0.05, 0.05, 1.0)  # as a server that has little to do, and one that joins turns


def draw(seed: int) -> Script:
    """Return the script of a seed."""
    return _Draw(seed).script()


class _Draw:
    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(f"script {seed}")
        self._releases = Random(f"releases {seed}")  # its own: other scripts stay what they were without it
        self._circles = Random(f"circles {seed}")  # likewise
        chosen = self.random.sample(KINDS, self.random.choice([1, 1, 2, 2, 3, 4, 6]))
        self.kinds = [kind for kind in KINDS if kind in chosen]  # in an order that no hash decides
        self.links = self._links()
        self.brokers = sorted({name for link in self.links for name in link} or {"a"})
        self.actors = self._actors()

    def _links(self) -> tuple[tuple[str, str], ...]:
        random = self.random
        names = "abcdef"[: random.choice([1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6])]
        links = [(names[random.randrange(max(0, n - 3), n)], names[n]) for n in range(1, len(names))]
        others = [(a, b) for a in names for b in names if a < b and (a, b) not in links]
        if others and random.random() < 0.35:
            links += random.sample(others, min(len(others), random.choice([1, 1, 2])))
        return tuple(links)

    def _actors(self) -> tuple[Actor, ...]:
        random = self.random
        roles = {"reader": random.choice([1, 1, 2, 3]), "listener": random.choice([0, 1, 2])}
        roles["publisher"] = random.choice([1, 2, 2, 3])
        return tuple(
            Actor(role, f"{role[0]}{number}", random.choice(self.brokers))
            for role, count in roles.items()
            for number in range(1, count + 1)
        )

    def script(self) -> Script:
        random, is_crowded = self.random, "crowds" in self.kinds
        weights = {name: weight * random.choice([0, 1, 1, 3]) for name, weight in _CLIENTS.items()}
        weights["publish"] = 40
        for kind in self.kinds:
            for name, weight in _KINDS[kind].items():
                weights[name] = weights.get(name, 0) + weight * random.choice([1, 1, 2])
        steps: list[Step] = []
        for _ in range(random.choice([1, 1, 2, 3])):
            steps += self._circled(self._exchanged(self._phase(weights, random.randint(10, 40))))
            steps.append(Step(0.0, "rest"))
        return Script(
            self.seed,
            self.links,
            random.choice(STRATEGIES),
            random.random() < 0.85,
            random.choice([0.2, 1.0, 5.0]),
            random.choice([0.0, 0.0, 0.03]),
            random.choice([1, 3] if is_crowded else [1_000, 1_000, 1, 3]),
            random.choice([20.0, 5.0, 5.0]),
            random.choice([1 << 30, 1 << 30, 1 << 30, 6_000]) if "writes" in self.kinds else 1 << 30,
            random.choice([10, 20]) if is_crowded else 0,
            random.choice(POLICIES) if is_crowded else POLICIES[0],
            "rights" in self.kinds,
            Random(f"turns {self.seed}").choice(_TURNS_MS),  # its own, likewise
            Random(f"advertisements {self.seed}").choice(WAYS),
            self.actors,
            tuple(steps),
            ("plans",) if "plans" in self.kinds else (),
        )

    def _phase(self, weights: dict[str, int], count: int) -> list[Step]:
        random = self.random
        names = random.choices(list(weights), list(weights.values()), k=count)
        waits = random.choice([_WAITS, _WAITS, _WAITS[:11], _WAITS[9:]])
        steps = [
            Step(
                _LONG_WAIT_S if random.random() < 0.01 else random.choice(waits),
                name,
                tuple(self._words(name)),
            )
            for name in names
        ]
        for kind in self.kinds:
            if kind in _ROWS:
                at = random.randint(0, len(steps))
                steps[at:at] = self._row(random.choice(_ROWS[kind]))
        return steps

    def _exchanged(self, steps: list[Step]) -> list[Step]:
        """Return steps with others among them, in a part of all scripts, that exchange brokers for earlier releases."""
        if self.seed % _EXCHANGED == 0:
            chance = self._releases
            for _ in range(chance.choice([1, 2, 4])):
                words = chance.choice(self.brokers), chance.choice(_RELEASES)
                step = Step(chance.choice(_WAITS), "exchange", words)
                steps.insert(chance.randint(0, len(steps)), step)
        return steps

    def _circled(self, steps: list[Step]) -> list[Step]:
        """Return steps with a row among them, in a part of all scripts, by which links form a circle for a moment."""
        chance, circles = self._circles, _circles(self.links)
        if not circles or chance.random() * _CIRCLES >= 1.0:
            return steps
        before, x, y, behind = chance.choice(circles)
        publishers = [actor for actor in self.actors if actor.role == "publisher"]
        far = [one for one in publishers if one.broker not in (x, y)]
        drawn = {
            "X": x,
            "Y": y,
            "S": f"{before} {x}",
            "T": f"{y} {behind}",
            "P": chance.choice(far or publishers).name,
        }
        at = chance.randint(0, len(steps))
        return [*steps[:at], *_steps(_CIRCLE, drawn, chance), *steps[at:]]

    def _row(self, row: str) -> list[Step]:
        """Return the steps of a row of `_ROWS`."""
        random = self.random
        actor = random.choice([actor for actor in self.actors if actor.role == "reader"])
        reader = actor.broker
        link = random.choice([pair for pair in self.links if reader in pair] or [(reader, reader)])
        near = link[0] if link[1] == reader else link[1]
        publishers = [actor for actor in self.actors if actor.role == "publisher"]
        far = [one for one in publishers if one.broker not in link]
        elsewhere = [one for one in publishers if one.broker != reader]
        publisher = random.choice(far or elsewhere or publishers).name
        others = [one.name for one in self.actors if one.role == "reader" and one.broker != reader]
        drawn = {
            "A": actor.name,
            "O": (others or [actor.name])[0],
            "R": reader,
            "L": " ".join(link),
            "B": near,
            "P": publisher,
        }
        return _steps(row, drawn, random)

    def _words(self, name: str) -> list[str]:
        random = self.random
        words: list[str] = []
        for word in _WORDS[name]:
            match word:
                case "broker":
                    words.append(random.choice(self.brokers))
                case "link":
                    link = random.choice(self.links or (("a", "a"),))
                    words += random.sample(link, 2)
                case "client":
                    words.append(random.choice(self.actors).name)
                case "reader" | "listener" | "publisher":
                    words.append(random.choice([a.name for a in self.actors if a.role == word] or ["nobody"]))
                case "user":
                    words.append(random.choice(self.actors).name)
                case _:
                    words.append(str(random.choice(_NUMBERS[word])))
        return words


def _steps(row: str, drawn: dict[str, str], random: Random) -> list[Step]:
    """Return the steps of a row, with what was drawn for its words."""
    steps = []
    for text in row.split("/"):
        waits, name, *words = text.split()
        some = drawn | {"F": random.choice(FILTERS), "N": str(random.choice(_NUMBERS["count"]))}
        wait_s = float(random.choice(waits.split(",")))
        steps.append(Step(wait_s, name, tuple(" ".join(some.get(word, word) for word in words).split())))
    return steps


def _circles(links: Sequence[tuple[str, str]]) -> list[tuple[str, str, str, str]]:
    """Return four brokers in a row, of each circle that a link closes, whose middle link is far from that one.

    The links of a network that are not on its tree close a circle each; the tree is that of the names.
    """
    ways: dict[str, dict[str, list[str]]] = {}  # between brokers that the tree connects
    found = []
    for a, b in sorted((min(link), max(link)) for link in links):
        here, there = ways.setdefault(a, {a: [a]}), ways.setdefault(b, {b: [b]})
        if b in here:
            way = here[b]
            found += [(way[n - 1], way[n], way[n + 1], way[n + 2]) for n in range(1, len(way) - 2)]
        else:
            for one, to_one in [(name, way) for name, way in here.items()]:
                for other, from_other in list(there.items()):
                    way = [*reversed(to_one), *from_other]
                    ways[one][other], ways[other][one] = way, way[::-1]
    return found


_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "publish": ("publisher", "count", "way"),
    "subscribe": ("listener", "filter"),
    "unsubscribe": ("listener",),
    "advertise": ("publisher", "filter"),
    "unadvertise": ("publisher",),
    "flush": ("client",),
    "kill": ("broker", "effects"),
    "restart": ("broker",),
    "power": ("broker",),
    "hang": ("broker",),
    "resume": ("broker",),
    "drain": ("broker",),
    "cut": ("link",),
    "mend": ("link",),
    "reset": ("link",),
    "silence": ("link",),
    "deafen": ("link",),
    "stall": ("link", "seconds"),
    "half-close": ("link",),
    "drop": ("client",),
    "mute": ("client",),
    "stall-client": ("client", "seconds"),
    "half-close-client": ("client",),
    "deaf": ("reader",),
    "hear": ("reader",),
    "stop-reading": ("client",),
    "read": ("client",),
    "takeover": ("reader",),
    "refilter": ("reader", "filter"),
    "leave": ("client",),
    "come": ("client",),
    "move": ("client", "broker"),
    "forget": ("reader",),
    "full": ("broker",),
    "room": ("broker",),
    "fail": ("broker", "batches"),
    "unreadable": ("broker",),
    "readable": ("broker",),
    "flip": ("broker", "which"),
    "lie": ("broker",),
    "truncate": ("broker", "batches"),
    "tear": ("broker", "batches"),
    "jump": ("broker", "jump"),
    "allow": ("broker", "user", "rule", "rule"),
    "install": ("broker", "plan"),
    "none": ("broker",),
    "roll-back": ("broker",),
    "exchange": ("broker", "release"),
}
_NUMBERS: Final[dict[str, Sequence[object]]] = {
    "count": (1, 1, 2, 3, 5),
    "way": ("confirmed", "confirmed", "plain"),
    "filter": FILTERS,
    "effects": (0, 0, 1, 2, 3, 4, 5, 6, 8, 13, 21, 50),
    "seconds": (0.1, 1, 4, 20),
    "batches": (1, 2, 3, 5),
    "which": range(8),
    "jump": (30 * DAY_S, -30 * DAY_S, 3_600, -3_600),
    "rule": ALLOWED,
    "plan": (0, 1, 2),
    "release": _RELEASES,
}
