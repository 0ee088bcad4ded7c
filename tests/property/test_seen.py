"""Events that were here before: none of the last ones is forgotten, and none is known that was not here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from covey.protocol.events import name_of
from covey.routing.seen import Seen

SIZE = 4
numbers = st.sampled_from([0, 1, 2, 15, 2**63, 2**64 - 1])
names = st.one_of(st.builds(name_of, numbers, numbers), st.sampled_from(["e1", "01.1", "1.", "A.1", "1.1.1"]))


@given(st.lists(names, max_size=60))
def test_the_last_events_are_known(said: list[str]) -> None:
    seen, order = Seen(SIZE), list[str]()
    for name in said:
        is_new = seen.add(name)
        # Those of either form are remembered apart, each at least as long as it would be alone.
        if name in order[-SIZE:]:
            assert not is_new
        if name not in order:
            assert is_new
        if is_new:
            order = [other for other in order if other != name] + [name]


def test_a_table_is_emptied_in_time() -> None:
    seen = Seen(100)
    for number in range(1_000):
        assert seen.add(name_of(7, number))
        assert not seen.add(name_of(7, max(0, number - 99)))
    assert seen.add(name_of(7, 0))  # at most twice as many are known
