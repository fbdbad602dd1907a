"""Places as peers may write them."""

from __future__ import annotations

import pytest

from broker.wire import fields

LARGEST = ((1 << 32) - 1, (1 << 63) - 1)


def test_a_mark_is_one_that_a_log_can_have() -> None:
    assert fields.mark(list(LARGEST)) == LARGEST
    assert fields.position([["o", *LARGEST]]) == (("o", *LARGEST),)


@pytest.mark.parametrize(
    "mark", [(1 << 32, 1), (1, 1 << 63), (-1, 1), (1, -1), (1.0, 1), (True, 1)]
)
def test_others_are_refused(mark: tuple[int, int]) -> None:
    with pytest.raises((TypeError, ValueError)):
        fields.mark(mark)
    with pytest.raises((TypeError, ValueError)):
        fields.position([("o", *mark)])
