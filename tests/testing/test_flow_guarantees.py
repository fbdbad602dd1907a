from __future__ import annotations

import pytest

from broker.event.place import Place
from broker.testing.guarantees import check
from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.records import Guarantee, ReportedGap
from tests.testing.test_guarantees import Run


def test_flows_of_an_origin_may_overtake_each_other() -> None:
    run = Run()
    run.deliver(2, 1, 3, 5, 4)
    run.change(2, place=Place("a/s", 1, 1))
    run.change(5, place=Place("a/s", 1, 4))
    assert check(run.seen, Allowances()) == []
    run.change(2, place=Place("a/s", 1, 4))
    run.change(5, place=Place("a/s", 1, 1))
    assert {each.guarantee for each in check(run.seen, Allowances())} == {Guarantee.ORDER}


def test_a_gap_of_a_flow_contains_its_places_in_the_log() -> None:
    gap = ReportedGap("a/s", (1, 2), (1, 4), 3, "lost")
    assert gap.contains(Place("a/s", 1, 3)) and not gap.contains(Place("a", 1, 3))
    assert gap.contains_logged(Place("a/s", 1, 3)) and gap.contains_logged(Place("a", 1, 3))
    assert not gap.contains_logged(Place("a/t", 1, 3))
    assert not gap.contains_logged(Place("a", 1, 5))
    assert not ReportedGap("a", (1, 2), (1, 4), 3, "lost").contains_logged(Place("a/s", 1, 3))


@pytest.mark.parametrize(("default", "flow", "is_due"), [(2, 1, True), (1, 3, False)])
def test_an_event_is_due_behind_the_first_cut_of_its_flow(
    default: int, flow: int, is_due: bool
) -> None:
    run = Run()
    run.process.record_flow({"a": (1, default), "a/s": (1, flow)})
    run.seen.record_place(run.keys[1], Place("a/s", 1, 2))
    run.deliver(3, 4, 5)
    missing = [each.key for each in check(run.seen, Allowances())]
    assert missing == ([run.keys[1]] if is_due else [])
