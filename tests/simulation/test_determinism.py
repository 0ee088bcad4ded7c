"""One seed, one run: the inputs and the effects of all brokers are the same, byte by byte, in every process."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

from covey.broker.effects import Effect, Input
from covey.sim import BrokerNetwork
from tests.hashing import said_under_hash_seeds
from tests.simulation.traffic import Traffic

RING = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]


class Transcript:
    """What went into the cores of all brokers and came out of them, as a digest of lines."""

    def __init__(self) -> None:
        self.lines = 0
        self._digest = blake2b(digest_size=16)

    def __call__(self, broker: str, one: Input | Effect) -> None:
        self.lines += 1
        self._digest.update(f"{broker} {one!r}\n".encode())

    def __str__(self) -> str:
        return f"{self.lines} {self._digest.hexdigest()}"


def transcript(strategy: str, seed: int) -> str:
    """Return the transcript of a life with faults."""
    heard = Transcript()
    net = BrokerNetwork(
        RING, strategy, seed=seed, durable=True, delay="exponential", delay_ms=2.0, observer=heard
    )
    traffic = Traffic(net, Random(seed))
    traffic.populate()
    traffic.subscribe("c", "x >= 2", "reader", "all")
    net.settle()
    traffic.publish(20)
    traffic.publish(20, confirm=True)
    net.run(net.now_s + 0.004)
    net.kill("b")
    traffic.publish(20, confirm=True)
    net.hang("d")
    net.run(net.now_s + 12.0)
    net.restart("b")
    net.go_on("d")
    net.link_down("a", "b")
    net.settle()
    net.drain("c")
    net.settle()
    deliveries = [(one.client.name, event["n"]) for one, event in net.deliveries]
    return f"{heard} {deliveries}"


def test_two_runs_with_one_seed_are_the_same_and_others_are_not() -> None:
    for strategy in ("covering", "incremental", "xroute"):
        first = transcript(strategy, 1)
        assert transcript(strategy, 1) == first
        assert transcript(strategy, 2) != first


def test_hashes_change_nothing() -> None:
    program = (
        "from tests.simulation.test_determinism import transcript\n"
        "for strategy in ('covering', 'merging', 'xroute-sets', 'match-first', 'incremental', 'simple'):\n"
        "    print(strategy, transcript(strategy, 3))\n"
    )
    one, other = said_under_hash_seeds(program)
    assert one.count("\n") == 6
    assert other == one
