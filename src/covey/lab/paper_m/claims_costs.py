"""Claims M3 to M7: samples, SemCast, one tree, and many, judged on all documents under the judged reading.

Where another reading gives another verdict, the reason says so with numbers: costs on the sample alone, a plain
transit-stub graph, subscriptions of brokers instead of keywords, documents of one word, a shortest-path tree that
floods.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from covey.lab.claim import Claim, Verdict
from covey.lab.experiment import Results, Value
from covey.lab.paper_m.costs import COSTS, SAMPLING
from covey.lab.paper_m.numbers import TAKEN, listed, mean, sizes, values
from covey.lab.paper_m.world import DATA, READING, real

LITTLE = 0.05  # M3: what may be gained beyond the sample
TWICE, SAVED = (1.5, 2.5), (0.2, 0.4)  # M4: about 2, about 30 %
TENFOLD = 7.5  # M5: about 10, at the largest network
BELOW, NEAR_OPT = 0.55, 1.10  # M6: nearly 60 to 70 % below; within 10 %
SAME = 0.02  # M7: "almost the same"
LOCALIZED = ("Localized1", "Localized2")
CHANNELS = "semcast merge+split"


def judge_sampling(results: Results) -> Verdict:
    """M3."""
    rows = results.rows(SAMPLING, scheme="mult")
    sampled, most = real(rows[0], "sample"), max(real(row, "share") for row in rows)

    def gain(scheme: str, **where: Value) -> float:
        few, many = (
            mean(results, SAMPLING, "all_cost", scheme=scheme, share=share, **where)
            for share in (sampled, most)
        )
        return 1 - many / few

    mult = {data: gain("mult", data=data) for data in DATA}
    single = {data: gain("single", data=data) for data in DATA}
    plain = {data: gain("mult", data=data, topology="TS") for data in DATA}
    light = gain("mult", data="Localized1", words=1)
    idle, words = (
        values(results, SAMPLING, column, scheme="mult", share=sampled, data="Localized1")[0]
        for column in ("idle_subscriptions", "keywords")
    )
    lost = (
        f"Groups need more than one tree does: {idle:,.0f} subscriptions to {words:,.0f} keywords match nothing in the "
        "sample and go somewhere by their words alone. "
    )
    return Verdict(
        f"from {sampled:.0%} to {most:.0%} of the documents MULT's cost falls by {_by_data(mult)}, SINGLE's by "
        f"{_by_data(single)}",
        max(*mult.values(), *single.values()) <= LITTLE,
        f"Little is read as {LITTLE:.0%}. Reading: {READING}; cost on all documents. "
        f"{lost if max(mult.values()) > LITTLE else ''}On TS MULT's falls by {_by_data(plain)}; with documents of one "
        f"word by {light:.1%} (Localized1). {TAKEN}.",
    )


def _by_data(shares: dict[str, float]) -> str:
    return ", ".join(f"{share:.1%} ({data})" for data, share in shares.items())


def judge_semcast(results: Results) -> Verdict:
    """M4."""

    def factor(scheme: str, other: str, **where: Value) -> float:
        return mean(results, COSTS, "all_cost", scheme=scheme, **where) / mean(
            results, COSTS, "all_cost", scheme=other, **where
        )

    by_size = [factor(CHANNELS, "mult", data="Localized1", brokers=n) for n in sizes(results, COSTS)]
    saved = [
        1 - factor(f"{CHANNELS} filtered", CHANNELS, data="Localized1", brokers=n)
        for n in sizes(results, COSTS)
    ]
    least = sizes(results, COSTS)[0]
    others = []
    for topology, per, words in (("TSX2", "keyword", 3), ("TS", "keyword", 3), ("TS", "broker", 1)):
        for scheme in ("semcast merge", CHANNELS):
            where: dict[str, Value] = {"data": "Localized1", "brokers": least}
            where |= {"topology": topology, "per": per, "words": words}
            more, less = factor(scheme, "mult", **where), 1 - factor(f"{scheme} filtered", scheme, **where)
            others.append(f"{topology} a {per}'s {words} words, {scheme[8:]}: {more:.2f}, saves {less:.0%}")
    ratio, saving = sum(by_size) / len(by_size), sum(saved) / len(saved)
    return Verdict(
        f"{listed(by_size)} times MULT at {_brokers(results)} brokers, filtering saves {saving:.0%}",
        TWICE[0] <= ratio <= TWICE[1] and SAVED[0] <= saving <= SAVED[1],
        "About 2 is read as 1.5 to 2.5, about 30 % as 20 to 40 %, on average. Localized1, cost on all documents; "
        f"reading: {READING}. How SemCast forms channels is known from short descriptions only: this one merges and "
        f"splits them. It depends on that and on the reading, at {least} brokers: {'; '.join(others)}. {TAKEN}.",
    )


def judge_single(results: Results) -> Verdict:
    """M5."""

    def factors(other: str, data: str, **where: Value) -> list[float]:
        return [
            mean(results, COSTS, "all_cost", scheme=other, data=data, brokers=n, **where)
            / mean(results, COSTS, "all_cost", scheme="single", data=data, brokers=n, **where)
            for n in sizes(results, COSTS, **where)
        ]

    found = factors("spt", "Localized1")
    flooded, plain = factors("flooding", "Localized1"), factors("flooding", "Localized1", topology="TS")
    rising = all(a < b for a, b in pairwise(found))
    return Verdict(
        f"SPT / SINGLE {listed(found)} at {_brokers(results)} brokers (Localized1), "
        f"{listed(factors('spt', 'Uniform'))} (Uniform)",
        found[-1] >= TENFOLD and rising,
        f"Up to 10 is read as {TENFOLD} or more at the largest network, rising with every size. Reading: {READING}; "
        "cost on all documents; on SPT documents go only where they are wanted, as in all of the paper. Then a "
        "random tree of shortest paths is not much worse than the best tree. If SPT floods, "
        f"{listed(flooded, '.1f')} (TS: {listed(plain, '.1f')}): that grows with the network, as the paper says, "
        f"and is the likelier reading of its figure. {TAKEN}.",
    )


def judge_optimum(results: Results) -> Verdict:
    """M6."""

    def share(scheme: str, other: str, column: str, **where: Value) -> list[float]:
        return [
            mean(results, COSTS, column, scheme=scheme, brokers=n, **where)
            / mean(results, COSTS, column, scheme=other, brokers=n, **where)
            for n in sizes(results, COSTS)
        ]

    below = {data: [1 - x for x in share("opt", "single", "all_cost", data=data)] for data in LOCALIZED}
    near = share("mult", "opt", "all_cost", data="Localized1")
    sampled = share("mult", "opt", "sample_cost", data="Localized1")
    gain = [1 - x for x in share("mult", "single", "sample_cost", data="Localized1")]
    least = sizes(results, COSTS)[0]
    single_word = mean(
        results, COSTS, "all_cost", scheme="mult", words=1, data="Localized1", brokers=least
    ) / mean(results, COSTS, "all_cost", scheme="opt", words=1, data="Localized1", brokers=least)
    by_topology = []
    for topology in dict.fromkeys(
        str(row["topology"]) for row in results.rows(COSTS, per="keyword", words=3, near=1)
    ):
        where: dict[str, Value] = {"topology": topology, "data": "Localized1", "brokers": least}
        opt, one = (mean(results, COSTS, "all_cost", scheme=scheme, **where) for scheme in ("opt", "single"))
        by_topology.append(f"{topology} {1 - opt / one:.0%}")
    return Verdict(
        f"OPT is {_per_cent(below['Localized1'])} below SINGLE (Localized1) and {_per_cent(below['Localized2'])} "
        f"(Localized2) at {_brokers(results)} brokers; MULT is {_per_cent(x - 1 for x in near)} above OPT (Localized1)",
        min(min(shares) for shares in below.values()) >= BELOW and max(near) <= NEAR_OPT,
        f"Reading: {READING}; cost on all documents. On its own sample MULT is {_per_cent(x - 1 for x in sampled)} "
        f"above OPT and {_per_cent(gain)} below SINGLE: a plan for few documents is good for these. With documents "
        f"of one word it is {single_word - 1:.0%} above OPT on all. How far OPT is below SINGLE depends on cycles "
        f"and on how good the one tree is, at {least} brokers: {', '.join(by_topology)}. {TAKEN}.",
    )


def _per_cent(shares: Iterable[float]) -> str:
    return f"{listed((100 * share for share in shares), '.0f')} %"


def judge_uniform(results: Results) -> Verdict:
    """M7."""
    trees = [int(x) for x in values(results, COSTS, "trees", scheme="mult", data="Uniform")]
    apart = [
        mean(results, COSTS, "all_cost", scheme="mult", data="Uniform", brokers=n)
        / mean(results, COSTS, "all_cost", scheme="single", data="Uniform", brokers=n)
        - 1
        for n in sizes(results, COSTS)
    ]
    held = [int(x) for x in values(results, COSTS, "trees", scheme="held-out", data="Uniform")]
    others = []
    several: tuple[dict[str, Value], ...] = (
        {"topology": "TS", "per": "broker", "words": 1},
        {"topology": "TSX2", "per": "broker", "words": 3},
    )
    for reading in several:
        found = {data: values(results, COSTS, "trees", scheme="mult", data=data, **reading) for data in DATA}
        counts = ", ".join(f"{data} {listed(numbers, '.0f')}" for data, numbers in found.items())
        others.append(f"{reading['topology']} with {reading['words']} words: {counts}")
    liked = "The sample likes groups, and all documents pay for them. " if max(trees) > 1 else ""
    return Verdict(
        f"{listed(trees, 'd')} groups by MULT on Uniform, at {_brokers(results)} brokers; "
        f"{listed([100 * x for x in apart], '+.0f')} % against SINGLE on all documents",
        all(count == 1 for count in trees) and all(abs(x) <= SAME for x in apart),
        f"Reading: {READING}. {liked}If their number is chosen on documents held out, it is {listed(held, 'd')}. If a "
        f"subscription is all of a broker's keywords, MULT's groups are ({'; '.join(others)}). {TAKEN}.",
    )


def _brokers(results: Results) -> str:
    return ", ".join(f"{n:,}" for n in sizes(results, COSTS))


CLAIMS = (
    Claim(
        "M3",
        "M",
        "A sample of 3 % of the documents is enough: beyond it, the cost on all documents falls only marginally.",
        (SAMPLING,),
        judge_sampling,
    ),
    Claim(
        "M4",
        "M",
        "SemCast costs nearly twice as much as MULT; filtering inside its trees saves 30 % of it.",
        (COSTS,),
        judge_semcast,
    ),
    Claim(
        "M5",
        "M",
        "One tree by COMPUTETREE (SINGLE) costs up to 10 times less than a tree of shortest paths from a random broker "
        "(SPT), a factor that rises with the network from 500 to 5,000 brokers.",
        (COSTS,),
        judge_single,
    ),
    Claim(
        "M6",
        "M",
        "On localized data OPT costs nearly 60 to 70 % less than SINGLE, and MULT is within 10 % of OPT.",
        (COSTS,),
        judge_optimum,
    ),
    Claim(
        "M7",
        "M",
        "On Uniform data MULT ends with one group, and several trees bring nothing.",
        (COSTS,),
        judge_uniform,
    ),
)
