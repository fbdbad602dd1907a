"""Delivered messages of a site, before and after their commits."""

from __future__ import annotations

from broker.event.place import Mark
from broker.event.site_coverage import CoveredMessages
from broker.transport.order import MessageId
from plugins.rcm.coverage.deliveries import MOST_WAITING, Deliveries
from plugins.rcm.delivered_run import read_runs
from tests.plugins.rcm.coverage.events import make_event


class Log:
    """The places up to which a log has flows."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}
        self.deliveries = Deliveries(lambda flow: self.marks.get(flow, (0, 0)))

    def deliver(self, *numbers: int, flow: str = "f", site: str = "a", of: int = 1) -> None:
        events = [make_event(number, site, of) for number in numbers]
        self.deliveries.add_events(flow, read_runs("g", events))

    def commit(self, upto: int, flow: str = "f") -> None:
        self.marks[flow] = (1, upto)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """First and last number and missing ranges, after a look into the log."""
        self.deliveries.settle()
        return [(row.first, row.last, *row.missing) for row in self.deliveries.table.rows]


def test_messages_count_when_the_log_has_them() -> None:
    log = Log()
    log.deliver(1, 2, 3)
    log.deliver(4)
    assert log.rows == []
    log.commit(3)
    assert log.rows == [(1, 3)] and log.deliveries.has_waiting
    log.commit(4)
    assert log.rows == [(1, 4)] and not log.deliveries.has_waiting


def test_a_message_that_is_not_logged_yet_holds_back_later_ones_of_its_sender() -> None:
    log = Log()
    log.deliver(1)
    log.deliver(2, flow="other")
    log.deliver(1, of=2)
    log.deliver(1, site="b")
    log.commit(2, "other")
    assert log.rows == []
    log.commit(1)
    assert log.rows == [(1, 2), (1, 1), (1, 1)]


def test_a_gap_below_a_delivered_message_is_missing_and_so_is_what_was_told_so() -> None:
    log = Log()
    log.deliver(4)
    log.deliver(7)
    log.commit(7)
    assert log.rows == [(4, 7, (5, 6))]
    log.deliver(8)
    log.deliveries.add_missing("a", 1, 9, 12)
    # The message before them is not logged yet.
    assert log.rows == [(4, 7, (5, 6))]
    log.commit(8)
    assert log.rows == [(4, 12, (5, 6), (9, 12))]
    # It turns up after all.
    log.deliver(6)
    assert log.rows == [(4, 12, (5, 5), (9, 12))]


def test_missing_messages_at_the_begin_of_an_incarnation_are_known() -> None:
    log = Log()
    log.deliveries.add_missing("a", 2, 1, 3)
    log.deliveries.add_message(MessageId("a", 2, 4))
    assert log.rows == [(1, 4, (1, 3))]


def test_events_without_a_place_in_the_group_do_not_count() -> None:
    log = Log()
    other = make_event(2, stack="other")
    plain = make_event(3).with_annotation(b"")
    log.deliveries.add_events("f", read_runs("g", [make_event(1), other, plain, make_event(2)]))
    log.commit(2)
    assert log.rows == [(1, 2)]


def test_messages_of_a_failed_commit_come_again() -> None:
    log = Log()
    log.deliver(1)
    log.deliver(2, 3, 4)
    log.deliver(5)
    # The log has the first two.
    log.deliveries.take_back(MessageId("a", 1, number) for number in (3, 4, 5))
    log.commit(1)
    assert log.rows == [(1, 2)] and not log.deliveries.has_waiting
    log.commit(9)
    assert log.rows == [(1, 2)]
    log.deliver(3, 4, 5)
    assert log.rows == [(1, 5)]


def test_a_restart_takes_up_the_end_of_the_log() -> None:
    log = Log()
    events = [*map(make_event, (7, 8, 10)), make_event(1, "a", 2), make_event(3, "b")]
    log.deliveries.restore(read_runs("g", events))
    assert log.deliveries.table.rows == (
        CoveredMessages("a", 1, 7, 10, ((9, 9),)),
        CoveredMessages("a", 2, 1, 1),
        CoveredMessages("b", 1, 3, 3),
    )


def test_beyond_the_bound_nothing_is_known_of_the_oldest_messages() -> None:
    log = Log()
    log.deliver(1)
    log.commit(1)
    assert log.rows == [(1, 1)]
    for number in range(2, MOST_WAITING + 4):
        log.deliver(number)
    log.commit(MOST_WAITING + 3)
    assert log.rows == [(4, MOST_WAITING + 3)]
