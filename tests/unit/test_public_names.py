"""What `import covey` offers, and the choice of a family by language and by first byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import covey


def test_every_public_name_is_there() -> None:
    assert set(dir(covey)) == set(covey.__all__)
    for name in covey.__all__:
        assert getattr(covey, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        covey.nothing


def test_errors_have_one_base() -> None:
    for error in (
        covey.FilterError,
        covey.EventError,
        covey.ProtocolError,
        covey.ConfigError,
        covey.PlanError,
    ):
        assert issubclass(error, covey.CoveyError)


@pytest.mark.parametrize(
    ("language", "text"),
    [("attributes", "a = 1"), ("xpath", "//a"), ("keywords", "a or b")],
)
def test_each_family_is_parsed_and_decoded(language: str, text: str) -> None:
    parsed = covey.parse(text, language=language)
    assert parsed.family == language
    assert covey.decode(parsed.encode()) == parsed
    for other in ("attributes", "xpath", "keywords"):
        if other != language:
            stranger = covey.parse(
                {"attributes": "a = 1", "xpath": "//a", "keywords": "a"}[other], language=other
            )
            assert not parsed.covers(stranger)
            assert not parsed.overlaps(stranger)
            assert parsed != stranger
            with pytest.raises(covey.FilterError):
                parsed.merge(stranger)


def test_unknown_languages_and_bytes_are_refused() -> None:
    with pytest.raises(covey.FilterError, match="attributes, xpath, keywords"):
        covey.parse("a = 1", language="sql")
    with pytest.raises(covey.FilterError, match="empty"):
        covey.decode(b"")
    with pytest.raises(covey.FilterError, match="'Z'"):
        covey.decode(b"Z123")
    with pytest.raises(covey.FilterError, match="not str"):
        covey.decode("A")  # type: ignore[arg-type]


@given(
    st.binary(max_size=100)
    | st.tuples(st.sampled_from([b"A", b"X", b"K"]), st.binary(max_size=100)).map(b"".join)
)
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        decoded = covey.decode(data)
    except covey.FilterError:
        return
    assert decoded.encode() == data
