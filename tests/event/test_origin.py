from __future__ import annotations

import pytest

from broker.event.origin import ORIGIN, new_origin, origin_start_ms


def test_a_name_tells_to_the_second_when_its_log_began() -> None:
    name = new_origin(1_700_000_123_999)
    assert origin_start_ms(name) == 1_700_000_123_000
    assert ORIGIN.fullmatch(name) and len(name) == 24


def test_two_logs_that_begin_at_once_have_two_names() -> None:
    assert new_origin(5) != new_origin(5)


@pytest.mark.parametrize("name", ["a" * 16, "", "a", "g" * 24, "a" * 25])
def test_other_names_tell_nothing(name: str) -> None:
    assert origin_start_ms(name) == 0
