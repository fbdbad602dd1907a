"""What a node takes, holds and asks for, of each origin."""

from __future__ import annotations

from typing import Any

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import Range
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.received_range import (
    AppendRange,
    ReceivedRange,
    ReceiverEffect,
    RequestPage,
    StoreHistories,
)
from broker.cluster.traffic.receiver import (
    MAX_HELD_RANGES,
    MAX_INCOMPLETE_ORIGINS,
    MAX_ORIGINS,
    MAX_RETRY_SECONDS,
    REORDER_SECONDS,
    RETRY_SECONDS,
    Receiver,
)
from broker.event.place import Mark, NamedHistory
from tests.cluster.traffic.frames import HOME, frame, node

ME = node("me")


class Log:
    """Everything that is taken is durable when `settle` is called."""

    def __init__(self, **covered: Mark) -> None:
        self.covered: dict[str, Mark] = dict(covered)
        self.waited_for: set[str] = set()
        """Origins of which something has waited here since before there were any events."""
        self.arrivals = Receiver(self.covered.get, start_of=self._begins)

    def _begins(self, origin: str, mark: Mark) -> Mark:
        return (0, 0) if origin in self.waited_for else mark

    def come(
        self,
        after: int,
        upto: int,
        *,
        origin: str = "o",
        more: bool = False,
        since: int | None = None,
        gone: int | None = None,
        now: float = 0.0,
    ) -> list[object]:
        told = Range(
            *(ME, (1, after), (1, upto), None if gone is None else (1, gone)),
            has_more=more,
            first_after=None if since is None else (1, since),
        )
        return plain(
            self.arrivals.receive_range(ReceivedRange(told, frame([told], origin=origin), 0), now)
        )

    def lost(self, upto: int | None, *, home: Address = HOME, now: float = 0.0) -> list[object]:
        """The home says that it has it no more."""
        empty = frame([Range(ME, (0, 0), (0, 0))])
        mark = None if upto is None else (1, upto)
        return plain(self.arrivals.skip_lost_range("o", mark, home, empty, now))

    def settle(self, upto: int, now: float = 0.0) -> list[object]:
        self.covered["o"] = (1, upto)
        return plain(self.arrivals.confirm_durable("o", now))


def plain(effects: list[ReceiverEffect]) -> list[object]:
    """("take", after, upto, cursor) and ("ask", after)."""
    found: list[object] = []
    for each in effects:
        if isinstance(each, AppendRange):
            told = each.received.range
            found.append(("take", told.after[1], told.upto[1], each.cursor[1]))
        else:
            assert isinstance(each, RequestPage) and each.target == HOME
            found.append(("ask", each.after[1]))
    return found


def test_what_follows_is_taken_and_what_is_known_is_not() -> None:
    log = Log(o=(1, 5))
    assert log.come(5, 7) == [("take", 5, 7, 5)]
    assert log.come(6, 9) == [("take", 6, 9, 7)]
    assert log.come(2, 8) == []
    assert log.arrivals.counts.duplicate == 1


def test_what_came_by_a_quicker_way_waits_for_what_belongs_before_it() -> None:
    log = Log(o=(1, 5))
    assert log.come(7, 9) == []
    assert log.arrivals.incomplete_origins == 1
    assert log.come(5, 7) == [("take", 5, 7, 5), ("take", 7, 9, 7)]
    assert log.arrivals.incomplete_origins == 0 and log.arrivals.next_timeout() is None


def test_a_hole_is_asked_for_after_a_moment_and_again_ever_more_seldom() -> None:
    log = Log(o=(1, 5))
    log.come(7, 9, now=100.0)
    assert log.arrivals.next_timeout() == 100.0 + REORDER_SECONDS
    times = []
    for _ in range(8):
        now = log.arrivals.next_timeout()
        assert now is not None
        assert plain(log.arrivals.handle_timeout(now)) == [("ask", 5)]
        times.append(now)
    pauses = [later - sooner for sooner, later in zip(times, times[1:], strict=False)]
    assert [round(pause, 6) for pause in pauses[:4]] == [RETRY_SECONDS * 2**i for i in range(4)]
    assert round(pauses[-1], 6) == MAX_RETRY_SECONDS


def test_who_else_answers_for_an_origin_is_asked_too() -> None:
    """A keeper may speak of a node that is back, and has less than that."""
    log = Log(o=(1, 5))
    keeper = Address(("a",), "keeper")
    log.come(5, 6)
    log.come(7, 9)
    asked = []
    for _ in range(6):
        told = Range(ME, (1, 8), (1, 8))
        log.arrivals.receive_range(
            ReceivedRange(told, attrs.evolve(frame([told]), origin_node=keeper), 0), 0.0
        )
        (ask,) = log.arrivals.handle_timeout(log.arrivals.next_timeout() or 0.0)
        assert isinstance(ask, RequestPage)
        asked.append(ask.target.node)
    assert asked == ["keeper", HOME.node] * 3


def test_a_new_way_is_tried_at_once() -> None:
    log = Log(o=(1, 5))
    log.come(7, 9)
    log.arrivals.handle_timeout(REORDER_SECONDS)
    log.arrivals.request_now(0.5)
    assert plain(log.arrivals.handle_timeout(0.5)) == [("ask", 5)]


def test_the_next_page_is_asked_for_when_the_last_one_is_durable() -> None:
    log = Log(o=(1, 5))
    log.come(90, 99)
    assert log.come(5, 20, more=True) == [("take", 5, 20, 5)]
    assert log.settle(20) == [("ask", 20)]
    assert log.come(20, 95) == [("take", 20, 95, 20), ("take", 90, 99, 95)]
    assert log.settle(99) == []
    assert log.arrivals.incomplete_origins == 0


def test_an_answer_that_nothing_is_missing_ends_the_waiting() -> None:
    log = Log(o=(1, 5))
    log.arrivals.retry_after_failure("o", HOME, 0.0)
    assert plain(log.arrivals.handle_timeout(RETRY_SECONDS)) == [("ask", 5)]
    assert log.come(5, 5) == []
    assert log.arrivals.incomplete_origins == 0


def test_what_is_held_is_bounded() -> None:
    log = Log(o=(1, 0))
    for offset in range(10, 10 + 2 * MAX_HELD_RANGES):
        log.come(offset, offset + 1)
    assert log.arrivals.counts.dropped == MAX_HELD_RANGES
    for number in range(2 * MAX_INCOMPLETE_ORIGINS):
        name = f"p{number}"
        log.covered[name] = (1, 0)
        log.come(5, 6, origin=name)
    assert log.arrivals.incomplete_origins == MAX_INCOMPLETE_ORIGINS


def test_an_origin_that_is_new_begins_where_it_says() -> None:
    log = Log()
    assert log.come(7, 9) == [("take", 7, 9, 7)]
    other = Log()
    assert other.come(7, 9, since=4) == []
    assert plain(other.arrivals.handle_timeout(REORDER_SECONDS)) == [("ask", 4)]
    cut = Log()
    assert cut.arrivals.start_origin("o", (1, 6))
    assert not cut.arrivals.start_origin("o", (1, 8))
    assert cut.come(7, 9, since=7) == []
    assert plain(cut.arrivals.handle_timeout(REORDER_SECONDS)) == [("ask", 6)]


def test_all_of_an_origin_is_asked_for_that_something_has_waited_for() -> None:
    log = Log()
    log.waited_for.add("o")
    assert log.come(5, 7, since=3) == []
    assert plain(log.arrivals.handle_timeout(REORDER_SECONDS)) == [("ask", 0)]
    page = Range(ME, (0, 0), (1, 5))
    came = log.arrivals.receive_range(ReceivedRange(page, frame([page], origin="o"), 0), 1.0)
    assert plain(came) == [("take", 0, 5, 0), ("take", 5, 7, 5)]


def test_it_begins_at_the_first_place_that_somebody_names() -> None:
    log = Log()
    assert log.arrivals.start_origin("o", (1, 10))
    assert not log.arrivals.start_origin("o", (1, 12))
    assert not log.arrivals.start_origin("o", (1, 4))
    assert log.arrivals.start_marks == {"o": (1, 4)}
    assert log.come(10, 15) == []
    assert log.come(4, 10) == [("take", 4, 10, 4), ("take", 10, 15, 10)]
    assert not log.arrivals.start_origin("o", (1, 2)), "what lies before is recovered"
    assert log.arrivals.position_of("o") == (1, 15)


def test_what_is_held_was_chosen_as_what_is_on_its_way() -> None:
    log = Log(o=(1, 5), p=(1, 1), q=(1, 1))
    log.come(5, 7)
    log.come(9, 12)
    log.come(8, 9)
    log.come(1, 3, origin="p")
    log.come(4, 6, origin="q")
    assert log.arrivals.pending_upto == {"o": (1, 12), "p": (1, 3), "q": (1, 6)}
    log.settle(7)
    log.come(7, 8)
    log.settle(12)
    assert "o" not in log.arrivals.pending_upto


def test_origins_that_somebody_names_and_nobody_knows_are_bounded() -> None:
    log = Log()
    begun = [log.arrivals.start_origin(f"o{number}", (1, 5)) for number in range(MAX_ORIGINS + 1)]
    assert begun == [True] * MAX_ORIGINS + [False]
    assert len(log.arrivals.start_marks) == MAX_ORIGINS


def test_it_does_not_begin_at_a_cut_with_what_something_has_waited_for() -> None:
    log = Log()
    log.waited_for.add("o")
    assert not log.arrivals.start_origin("o", (1, 10))
    assert log.arrivals.position_of("o") == (0, 0)


def test_a_commit_that_failed_is_taken_again_from_where_the_log_stands() -> None:
    log = Log(o=(1, 5))
    log.come(5, 7)
    log.arrivals.retry_after_failure("o", HOME, 10.0)
    assert plain(log.arrivals.handle_timeout(10.0)) == []
    assert plain(log.arrivals.handle_timeout(10.0 + RETRY_SECONDS)) == [("ask", 5)]
    assert log.come(5, 7) == [("take", 5, 7, 5)]


def test_the_first_commit_of_an_origin_may_fail_too() -> None:
    log = Log()
    log.come(7, 9)
    log.arrivals.retry_after_failure("o", HOME, 0.0)
    assert plain(log.arrivals.handle_timeout(RETRY_SECONDS)) == [("ask", 7)]


def test_what_is_in_no_log_any_more_is_passed_over_and_counted() -> None:
    log = Log(o=(1, 5))
    log.come(60, 61)
    assert log.come(50, 60, gone=50) == [("take", 50, 60, 5), ("take", 60, 61, 60)]
    assert log.arrivals.counts.gone == 1


def test_while_what_is_wanted_does_not_flow_nothing_is_taken_or_asked_for() -> None:
    log = Log(o=(1, 5))
    log.arrivals.pause()
    assert log.come(5, 7) == [] and log.come(9, 11) == []
    assert log.arrivals.next_timeout() is None
    assert plain(log.arrivals.handle_timeout(1e9)) == []
    assert plain(log.arrivals.resume(20.0)) == [("take", 5, 7, 5)]
    assert plain(log.arrivals.handle_timeout(20.0 + REORDER_SECONDS)) == [("ask", 7)]
    assert plain(log.arrivals.resume(30.0)) == []


def test_behind_what_is_lost_it_goes_on_with_what_has_come() -> None:
    log = Log(o=(1, 3))
    assert log.come(5, 6) == log.come(8, 9) == []
    # To the first of what was held, which follows; what lies behind that is the next hole.
    assert log.lost(None) == [("take", 3, 5, 3), ("take", 5, 6, 5)]
    assert log.lost(None) == [("take", 6, 8, 6), ("take", 8, 9, 8)]
    assert log.arrivals.incomplete_origins == 0


def test_it_goes_no_further_than_what_is_lost() -> None:
    log = Log(o=(1, 3))
    assert log.come(9, 10) == []
    assert log.lost(6) == [("take", 3, 6, 3)]
    assert log.lost(6) == []
    assert log.arrivals.incomplete_origins == 1
    assert log.lost(1 << 40) == [("take", 6, 9, 6), ("take", 9, 10, 9)]


def test_that_something_is_lost_is_taken_from_its_home_only_and_where_it_is_missing() -> None:
    log = Log(o=(1, 3))
    assert log.lost(None) == log.lost(7) == []
    assert log.come(5, 6) == []
    assert log.lost(None, home=node("liar")) == []
    log.arrivals.pause()
    assert log.lost(None) == []
    assert log.arrivals.position_of("o") == (1, 3)


def test_a_keeper_that_vouches_does_not_hide_that_the_home_was_silent() -> None:
    covered = {"o": (1, 5)}
    arrivals = Receiver(covered.get)
    home, keeper = node("home"), node("keeper")

    def come(home: Address, after: int, upto: int, now: float) -> list[Any]:
        told = Range(ME, (1, after), (1, upto))
        made = frame([told], origin="o")
        made.origin_node = home
        return list(arrivals.receive_range(ReceivedRange(told, made, 0), now))

    come(home, 5, 5, 0.0)
    for second in range(1, 60):
        come(keeper, 5, 5, float(second))
    # The home is back; meanwhile it has forgotten what this node wants.
    come(home, 9, 9, 60.0)
    (ask,) = [each for each in arrivals.handle_timeout(61.0) if isinstance(each, RequestPage)]
    assert ask.is_unfiltered


def test_a_hole_that_lasts_while_the_home_is_silent_is_asked_for_with_all() -> None:
    covered = {"o": (1, 5)}
    arrivals = Receiver(covered.get)
    home = node("home")

    def come(after: int, upto: int, now: float) -> list[Any]:
        told = Range(ME, (1, after), (1, upto))
        made = frame([told], origin="o")
        made.origin_node = home
        return list(arrivals.receive_range(ReceivedRange(told, made, 0), now))

    come(5, 5, 0.0)
    come(6, 7, 1.0)
    arrivals.handle_timeout(1.2)  # asked; nothing comes any more
    come(20, 20, 60.0)
    (ask,) = [each for each in arrivals.handle_timeout(100.0) if isinstance(each, RequestPage)]
    assert ask.is_unfiltered


def test_a_hole_that_nobody_answers_for_is_hopeless_after_a_while() -> None:
    log = Log(o=(1, 3))
    log.arrivals = Receiver(log.covered.get, patience=60.0)
    assert log.come(5, 6) == log.come(8, 9) == []
    assert log.arrivals.expired_requests(59.9) == []
    assert log.arrivals.expired_requests(60.0) == [("o", HOME)]
    assert log.lost(None, now=60.0) == [("take", 3, 5, 3), ("take", 5, 6, 5)]
    # The next hole has its own time.
    assert log.arrivals.expired_requests(119.9) == []
    assert log.arrivals.expired_requests(120.0) == [("o", HOME)]


# ----------------------------------------------------------------------------- histories


def history(epoch: int, id: int) -> NamedHistory:
    return epoch, id, (1, 5)


def of_history(
    arrivals: Receiver, name: tuple[int, int], after: Mark, upto: Mark, now: float = 0.0
) -> list[ReceiverEffect]:
    told = Range(ME, after, upto)
    came = frame([told])
    came.history = history(*name)
    return arrivals.receive_range(ReceivedRange(told, came, 0), now)


def test_places_of_another_process_in_the_same_epoch_are_not_taken() -> None:
    covered: dict[str, Mark] = {"o": (1, 5)}
    arrivals = Receiver(covered.get, patience=60.0)
    note, taken = of_history(arrivals, (2, 7), (1, 5), (2, 8))
    assert note == StoreHistories("o", (history(2, 7),)) and isinstance(taken, AppendRange)
    # Neither what seems to be new, nor what seems to be here.
    assert of_history(arrivals, (2, 9), (2, 8), (2, 10)) == []
    assert of_history(arrivals, (2, 9), (1, 5), (2, 6)) == []
    assert arrivals.handle_timeout(REORDER_SECONDS) == [
        RequestPage(HOME, "o", (2, 8), path=(history(2, 7),))
    ]
    # The home goes on in an epoch above that.
    noted, taken = of_history(arrivals, (3, 4), (2, 8), (3, 12), now=1.0)
    assert noted == StoreHistories("o", (history(2, 7), history(3, 4)))
    assert isinstance(taken, AppendRange) and taken.cursor == (2, 8)
    assert arrivals.incomplete_origins == 0


def test_a_node_that_has_no_place_of_an_epoch_follows_whoever_speaks() -> None:
    arrivals = Receiver({"o": (1, 5)}.get)
    assert of_history(arrivals, (2, 7), (2, 6), (2, 8)) == [StoreHistories("o", (history(2, 7),))]
    noted, taken = of_history(arrivals, (2, 9), (1, 5), (2, 6))
    assert noted == StoreHistories("o", (history(2, 9),)) and isinstance(taken, AppendRange)


def test_what_an_earlier_process_of_this_node_has_noted_counts() -> None:
    histories = KnownHistories(lambda _: (history(2, 7),))
    arrivals = Receiver({"o": (2, 8)}.get, patience=60.0, histories=histories)
    assert of_history(arrivals, (2, 9), (2, 8), (2, 10)) == []
    (asked,) = arrivals.handle_timeout(REORDER_SECONDS)
    assert asked == RequestPage(HOME, "o", (2, 8), path=(history(2, 7),))
    # Without an answer the node goes on with the one that speaks.
    assert arrivals.expired_requests(61.0) == [("o", HOME)]
    noted, taken = of_history(arrivals, (2, 9), (2, 8), (2, 11), now=61.0)
    assert noted == StoreHistories("o", (history(2, 9),)) and isinstance(taken, AppendRange)
