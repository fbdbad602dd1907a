"""Pages of a replica."""

from __future__ import annotations

import attrs
import pytest

from broker.event.place import Mark
from broker.log.replica_table import ReplicaSpan
from tests.recovery import test_log_page_reader as test_log_pages
from tests.recovery.test_log_page_reader import EVENTS, WHOLE, Log, Matcher, ask, pages_of


def test_replica_events_removed_during_a_read_do_not_count_as_read() -> None:
    request = attrs.evolve(WHOLE, ranges={"far": ((1, 1), (1, 6))})
    kept = {"far": ReplicaSpan((0, 0), (1, 6))}
    (page,) = ask(pages_of(Log(replica_spans=dict(kept)), Matcher()), request)
    assert [event.offset for event in page.events] == [2, 3, 4, 5, 6]
    (page,) = ask(pages_of(Log(taken=3, replica_spans=dict(kept)), Matcher()), request)
    assert (page.events, page.reached, page.next_serial) == ([], {}, 0)


@pytest.mark.parametrize("upto", [None, (1, 6), (1, 4), (1, 3)])
def test_a_replica_is_read_page_by_page(upto: Mark | None) -> None:
    log = Log(page=2, replica_spans={"gone": ReplicaSpan((0, 0), (1, 6))})
    after, got = (0, 0), list[int]()
    for _ in range(4):
        request = attrs.evolve(WHOLE, ranges={"gone": (after, upto)})
        ((page),) = ask(pages_of(log, Matcher()), request)
        got += [event.offset for event in page.events]
        after = page.reached["gone"]
        if not page.next_serial:
            break
    last = (upto or (1, 6))[1]
    assert got == list(range(1, last + 1)) and after == (1, last) and not page.next_serial


@pytest.mark.parametrize(
    ("after", "upto", "offsets", "reached", "begins"),
    [
        ((1, 0), (1, 6), [1, 2], (1, 2), (1, 4)),
        ((1, 0), None, [1, 2], (1, 2), (1, 4)),
        ((1, 2), (1, 6), [], None, (1, 4)),
        ((1, 0), (1, 2), [1, 2], (1, 2), None),
        ((1, 4), (1, 6), [5, 6], (1, 6), None),
    ],
)
def test_a_replica_page_ends_where_the_origin_lost_events(
    after: Mark,
    upto: Mark | None,
    offsets: list[int],
    reached: Mark | None,
    begins: Mark | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Soak 8011: the places of a loss looked as if nothing matched there."""
    left = [event for event in EVENTS if event.offset not in (3, 4)]
    monkeypatch.setattr(test_log_pages, "EVENTS", left)
    request = attrs.evolve(WHOLE, ranges={"far": (after, upto)})
    (page,) = ask(
        pages_of(Log(replica_spans={"far": ReplicaSpan((0, 0), (1, 6))}), Matcher()), request
    )
    assert [event.offset for event in page.events] == offsets
    assert (page.reached.get("far"), page.begins.get("far"), page.next_serial) == (
        reached,
        begins,
        0,
    )
