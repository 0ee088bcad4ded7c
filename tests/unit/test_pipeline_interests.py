"""How many interests come before those of a broker: whatever order and batches the sizes of brokers come in."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from covey.pipeline.interests import offset_batches

SIZES = st.dictionaries(st.text(max_size=4), st.integers(1, 2**40), max_size=12)


@given(SIZES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_offsets_are_running_sums_in_the_order_of_names(
    sizes: dict[str, int], step: int, random: Random
) -> None:
    rows = list(sizes.items())
    random.shuffle(rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(rows), step):
            names, counts = zip(*rows[first : first + step], strict=True)
            arrays = [pa.array(names, pa.string()), pa.array(counts, pa.int64())]
            yield pa.RecordBatch.from_arrays(arrays, ["broker", "_size"])

    found: dict[str, int] = {}
    for batch in offset_batches(batches()):
        assert batch.schema.names == ["broker", "_before"]
        found.update(
            zip(batch.column("broker").to_pylist(), batch.column("_before").to_pylist(), strict=True)
        )
    # Names sort by their bytes, as Spark sorts them.
    expected, before = {}, 0
    for name in sorted(sizes, key=str.encode):
        expected[name] = before
        before += sizes[name]
    assert found == expected
