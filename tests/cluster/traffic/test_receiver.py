from __future__ import annotations

from typing import Any

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.claims import REORDER_SECONDS
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.missing_range import MAX_HELD_RANGES, MAX_RETRY_SECONDS, RETRY_SECONDS
from broker.cluster.traffic.received_range import (
    AppendRange,
    ReceivedRange,
    ReceiverEffect,
    RequestPage,
    StoreHistories,
)
from broker.cluster.traffic.receiver import MAX_INCOMPLETE_ORIGINS, MAX_ORIGINS, Receiver
from broker.event.place import Mark, NamedHistory
from broker.streams.dropped_count import DroppedCount
from tests.cluster.traffic.frames import HOME, frame, node

ME = node("me")


class Log:
    """A log that makes appended ranges durable in `settle`."""

    def __init__(self, **covered: Mark) -> None:
        self.covered: dict[str, Mark] = dict(covered)
        self.older_interest: set[str] = set()
        self.may_drop = False
        self.receiver = Receiver(
            self.covered.get, start_of=self._start_of, may_drop=lambda _: self.may_drop
        )

    def _start_of(self, origin: str, mark: Mark) -> Mark:
        return (0, 0) if origin in self.older_interest else mark

    def receive(
        self,
        after: int,
        upto: int,
        *,
        origin: str = "o",
        more: bool = False,
        since: int | None = None,
        gone: int | None = None,
        dropped: int = 0,
        in_order: bool = False,
        now: float = 0.0,
    ) -> list[object]:
        span = Range(
            *(ME, (1, after), (1, upto), None if gone is None else (1, gone)),
            has_more=more,
            first_after=None if since is None else (1, since),
            dropped=(DroppedCount(0, dropped, False),) if dropped else (),
        )
        received = ReceivedRange(span, frame([span], origin=origin), 0, is_in_order=in_order)
        return plain(self.receiver.receive_range(received, now))

    def lose(self, upto: int | None, *, home: Address = HOME, now: float = 0.0) -> list[object]:
        empty = frame([Range(ME, (0, 0), (0, 0))])
        mark = None if upto is None else (1, upto)
        return plain(self.receiver.skip_lost_range("o", mark, home, empty, "lost", now))

    def settle(self, upto: int, now: float = 0.0) -> list[object]:
        self.covered["o"] = (1, upto)
        return plain(self.receiver.confirm_durable("o", now))


def plain(effects: list[ReceiverEffect]) -> list[object]:
    """Return ("take", after, upto, cursor) for an append and ("ask", after) for a request."""
    found: list[object] = []
    for each in effects:
        if isinstance(each, AppendRange):
            span = each.received.range
            found.append(("take", span.after[1], span.upto[1], each.cursor[1]))
        else:
            assert isinstance(each, RequestPage) and each.target == HOME
            found.append(("ask", each.after[1]))
    return found


def test_following_ranges_are_appended_and_known_ones_are_not() -> None:
    log = Log(o=(1, 5))
    assert log.receive(5, 7) == [("take", 5, 7, 5)]
    assert log.receive(6, 9) == [("take", 6, 9, 7)]
    assert log.receive(2, 8) == []
    assert log.receiver.counts.duplicate == 1


def test_an_early_range_waits_for_the_one_before() -> None:
    log = Log(o=(1, 5))
    assert log.receive(7, 9) == []
    assert log.receiver.incomplete_origins == 1
    assert log.receive(5, 7) == [("take", 5, 7, 5), ("take", 7, 9, 7)]
    assert log.receiver.incomplete_origins == 0 and log.receiver.next_timeout() is None


def test_a_missing_range_is_requested_with_backoff() -> None:
    log = Log(o=(1, 5))
    log.receive(7, 9, now=100.0)
    assert log.receiver.next_timeout() == 100.0 + REORDER_SECONDS
    times = []
    for _ in range(8):
        now = log.receiver.next_timeout()
        assert now is not None
        assert plain(log.receiver.handle_timeout(now)) == [("ask", 5)]
        times.append(now)
    pauses = [later - sooner for sooner, later in zip(times, times[1:], strict=False)]
    assert [round(pause, 6) for pause in pauses[:4]] == [RETRY_SECONDS * 2**i for i in range(4)]
    assert round(pauses[-1], 6) == MAX_RETRY_SECONDS


def test_all_nodes_of_an_origin_are_asked_in_turn() -> None:
    log = Log(o=(1, 5))
    replica_node = Address(("a",), "keeper")
    log.receive(5, 6)
    log.receive(7, 9)
    asked = []
    for _ in range(6):
        span = Range(ME, (1, 8), (1, 8))
        log.receiver.receive_range(
            ReceivedRange(span, attrs.evolve(frame([span]), origin_node=replica_node), 0), 0.0
        )
        (ask,) = log.receiver.handle_timeout(log.receiver.next_timeout() or 0.0)
        assert isinstance(ask, RequestPage)
        asked.append((ask.target.node, ask.attempt))
    assert asked == [(node, attempt) for attempt in range(3) for node in ("keeper", HOME.node)]


def test_a_new_route_is_tried_at_once() -> None:
    log = Log(o=(1, 5))
    log.receive(7, 9)
    log.receiver.handle_timeout(REORDER_SECONDS)
    log.receiver.request_now(0.5)
    assert plain(log.receiver.handle_timeout(0.5)) == [("ask", 5)]


def test_the_next_page_is_requested_when_the_last_is_durable() -> None:
    log = Log(o=(1, 5))
    log.receive(90, 99)
    assert log.receive(5, 20, more=True) == [("take", 5, 20, 5)]
    assert log.settle(20) == [("ask", 20)]
    assert log.receive(20, 95) == [("take", 20, 95, 20), ("take", 90, 99, 95)]
    assert log.settle(99) == []
    assert log.receiver.incomplete_origins == 0


def test_an_empty_answer_ends_the_requests() -> None:
    log = Log(o=(1, 5))
    log.receiver.retry_after_failure("o", HOME, 0.0)
    assert plain(log.receiver.handle_timeout(RETRY_SECONDS)) == [("ask", 5)]
    assert log.receive(5, 5) == []
    assert log.receiver.incomplete_origins == 0


def test_held_ranges_are_bounded() -> None:
    log = Log(o=(1, 0))
    for offset in range(10, 10 + 2 * MAX_HELD_RANGES):
        log.receive(offset, offset + 1)
    assert log.receiver.counts.dropped == MAX_HELD_RANGES
    for number in range(2 * MAX_INCOMPLETE_ORIGINS):
        name = f"p{number}"
        log.covered[name] = (1, 0)
        log.receive(5, 6, origin=name)
    assert log.receiver.incomplete_origins == MAX_INCOMPLETE_ORIGINS


def test_a_new_origin_starts_at_its_first_after() -> None:
    log = Log()
    assert log.receive(7, 9) == [("take", 7, 9, 7)]
    other = Log()
    assert other.receive(7, 9, since=4) == []
    assert plain(other.receiver.handle_timeout(REORDER_SECONDS)) == [("ask", 4)]
    cut = Log()
    assert cut.receiver.start_origin("o", (1, 6))
    assert not cut.receiver.start_origin("o", (1, 8))
    assert cut.receive(7, 9, since=7) == []
    assert plain(cut.receiver.handle_timeout(REORDER_SECONDS)) == [("ask", 6)]


def test_an_origin_with_older_interest_is_requested_from_its_start() -> None:
    log = Log()
    log.older_interest.add("o")
    assert log.receive(5, 7, since=3) == []
    assert plain(log.receiver.handle_timeout(REORDER_SECONDS)) == [("ask", 0)]
    page = Range(ME, (0, 0), (1, 5))
    came = log.receiver.receive_range(ReceivedRange(page, frame([page], origin="o"), 0), 1.0)
    assert plain(came) == [("take", 0, 5, 0), ("take", 5, 7, 5)]


def test_the_lowest_start_mark_wins_until_events_arrive() -> None:
    log = Log()
    assert log.receiver.start_origin("o", (1, 10))
    assert not log.receiver.start_origin("o", (1, 12))
    assert not log.receiver.start_origin("o", (1, 4))
    assert log.receiver.start_marks == {"o": (1, 4)}
    assert log.receive(10, 15) == []
    assert log.receive(4, 10) == [("take", 4, 10, 4), ("take", 10, 15, 10)]
    assert not log.receiver.start_origin("o", (1, 2)), "what lies before is recovered"
    assert log.receiver.position_of("o") == (1, 15)


def test_pending_ranges_include_held_ones() -> None:
    log = Log(o=(1, 5), p=(1, 1), q=(1, 1))
    log.receive(5, 7)
    log.receive(9, 12)
    log.receive(8, 9)
    log.receive(1, 3, origin="p")
    log.receive(4, 6, origin="q")
    assert log.receiver.pending_upto == {"o": (1, 12), "p": (1, 3), "q": (1, 6)}
    log.settle(7)
    log.receive(7, 8)
    log.settle(12)
    assert "o" not in log.receiver.pending_upto


def test_start_marks_are_bounded() -> None:
    log = Log()
    begun = [log.receiver.start_origin(f"o{number}", (1, 5)) for number in range(MAX_ORIGINS + 1)]
    assert begun == [True] * MAX_ORIGINS + [False]
    assert len(log.receiver.start_marks) == MAX_ORIGINS


def test_older_interest_overrides_the_start_at_a_cut() -> None:
    log = Log()
    log.older_interest.add("o")
    assert not log.receiver.start_origin("o", (1, 10))
    assert log.receiver.position_of("o") == (0, 0)


def test_a_failed_commit_restarts_at_the_log_position() -> None:
    log = Log(o=(1, 5))
    log.receive(5, 7)
    log.receiver.retry_after_failure("o", HOME, 10.0)
    assert plain(log.receiver.handle_timeout(10.0)) == []
    assert plain(log.receiver.handle_timeout(10.0 + RETRY_SECONDS)) == [("ask", 5)]
    assert log.receive(5, 7) == [("take", 5, 7, 5)]


def test_the_first_commit_of_an_origin_may_fail_too() -> None:
    log = Log()
    log.receive(7, 9)
    log.receiver.retry_after_failure("o", HOME, 0.0)
    assert plain(log.receiver.handle_timeout(RETRY_SECONDS)) == [("ask", 7)]


def test_unavailable_events_are_skipped_and_counted() -> None:
    log = Log(o=(1, 5))
    log.receive(60, 61)
    assert log.receive(50, 60, gone=50) == [("take", 50, 60, 5), ("take", 60, 61, 60)]
    assert log.receiver.counts.gone == 1


def test_a_paused_receiver_appends_and_requests_nothing() -> None:
    log = Log(o=(1, 5))
    log.receiver.pause()
    assert log.receive(5, 7) == [] and log.receive(9, 11) == []
    assert log.receiver.next_timeout() is None
    assert plain(log.receiver.handle_timeout(1e9)) == []
    assert plain(log.receiver.resume(20.0)) == [("take", 5, 7, 5)]
    assert plain(log.receiver.handle_timeout(20.0 + REORDER_SECONDS)) == [("ask", 7)]
    assert plain(log.receiver.resume(30.0)) == []


def test_the_receiver_continues_behind_lost_events() -> None:
    log = Log(o=(1, 3))
    assert log.receive(5, 6) == log.receive(8, 9) == []
    # The next missing range lies behind the first held range.
    assert log.lose(None) == [("take", 3, 5, 3), ("take", 5, 6, 5)]
    assert log.lose(None) == [("take", 6, 8, 6), ("take", 8, 9, 8)]
    assert log.receiver.incomplete_origins == 0


def test_only_the_lost_range_is_skipped() -> None:
    log = Log(o=(1, 3))
    assert log.receive(9, 10) == []
    assert log.lose(6) == [("take", 3, 6, 3)]
    assert log.lose(6) == []
    assert log.receiver.incomplete_origins == 1
    assert log.lose(1 << 40) == [("take", 6, 9, 6), ("take", 9, 10, 9)]


def test_a_loss_report_counts_only_from_the_origin_node_and_for_a_missing_range() -> None:
    log = Log(o=(1, 3))
    assert log.lose(None) == log.lose(7) == []
    assert log.receive(5, 6) == []
    assert log.lose(None, home=node("liar")) == []
    log.receiver.pause()
    assert log.lose(None) == []
    assert log.receiver.position_of("o") == (1, 3)


def test_an_announced_replica_does_not_hide_the_silence_of_the_origin_node() -> None:
    covered = {"o": (1, 5)}
    receiver = Receiver(covered.get)
    home, replica_node = node("home"), node("keeper")

    def receive(home: Address, after: int, upto: int, now: float) -> list[Any]:
        span = Range(ME, (1, after), (1, upto))
        made = frame([span], origin="o")
        made.origin_node = home
        return list(receiver.receive_range(ReceivedRange(span, made, 0), now))

    receive(home, 5, 5, 0.0)
    for second in range(1, 60):
        receive(replica_node, 5, 5, float(second))
    # The origin node is back, but has dropped this node's interest.
    receive(home, 9, 9, 60.0)
    (ask,) = [each for each in receiver.handle_timeout(61.0) if isinstance(each, RequestPage)]
    assert ask.is_unfiltered


def test_a_missing_range_after_silence_is_requested_unfiltered() -> None:
    covered = {"o": (1, 5)}
    receiver = Receiver(covered.get)
    home = node("home")

    def receive(after: int, upto: int, now: float) -> list[Any]:
        span = Range(ME, (1, after), (1, upto))
        made = frame([span], origin="o")
        made.origin_node = home
        return list(receiver.receive_range(ReceivedRange(span, made, 0), now))

    receive(5, 5, 0.0)
    receive(6, 7, 1.0)
    receiver.handle_timeout(1.2)  # requested; no answer arrives
    receive(20, 20, 60.0)
    (ask,) = [each for each in receiver.handle_timeout(100.0) if isinstance(each, RequestPage)]
    assert ask.is_unfiltered


def test_an_unanswered_missing_range_expires() -> None:
    log = Log(o=(1, 3))
    log.receiver = Receiver(log.covered.get, patience=60.0)
    assert log.receive(5, 6) == log.receive(8, 9) == []
    assert log.receiver.expired_requests(59.9) == []
    assert log.receiver.expired_requests(60.0) == [("o", HOME, False)]
    assert log.lose(None, now=60.0) == [("take", 3, 5, 3), ("take", 5, 6, 5)]
    # The next missing range has its own patience.
    assert log.receiver.expired_requests(119.9) == []
    assert log.receiver.expired_requests(120.0) == [("o", HOME, False)]


def history(epoch: int, id: int) -> NamedHistory:
    return epoch, id, (1, 5)


def of_history(
    receiver: Receiver, name: tuple[int, int], after: Mark, upto: Mark, now: float = 0.0
) -> list[ReceiverEffect]:
    span = Range(ME, after, upto)
    came = frame([span])
    came.history = history(*name)
    return receiver.receive_range(ReceivedRange(span, came, 0), now)


def test_places_of_another_process_in_the_same_epoch_are_held() -> None:
    covered: dict[str, Mark] = {"o": (1, 5)}
    receiver = Receiver(covered.get, patience=60.0)
    note, taken = of_history(receiver, (2, 7), (1, 5), (2, 8))
    assert note == StoreHistories("o", (history(2, 7),)) and isinstance(taken, AppendRange)
    # Neither new nor known places.
    assert of_history(receiver, (2, 9), (2, 8), (2, 10)) == []
    assert of_history(receiver, (2, 9), (1, 5), (2, 6)) == []
    assert receiver.handle_timeout(REORDER_SECONDS) == [
        RequestPage(HOME, "o", (2, 8), path=(history(2, 7),))
    ]
    # The origin node continues in a higher epoch.
    noted, taken = of_history(receiver, (3, 4), (2, 8), (3, 12), now=1.0)
    assert noted == StoreHistories("o", (history(2, 7), history(3, 4)))
    assert isinstance(taken, AppendRange) and taken.cursor == (2, 8)
    assert receiver.incomplete_origins == 0


def test_a_node_without_places_in_an_epoch_follows_either_process() -> None:
    receiver = Receiver({"o": (1, 5)}.get)
    assert of_history(receiver, (2, 7), (2, 6), (2, 8)) == [StoreHistories("o", (history(2, 7),))]
    noted, taken = of_history(receiver, (2, 9), (1, 5), (2, 6))
    assert noted == StoreHistories("o", (history(2, 9),)) and isinstance(taken, AppendRange)


def test_histories_stored_by_an_earlier_process_count() -> None:
    histories = KnownHistories(lambda _: (history(2, 7),))
    receiver = Receiver({"o": (2, 8)}.get, patience=60.0, histories=histories)
    assert of_history(receiver, (2, 9), (2, 8), (2, 10)) == []
    (asked,) = receiver.handle_timeout(REORDER_SECONDS)
    assert asked == RequestPage(HOME, "o", (2, 8), path=(history(2, 7),))
    # Without an answer the node follows the other process.
    assert receiver.expired_requests(61.0) == [("o", HOME, False)]
    noted, taken = of_history(receiver, (2, 9), (2, 8), (2, 11), now=61.0)
    assert noted == StoreHistories("o", (history(2, 9),)) and isinstance(taken, AppendRange)
