from __future__ import annotations

import pytest

from broker.delivery.recovery_contract import MarkRange
from broker.delivery.splice import Splice, limit_ranges, splice_at_cut, splice_at_retention
from broker.event.place import Mark


def test_a_client_at_the_cut_recovers_nothing() -> None:
    cut: dict[str, Mark] = {"own": (1, 9), "far": (1, 5)}
    assert splice_at_cut(cut, cut, "own", {}) == Splice({}, cut)
    position: dict[str, Mark] = {"own": (1, 9), "far": (1, 4)}
    assert splice_at_cut(position, cut, "own", {}) == Splice({"far": ((1, 4), (1, 5))}, cut)


@pytest.mark.parametrize(
    ("had", "since", "recovered"),
    [
        ((1, 2), (1, 5), ((1, 2), (1, 5))),
        ((1, 5), (1, 5), None),
        ((1, 7), (1, 5), None),
        ((1, 2), None, None),
    ],
    ids=["lacks-some", "lacks-none", "is-further", "nothing-taken"],
)
def test_events_removed_by_retention_are_recovered(
    had: Mark, since: Mark | None, recovered: MarkRange | None
) -> None:
    seam = splice_at_retention({"own": had}, {}, {} if since is None else {"own": since})
    assert seam.ranges == ({} if recovered is None else {"own": recovered})
    assert seam.log_starts == {"own": had if recovered is None else (1, 5)}


def test_events_before_a_log_was_complete_are_recovered() -> None:
    complete: dict[str, Mark] = {"far": (1, 6), "near": (1, 3)}
    seam = splice_at_retention({"far": (1, 4), "near": (1, 3)}, complete, {"far": (1, 5)})
    assert seam == Splice({"far": ((1, 4), (1, 6))}, complete)


def test_ranges_end_at_a_position_and_empty_ones_are_dropped() -> None:
    ranges: dict[str, MarkRange] = {
        "one": ((1, 2), (1, 9)),
        "two": ((1, 2), None),
        "three": ((1, 2), (1, 3)),
        "four": ((1, 2), (1, 9)),
        "five": ((1, 2), (1, 9)),
    }
    until: dict[str, Mark] = {"one": (1, 5), "two": (1, 5), "three": (1, 5), "four": (1, 2)}
    cut = {"one": ((1, 2), (1, 5)), "two": ((1, 2), (1, 5)), "three": ((1, 2), (1, 3))}
    assert limit_ranges(ranges, until, {}) == cut
    assert limit_ranges({}, {"gone": (1, 5)}, {}) == {"gone": ((0, 0), (1, 5))}
    assert limit_ranges({}, {"gone": (1, 5)}, {"gone": (1, 3)}) == {"gone": ((1, 3), (1, 5))}
    assert limit_ranges({}, {"gone": (1, 5)}, {"gone": (1, 5)}) == {}
