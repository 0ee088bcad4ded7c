"""Links as bits: against bits set one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from covey.planning.link_bits import bits_of, links_of


@given(st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, max(0, n - 1))))))
def test_each_link_has_its_bit(given: tuple[int, set[int]]) -> None:
    count, links = given[0], {link for link in given[1] if link < given[0]}
    bits = bits_of(sorted(links), count)
    assert len(bits) == -(-count // 8)
    assert {place for place in range(8 * len(bits)) if bits[place // 8] >> place % 8 & 1} == links
    assert links_of(bits).tolist() == sorted(links)
