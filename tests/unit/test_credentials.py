"""Passwords and tokens as they are kept, and the throttle."""

from __future__ import annotations

import pytest

from covey.broker.security import (
    PasswordHash,
    Throttle,
    check_password,
    find_token,
    hash_password,
    hash_token,
    new_token,
    read_password_hash,
    read_token_hash,
)
from covey.errors import ConfigError

WEAK = hash_password("horse", log2_n=4)


def test_a_password_is_checked_by_its_hash_as_text() -> None:
    known = read_password_hash(str(hash_password("correct horse")))
    assert check_password("correct horse", known)
    assert not check_password("correct hors", known)
    assert not check_password("", known)
    assert not check_password("x" * 5_000, known)


def test_the_same_password_has_another_hash_each_time() -> None:
    assert str(hash_password("a", log2_n=4)) != str(hash_password("a", log2_n=4))


def test_scrypt_as_rfc_7914_has_it() -> None:
    """Its second example: N = 1024, r = 8, p = 16, 64 bytes."""
    known = PasswordHash(
        10,
        8,
        16,
        b"NaCl",
        bytes.fromhex(
            "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
            "2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"
        ),
    )
    assert check_password("password", known)
    assert not check_password("passwore", known)


@pytest.mark.parametrize("size", [0, 1_025])
def test_a_password_has_a_size(size: int) -> None:
    with pytest.raises(ConfigError, match="from 1 to"):
        hash_password("x" * size)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "scrypt$14$8$1$AAAA",
        "scrypt$14$8$1$!!!!$AAAA",
        str(WEAK).replace("scrypt", "bcrypt"),
        str(WEAK).replace("$4$8$", "$40$8$"),
        str(WEAK).replace("$4$8$", "$20$8$"),  # a gigabyte for each check
        str(WEAK).replace("$4$8$", "$-1$8$"),
        str(WEAK).replace("$4$8$1$", "$4$8$1000000$"),
    ],
    ids=range(9),  # the salt is another one each time
)
def test_what_is_no_hash_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_password_hash(text)
    assert "secret" not in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_hash_does_not_show_itself() -> None:
    assert "$" not in repr(WEAK)


def test_tokens() -> None:
    tokens = [new_token() for _ in range(3)]
    known = [read_token_hash(hash_token(token)) for token in tokens]
    assert [find_token(token, known) for token in tokens] == [0, 1, 2]
    assert find_token("", known) is None
    assert find_token(tokens[0][:-1], known) is None
    assert find_token(tokens[0] + "x", known) is None


@pytest.mark.parametrize("text", ["", "sha256$", "sha256$00", "md5$" + "00" * 32, "sha256$" + "zz" * 32])
def test_what_is_no_tokens_hash(text: str) -> None:
    with pytest.raises(ConfigError, match="covey token"):
        read_token_hash(text)


def test_who_fails_too_often_waits_and_others_do_not() -> None:
    throttle = Throttle(burst=3, leak_s=10.0)
    for _ in range(3):
        assert throttle.wait_s("eve", 0.0) == 0.0
        throttle.failed("eve", 0.0)
    assert throttle.wait_s("eve", 0.0) == 10.0
    assert throttle.wait_s("ann", 0.0) == 0.0
    throttle.failed("eve", 0.0)
    assert throttle.wait_s("eve", 0.0) == 20.0
    assert throttle.wait_s("eve", 15.0) == 5.0
    assert throttle.wait_s("eve", 20.0) == 0.0
    assert throttle.wait_s("eve", 1_000.0) == 0.0


def test_a_throttle_forgets_the_oldest() -> None:
    throttle = Throttle(burst=1, leak_s=10.0, at_most=10)
    for number in range(100):
        throttle.failed(number, 0.0)
    assert len(throttle) == 10
    assert throttle.wait_s(99, 0.0) > 0
    assert throttle.wait_s(0, 0.0) == 0.0
