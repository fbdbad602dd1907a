"""The checker of the guarantees finds each violation in constructed runs, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from broker.event.place import Place
from broker.testing.guarantees import (
    Allowances,
    Delivered,
    End,
    EventKey,
    Guarantee,
    Kind,
    Observations,
    Process,
    Published,
    ReportedGap,
    check,
    report,
)
from broker.testing.guarantees.allowances import NONE

EVENTS = 5


class Run:
    """Five acknowledged events at one origin, and a subscription that was active before."""

    def __init__(self, kind: Kind = Kind.DURABLE) -> None:
        self.seen = Observations()
        self.keys = [EventKey("p", 1, number) for number in range(1, EVENTS + 1)]
        for key in self.keys:
            self.seen.record_publication(
                Published(key, "s", "flight 1.0", 1, "bytes", at=key.number)
            )
            self.seen.record_receipt(key, "node", Place("a", 1, key.number), key.number + 0.5)
        self.seen.has_all_places = True
        self.subscriber = self.seen.add_subscriber("reader", lambda event: True, kind=kind)
        self.process = self.come()

    def come(self) -> Process:
        process = self.subscriber.add_process()
        process.record_flow({"a": (1, 0)})
        return process

    def delivered(self, number: int) -> Delivered:
        place = Place("a", 1, number)
        return Delivered(self.keys[number - 1], place, "s", "flight 1.0", 1, "bytes", "live")

    def deliver(self, *numbers: int) -> None:
        self.process.items += map(self.delivered, numbers)

    def change(self, number: int, **values: Any) -> None:
        self.process.items[number - 1] = attrs.evolve(self.process.items[number - 1], **values)

    def gap(self, first: int, last: int, reason: str = "lost") -> ReportedGap:
        gap = ReportedGap("a", (1, first), (1, last), last - first + 1, reason)
        self.process.items.append(gap)
        return gap


def complete() -> Run:
    run = Run()
    run.deliver(1, 2, 3, 4, 5)
    return run


def one_missing() -> Run:
    run = Run()
    run.deliver(1, 2, 4, 5)
    return run


def not_handled() -> Run:
    run = one_missing()
    run.process.items.insert(2, attrs.evolve(run.delivered(3), handled=False))
    run.process.end = End.KILLED
    run.come()
    return run


def nowhere() -> Run:
    run = complete()
    run.seen.places.pop(run.keys[2])
    return run


def one_place_for_two() -> Run:
    run = complete()
    run.seen.record_place(run.keys[2], Place("a", 1, 1))
    return run


def dead() -> Run:
    run = complete()
    run.process.error = "BadPosition"
    return run


def twice() -> Run:
    run = complete()
    run.process.items.append(attrs.evolve(run.delivered(5), place=Place("b", 1, 1)))
    return run


def again_after_close() -> Run:
    run = complete()
    run.process.end = End.CLOSED
    run.come().items.append(run.delivered(5))
    return run


@pytest.mark.parametrize("warned", [1, 2, 3])
def test_events_of_closed_processes_come_again_after_a_warning(warned: int) -> None:
    run = complete()
    run.process.end = End.CLOSED
    again = run.come()
    again.end = End.CLOSED
    run.come().items.append(run.delivered(5))
    run.subscriber.processes[warned - 1].may_repeat = True
    violations = [each.guarantee for each in check(run.seen)]
    assert violations == ([Guarantee.ONCE] if warned == 1 else [])


def places_fall() -> Run:
    run = Run()
    run.deliver(2, 1, 3, 4, 5)
    return run


def numbers_fall() -> Run:
    run = complete()
    run.change(1, key=run.keys[1])
    run.change(2, key=run.keys[0])
    return run


def logged_again() -> Run:
    run = Run()
    run.deliver(2, 3, 4, 5)
    again = Place("a", 1, 6)
    run.process.items.append(attrs.evolve(run.delivered(1), place=again))
    run.seen.record_place(run.keys[0], again)
    return run


def altered() -> Run:
    run = complete()
    run.change(3, digest="other")
    return run


def stale() -> Run:
    run = complete()
    run.process.record_flow({"a": (1, 1)})
    return run


def forged() -> Run:
    run = complete()
    run.process.items.append(
        attrs.evolve(run.delivered(5), key=EventKey("q", 1, 1), place=Place("a", 1, 6))
    )
    return run


def unwanted() -> Run:
    run = complete()
    run.subscriber.matches = lambda event: event.key.number != 3
    return run


def unjustified_gap() -> Run:
    run = Run()
    run.deliver(1, 2)
    run.gap(3, 3)
    run.deliver(4, 5)
    return run


def gap_around_arrived() -> Run:
    run = complete()
    run.gap(5, 6)
    return run


def gap_after_close() -> Run:
    run = complete()
    run.process.end = End.CLOSED
    gap = run.gap(5, 6)
    run.process.items.remove(gap)
    run.come().items.append(gap)
    return run


def gap_without_range() -> Run:
    run = complete()
    run.gap(7, 6)
    return run


def unknown_reason() -> Run:
    run = complete()
    run.gap(6, 7, "because")
    return run


def above_clearance() -> Run:
    run = complete()
    run.subscriber.clearance = 0
    return run


def gap_above_clearance() -> Run:
    run = Run()
    run.subscriber.clearance = 0
    run.gap(1, 5, "slow")
    return run


def hole_of_ended_transient() -> Run:
    run = Run(Kind.TRANSIENT)
    run.deliver(1, 3)
    run.process.end = End.KILLED
    return run


BROKEN: list[tuple[Callable[[], Run], set[Guarantee]]] = [
    (one_missing, {Guarantee.DURABILITY}),
    (not_handled, {Guarantee.AT_LEAST_ONCE}),
    (nowhere, {Guarantee.DURABILITY}),
    (one_place_for_two, {Guarantee.DURABILITY}),
    (dead, {Guarantee.DURABILITY}),
    (twice, {Guarantee.ONCE}),
    (again_after_close, {Guarantee.ONCE}),
    (places_fall, {Guarantee.ORDER}),
    (numbers_fall, {Guarantee.ORDER}),
    (logged_again, {Guarantee.ORDER}),
    (altered, {Guarantee.BYTES}),
    (stale, {Guarantee.BYTES}),
    (forged, {Guarantee.BYTES}),
    (unwanted, {Guarantee.BYTES}),
    (unjustified_gap, {Guarantee.DURABILITY}),
    (gap_around_arrived, {Guarantee.GAPS, Guarantee.ORDER}),
    (gap_after_close, {Guarantee.GAPS}),
    (gap_without_range, {Guarantee.GAPS}),
    (unknown_reason, {Guarantee.GAPS}),
    (above_clearance, {Guarantee.CLEARANCE}),
    (gap_above_clearance, {Guarantee.CLEARANCE}),
    (hole_of_ended_transient, {Guarantee.DURABILITY}),
]


@pytest.mark.parametrize(("make", "broken"), BROKEN, ids=[make.__name__ for make, _ in BROKEN])
def test_each_violation_is_found(make: Callable[[], Run], broken: set[Guarantee]) -> None:
    run = make()
    assert {each.guarantee for each in check(run.seen)} <= broken
    assert check(run.seen)


def test_a_missing_event_of_a_new_type_breaks_the_guarantee_of_types() -> None:
    allowed = Allowances(new_types=frozenset({"flight 1.0"}))
    (violation,) = check(one_missing().seen, allowed)
    assert violation.guarantee is Guarantee.TYPES


@pytest.mark.parametrize(
    ("make", "allowed"),
    [
        (complete, NONE),
        (unjustified_gap, Allowances(justifies_gap=lambda key, place, gap: True)),
        (logged_again, Allowances(set_back_origins=frozenset({"a"}))),
        (gap_around_arrived, Allowances(arrived_in_gaps=True)),
        (one_missing, Allowances(is_unrecorded=lambda key, place: True)),
        (unknown_reason, Allowances(reasons=frozenset({"because"}))),
    ],
)
def test_a_sound_run_has_no_violation(make: Callable[[], Run], allowed: Allowances) -> None:
    assert check(make().seen, allowed) == []


@pytest.mark.parametrize(
    ("unplaced", "justified", "broken"),
    [((3,), True, 0), ((3,), False, 1), ((3, 4), True, 1), ((), True, 0)],
)
def test_a_place_of_a_gap_that_no_event_is_known_to_have_stands_for_one(
    unplaced: tuple[int, ...], justified: bool, broken: int
) -> None:
    run = Run()
    run.deliver(1, 2)
    run.gap(3, 3)
    run.deliver(*({4, 5} - {*unplaced}))
    run.seen.has_all_places = False
    for number in unplaced:
        run.seen.places.pop(run.keys[number - 1])
    allowed = Allowances(justifies_gap=lambda key, place, gap: justified)
    violations = check(run.seen, allowed)
    assert [each.guarantee for each in violations] == [Guarantee.DURABILITY] * broken


def test_only_an_origin_that_was_set_back_may_log_events_again() -> None:
    (violation,) = check(logged_again().seen, Allowances(set_back_origins=frozenset({"b"})))
    assert violation.guarantee is Guarantee.ORDER


@pytest.mark.parametrize(
    ("origin", "again", "broken"),
    [("a", 6, []), ("b", 6, [Guarantee.ONCE]), ("a", 1, [Guarantee.ONCE])],
)
def test_the_next_process_may_get_events_again_that_were_logged_again(
    origin: str, again: int, broken: list[Guarantee]
) -> None:
    run = complete()
    run.process.end = End.CLOSED
    place = Place("a", 1, again)
    run.seen.record_place(run.keys[0], place)
    run.come().items.append(attrs.evolve(run.delivered(1), place=place))
    violations = check(run.seen, Allowances(set_back_origins=frozenset({origin})))
    assert [each.guarantee for each in violations] == broken


def test_the_first_place_at_an_origin_that_was_set_back_has_its_order() -> None:
    run = logged_again()
    run.seen.places[run.keys[0]] = {Place("a", 1, 6), Place("a", 2, 1)}
    (violation,) = check(run.seen, Allowances(set_back_origins=frozenset({"a"})))
    assert violation.guarantee is Guarantee.ORDER and violation.key == run.keys[0]


def test_events_before_the_first_cut_need_not_come() -> None:
    run = Run()
    run.process.record_flow({"a": (1, 3)})
    run.deliver(4, 5)
    assert check(run.seen) == []


def test_an_ended_transient_subscription_needs_no_tail() -> None:
    run = Run(Kind.TRANSIENT)
    run.deliver(1, 2)
    run.process.end = End.KILLED
    assert check(run.seen) == []


def test_a_killed_process_may_get_events_again() -> None:
    run = complete()
    run.process.end = End.KILLED
    run.come().items.append(run.delivered(5))
    assert check(run.seen) == []


def test_events_unconfirmed_by_a_killed_process_may_be_in_a_gap_of_the_next() -> None:
    run = gap_after_close()
    run.subscriber.processes[0].end = End.KILLED
    assert check(run.seen) == []


def test_stepped_clocks_hide_the_beginning_of_unknown_origins() -> None:
    run = Run()
    run.process.record_flow({})
    run.deliver(3, 4, 5)
    assert len(check(run.seen)) == 2
    assert check(run.seen, Allowances(unknown_origins=True)) == []


def test_an_event_without_observed_place_is_expected_if_published_after_the_cut() -> None:
    run = one_missing()
    run.seen.has_all_places = False
    run.seen.places.clear()
    run.process.flowing_at = 2.5
    (violation,) = check(run.seen)
    assert violation.key == run.keys[2]
    run.process.flowing_at = 3.5
    assert check(run.seen) == []


def test_the_report_has_the_seed_and_a_trace() -> None:
    run = unjustified_gap()
    text = report("7", run.seen, check(run.seen))
    assert text.startswith("seed 7: 1 violations\n")
    for expected in ("published: s, flight 1.0", "acknowledged (node): a:1:3", "reason='lost'"):
        assert expected in text
