"""Keyword filters compared in one run: asking every filter, and the index.

Filters ask for one to three of a few words each, as disjunctions of up to three conjunctions; words are drawn by Zipf's
law, documents have twenty of them. The scan is measured on a sample of the filters and scaled up; answers are compared
on that sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from covey.bench.comparison import Comparison
from covey.bench.timing import best_us
from covey.core.keywords.filter import KeywordFilter
from covey.matching.keywords import KeywordIndex
from covey.workloads.attributes import zipf_shares
from covey.workloads.keywords import word

WORDS: Final = 5_000
DOCUMENT_WORDS: Final = 20
DOCUMENTS: Final = 100
SCANNED_FILTERS: Final = 2_000
SCANNED: Final = 10  # documents and filters that are asked of the scan
SEED: Final = 20_26
SHARES: Final = np.diff(zipf_shares(WORDS), prepend=0.0)  # of each word


def compare(progress: Callable[[str], None], *, sizes: Sequence[int], seed: int = SEED) -> list[Comparison]:
    """Return for each number of filters what matching and covering cost beside asking every filter."""
    generator = np.random.default_rng(seed)
    progress(f"making {max(sizes):,} filters")
    filters = draw_filters(generator, max(sizes))
    asked = draw_filters(generator, DOCUMENTS)
    documents = [
        frozenset(map(word, generator.choice(WORDS, DOCUMENT_WORDS, replace=False, p=SHARES).tolist()))
        for _ in range(DOCUMENTS)
    ]
    result: list[Comparison] = []
    for size in sorted(sizes):
        progress(f"{size:,} filters")
        result += _measure(filters[:size], asked, documents)
    return result


def draw_filters(generator: np.random.Generator, count: int) -> list[KeywordFilter]:
    """Return random filters: one to three conjunctions of one to three words."""
    drawn = generator.choice(WORDS, (count, 9), p=SHARES).tolist()
    shapes = generator.integers(1, 4, (count, 4)).tolist()
    return [
        KeywordFilter.any_of(
            [word(number) for number in numbers[3 * place : 3 * place + shape[1 + place]]]
            for place in range(shape[0])
        )
        for numbers, shape in zip(drawn, shapes, strict=True)
    ]


def _measure(
    filters: list[KeywordFilter], asked: list[KeywordFilter], documents: list[frozenset[str]]
) -> list[Comparison]:
    index = KeywordIndex()
    for handle, filter in enumerate(filters):
        index.add(handle, filter)
    step = max(1, len(filters) // SCANNED_FILTERS)
    sample = range(0, len(filters), step)
    scale = len(filters) / len(sample)

    def scanned_matches() -> list[set[int]]:
        return [{h for h in sample if filters[h].matches(one)} for one in documents[:SCANNED]]

    def scanned_covering() -> list[set[int]]:
        return [{h for h in sample if filters[h].covers(one)} for one in asked[:SCANNED]]

    def among(answers: Iterable[np.ndarray]) -> list[set[int]]:
        return [set(answer.tolist()).intersection(sample) for answer in answers]

    matches_equal = among(index.match(one) for one in documents[:SCANNED]) == scanned_matches()
    covering_equal = among(index.covering(one) for one in asked[:SCANNED]) == scanned_covering()
    figures = (
        (
            "all matches of a document",
            best_us(lambda: [index.match(one) for one in documents], len(documents)),
            best_us(scanned_matches, SCANNED, rounds=2) * scale,
            matches_equal,
        ),
        (
            "all that cover a filter",
            best_us(lambda: [index.covering(one) for one in asked], len(asked)),
            best_us(scanned_covering, SCANNED, rounds=2) * scale,
            covering_equal,
        ),
    )
    return [
        Comparison(
            part="keywords",
            work=work,
            unit="µs",
            axis="filters",
            size=len(filters),
            ours=ours,
            baseline="scan",
            theirs=theirs,
            equal=equal,
        )
        for work, ours, theirs, equal in figures
    ]
