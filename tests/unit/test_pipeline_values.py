"""Values from text: what is exactly a number or a time is read, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from covey.pipeline.values import FIRST_US, LAST_US, reader


def micros(year: int, month: int, day: int, hour: int, minute: int, second: int, rest: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1_000_000 + rest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-02T03:04:05Z", micros(2026, 1, 2, 3, 4, 5)),
        (" 2026-01-02 03:04:05 ", micros(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02", micros(2026, 1, 2, 0, 0, 0)),
        ("2026-01-02T03:04", micros(2026, 1, 2, 3, 4, 0)),
        ("2026-01-02T03:04:05.5+01:00", micros(2026, 1, 2, 2, 4, 5, 500_000)),
        ("2026-01-02T03:04:05,123456789-0530", micros(2026, 1, 2, 8, 34, 5, 123_456)),
        ("2024-02-29t00:00:00z", micros(2024, 2, 29, 0, 0, 0)),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("0001-01-01", FIRST_US),
        ("9999-12-31T23:59:59.999999", LAST_US),
    ],
)
def test_times_are_read_exactly(text: str, value: int) -> None:
    assert reader("timestamp")(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yesterday", "not an ISO 8601 time"),
        ("", "not an ISO 8601 time"),
        ("2026", "bare number"),
        ("1767323045", "bare number"),
        ("1767323045123.25", "bare number"),
        ("20260102T030405Z", "not an ISO 8601 time"),
        ("2026-01", "not an ISO 8601 time"),
        ("03:04", "not an ISO 8601 time"),
        ("02/01/2026", "not an ISO 8601 time"),
        ("2026-01-02T03:04:05 CET", "not an ISO 8601 time"),
        ("٢٠٢٦-01-02", "not an ISO 8601 time"),
        ("2026-02-30T00:00:00Z", "does not exist"),
        ("2025-02-29", "does not exist"),
        ("2026-01-02T24:00:00Z", "does not exist"),
        ("2026-01-02T03:04:05+24:00", "does not exist"),
        ("0000-01-01", "does not exist"),
        ("0001-01-01T00:00:00+01:00", "out of range"),
    ],
)
def test_what_is_no_time_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        reader("timestamp")(text)


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("s", "1767323045", 1_767_323_045_000_000),
        ("s", "1767323045.123456789", 1_767_323_045_123_456),
        ("ms", "1767323045123", 1_767_323_045_123_000),
        ("us", "1767323045123456", 1_767_323_045_123_456),
        ("us", "1.767323045123456e15", 1_767_323_045_123_456),
        ("s", "-0.5", -500_000),
        ("us", "0", 0),
    ],
)
def test_epochs_are_read_in_their_unit(unit: str, text: str, value: int) -> None:
    assert reader("timestamp", unit)(text) == value


@pytest.mark.parametrize(
    ("unit", "text", "said"),
    [
        ("s", "1767323045123", "out of range"),  # these are milliseconds
        ("ms", "1767323045123456", "out of range"),
        ("us", "1e999999999", "out of range"),
        ("us", "9" * 1000, "out of range"),
        ("ms", "2026-01-02T03:04:05Z", "not a number of ms"),
        ("ms", "NaN", "not a number of ms"),
    ],
)
def test_what_is_no_epoch_is_refused(unit: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        reader("timestamp", unit)(text)


def test_numbers() -> None:
    for text, value in [("2.5", 2.5), (" 3 ", 3.0), ("-1e3", -1000.0), (".5", 0.5), ("5.", 5.0)]:
        assert reader("double")(text) == value
    for text in ("abc", "", "NaN", "inf", "-Infinity", "0x10", "1_000", "1,5", "1.0d", "2.5 €"):
        with pytest.raises(ValueError, match="not a number"):
            reader("double")(text)
    with pytest.raises(ValueError, match="out of range"):
        reader("double")("-1e999")
    for text, whole in [("3", 3), ("-3", -3), ("3.0", 3), ("2147483647", (1 << 31) - 1)]:
        assert reader("int")(text) == whole
    for text in ("3.5", "1e3", "", "three", "NaN"):
        with pytest.raises(ValueError, match="not a whole number"):
            reader("int")(text)
    for text in ("2147483648", "9" * 10_000):
        with pytest.raises(ValueError, match="out of range"):
            reader("int")(text)
