"""Plans for networks under fault, and their installation through the admin pages of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.e2e.helpers.faulty import Faulty
from tests.e2e.helpers.network import Pair, names_of

from covey.client import admin
from covey.errors import CoveyError
from covey.planning.plan import Plan, PlannedTree


def plan_for(links: Sequence[Pair], seed: int) -> bytes:
    """Return the file of a plan with two random trees."""
    random = Random(seed)
    overlay = sorted({(min(pair), max(pair)) for pair in links})
    brokers = sorted(names_of(overlay))
    trees = tuple(PlannedTree(random.choice(brokers), _tree(random, overlay, brokers)) for _ in range(2))
    home = {name: random.randrange(2) for name in brokers}
    return Plan(
        f"random {seed}", seed, tuple(brokers), tuple((a, b, 1.0) for a, b in overlay), trees, home=home
    ).encode()


def _tree(random: Random, overlay: Sequence[Pair], brokers: Sequence[str]) -> tuple[Pair, ...]:
    parts = {name: {name} for name in brokers}
    tree: list[Pair] = []
    for a, b in random.sample(overlay, len(overlay)):
        if parts[a] is not parts[b]:
            parts[a] |= parts[b]
            for name in parts[b]:
                parts[name] = parts[a]
            tree.append((a, b))
    return tuple(sorted(tree))


async def installed(net: Faulty, broker: str, plan: bytes, limit_s: float = 40.0) -> None:
    """Install a plan, b"" for none, as an operator would who tries again until it is in use."""
    loop = asyncio.get_running_loop()
    until_s, problem = loop.time() + limit_s, "nothing was tried"
    while loop.time() < until_s:
        try:
            await asyncio.to_thread(admin.install_plan, net.pages(broker), plan, 10.0)
        except CoveyError as error:
            problem = str(error)
            await asyncio.sleep(0.3)
        else:
            return
    raise AssertionError(f"no plan can be installed at {broker}: {problem}")
