"""Sources of a recovery for an origin with a restored log."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed

from broker.event.place import Mark
from broker.recovery.archive_access import Coverage
from tests.recovery.test_subscription_recovery import (
    EVENTS,
    GONE,
    OWN,
    WHOLE,
    Archived,
    Log,
    all_of,
    recovered,
)


@attrs.define
class Branches(Archived):
    origin: str = GONE
    second: int = 1

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        found = {o: [((0, 0), EVENTS[o][-1].mark)] for o in after}
        if self.origin in found:
            found[self.origin] += [((2, self.second), (2, self.second + 4))]
        return succeed(Coverage(found, is_known=True))


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize(
    ("archive", "first"),
    [
        (Branches(second=1), "archive"),
        (Branches(second=3), "logs"),
        (Branches(origin=OWN, second=1), "logs"),
    ],
    ids=["set back", "went on", "this node's own"],
)
def test_the_archive_comes_first_if_it_has_several_branches(
    archive: Branches, first: str, others: bool
) -> None:
    """Soak 7023: a replica had all of the new branch, and nothing of the old one."""
    recovery = recovered(attrs.evolve(archive), Log([GONE]), WHOLE, others=others)
    all_of(recovery)
    assert recovery.steps[0].source == first


def test_coverage_is_not_needed_for_a_range_of_one_epoch() -> None:
    ranges = {GONE: ((1, 1), (1, 3))}
    recovery = recovered(Branches(), Log([GONE]), ranges)
    assert all_of(recovery) == [(GONE, 2), (GONE, 3)]
    assert recovery.steps[0].source == "logs"
