from __future__ import annotations

import pytest

from broker.event.origin import (
    ORIGIN,
    is_key_known,
    new_origin,
    origin_has_key,
    origin_start_ms,
)


def test_a_name_tells_to_the_second_when_its_log_began() -> None:
    name = new_origin(1_700_000_123_999)
    assert origin_start_ms(name) == 1_700_000_123_000
    assert ORIGIN.fullmatch(name) and len(name) == 24


def test_two_logs_that_begin_at_once_have_two_names() -> None:
    assert new_origin(5) != new_origin(5)


@pytest.mark.parametrize("name", ["a" * 16, "", "a", "g" * 24, "a" * 25])
def test_other_names_tell_nothing(name: str) -> None:
    assert origin_start_ms(name) == 0


def test_other_keys_of_a_known_log_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = b"k" * 32, b"o" * 32
    origin, unsigned = new_origin(1_700_000_000_000, key), new_origin(1_700_000_000_000)
    assert not is_key_known(origin) and is_key_known(unsigned)
    assert not origin_has_key(origin, other) and not is_key_known(origin)
    assert origin_has_key(origin, key) and is_key_known(origin)
    monkeypatch.setattr("broker.event.origin._hash_of_key", None)
    assert origin_has_key(origin, key) and not origin_has_key(origin, other)
    assert not origin_has_key(unsigned, key)


def test_known_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.event.origin._MOST_KEYS", 2)
    monkeypatch.setattr("broker.event.origin._keys", {})
    origins = [new_origin(1_700_000_000_000 + 1000 * n, b"k" * 32) for n in range(3)]
    for each in origins:
        assert origin_has_key(each, b"k" * 32)
    assert [is_key_known(each) for each in origins] == [False, True, True]
