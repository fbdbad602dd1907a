"""The oracles are naive."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.event.envelope import EventLinkage
from broker.event.event_id import EventId
from broker.event.merging.resolution import Row, resolve
from broker.event.merging.vocabulary import parse_rule, rule_of
from tests.event.merging.schedules import event, linked, naive_by_time

PAIR = linked("within 20ms", "time", "fp", "tz")
OTHER = linked("window 30ms", "time", "tz", "wx")


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    made = []
    for item in range(draw(st.integers(0, 30))):
        linkage = draw(st.sampled_from((EventLinkage(), PAIR, OTHER, None)))
        if linkage is None:
            ids = draw(st.lists(st.sampled_from("ab"), unique=True, min_size=1, max_size=2))
            numbers = [(each, draw(st.integers(0, 9))) for each in ids]
            linkage = linked(None, "bundle", bundles=numbers)
        stream = draw(st.sampled_from(("fp", "tz", "wx")))
        client = draw(st.sampled_from("pq"))
        made.append(Row(stream, EventId(client, draw(st.integers(0, 90)), item + 1, 1), linkage))
    return made


@settings(max_examples=300)
@given(rows())
def test_each_merge_has_its_order_and_everything_else_stays(made: list[Row]) -> None:
    order = resolve(made)
    assert sorted(order) == list(range(len(made)))
    index = {item: number for number, item in enumerate(order)}
    for linkage in (PAIR, OTHER):
        rule, _ = rule_of(linkage)
        assert rule is not None
        mine = {n for n, row in enumerate(made) if row.linkage == linkage}
        events = [
            event(n, made[n].event_id.timestamp, made[n].stream, made[n].event_id.client_id)
            for n in sorted(mine)
        ]
        assert [n for n in order if n in mine] == naive_by_time(rule, events)
    unlinked = [n for n, row in enumerate(made) if row.linkage == EventLinkage()]
    for n in unlinked:
        before = [m for m in range(n) if made[m].event_id.client_id == made[n].event_id.client_id]
        assert all(index[m] < index[n] for m in before)
    if all(len(row.linkage.bundles) < 2 for row in made):
        for key in {(row.stream, b.bundle_id) for row in made for b in row.linkage.bundles}:
            numbers = [
                made[n].linkage.bundles[0].bundle_number
                for n in order
                if made[n].linkage.bundles
                and (made[n].stream, made[n].linkage.bundles[0].bundle_id) == key
            ]
            assert numbers == sorted(numbers)


def row(stream: str, time: int, number: int, linkage: EventLinkage = EventLinkage()) -> Row:
    return Row(stream, EventId(stream, time, number, 1), linkage)


def test_the_events_of_a_merge_change_places_among_themselves() -> None:
    made = [
        row("other", 9, 1),
        row("tz", 30, 1, PAIR),
        row("other", 1, 2),
        row("fp", 40, 1, PAIR),
        row("tz", 100, 2, PAIR),
    ]
    assert resolve(made) == [0, 3, 2, 1, 4]


def test_events_in_two_bundles_have_their_turn_in_both() -> None:
    def alert(time: int, *bundles: tuple[str, int]) -> Row:
        return row("s", time, time, linked(None, "bundle", bundles=bundles))

    made = [
        alert(1, ("a", 3), ("b", 2)),
        alert(2, ("a", 2)),
        alert(3, ("b", 1)),
        alert(4, ("a", 1)),
    ]
    assert resolve(made) == [2, 3, 1, 0]
    # A cycle.
    assert resolve([alert(5, ("a", 1), ("b", 2)), alert(4, ("a", 2), ("b", 1))]) == [1, 0]


def test_a_rule_of_the_asker_holds_for_all() -> None:
    made = [row("tz", 30, 1), row("fp", 40, 1), row("wx", 10, 1, PAIR)]
    assert resolve(made, parse_rule("within 15ms", ["fp", "tz"])) == [2, 1, 0]


def test_a_large_set_costs_no_squares() -> None:
    made = [
        row("tz", (n * 7919) % 50_000, n + 1, linked(None, "bundle", bundles=[("b", 50_000 - n)]))
        for n in range(50_000)
    ]
    numbers = [made[n].linkage.bundles[0].bundle_number for n in resolve(made)]
    assert all(a < b for a, b in pairwise(numbers))
