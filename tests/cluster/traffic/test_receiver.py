"""What a node takes, holds and asks for, of each origin."""

from __future__ import annotations

from typing import Any

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import Range
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.received_range import Arrived, Ask, Effect, NoteHistory, Take
from broker.cluster.traffic.receiver import (
    ASK_AGAIN,
    MOST_ASK_AGAIN,
    MOST_HELD,
    MOST_ORIGINS,
    MOST_WAITING,
    PATIENCE,
    Arrivals,
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
        self.arrivals = Arrivals(self.covered.get, begins=self._begins)

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
            more=more,
            since=None if since is None else (1, since),
        )
        return plain(self.arrivals.arrive(Arrived(told, frame([told], origin=origin), 0), now))

    def lost(self, upto: int | None, *, home: Address = HOME, now: float = 0.0) -> list[object]:
        """The home says that it has it no more."""
        empty = frame([Range(ME, (0, 0), (0, 0))])
        mark = None if upto is None else (1, upto)
        return plain(self.arrivals.lost("o", mark, home, empty, now))

    def settle(self, upto: int, now: float = 0.0) -> list[object]:
        self.covered["o"] = (1, upto)
        return plain(self.arrivals.settled("o", now))


def plain(effects: list[Effect]) -> list[object]:
    """("take", after, upto, cursor) and ("ask", after)."""
    found: list[object] = []
    for each in effects:
        if isinstance(each, Take):
            told = each.arrived.range
            found.append(("take", told.after[1], told.upto[1], each.cursor[1]))
        else:
            assert isinstance(each, Ask) and each.home == HOME
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
    assert log.arrivals.waiting == 1
    assert log.come(5, 7) == [("take", 5, 7, 5), ("take", 7, 9, 7)]
    assert log.arrivals.waiting == 0 and log.arrivals.next_timeout() is None


def test_a_hole_is_asked_for_after_a_moment_and_again_ever_more_seldom() -> None:
    log = Log(o=(1, 5))
    log.come(7, 9, now=100.0)
    assert log.arrivals.next_timeout() == 100.0 + PATIENCE
    times = []
    for _ in range(8):
        now = log.arrivals.next_timeout()
        assert now is not None
        assert plain(log.arrivals.handle_timeout(now)) == [("ask", 5)]
        times.append(now)
    pauses = [later - sooner for sooner, later in zip(times, times[1:], strict=False)]
    assert [round(pause, 6) for pause in pauses[:4]] == [ASK_AGAIN * 2**i for i in range(4)]
    assert round(pauses[-1], 6) == MOST_ASK_AGAIN


def test_who_else_answers_for_an_origin_is_asked_too() -> None:
    """A keeper may speak of a node that is back, and has less than that."""
    log = Log(o=(1, 5))
    keeper = Address(("a",), "keeper")
    log.come(5, 6)
    log.come(7, 9)
    asked = []
    for _ in range(6):
        told = Range(ME, (1, 8), (1, 8))
        log.arrivals.arrive(Arrived(told, attrs.evolve(frame([told]), home=keeper), 0), 0.0)
        (ask,) = log.arrivals.handle_timeout(log.arrivals.next_timeout() or 0.0)
        assert isinstance(ask, Ask)
        asked.append(ask.home.node)
    assert asked == ["keeper", HOME.node] * 3


def test_a_new_way_is_tried_at_once() -> None:
    log = Log(o=(1, 5))
    log.come(7, 9)
    log.arrivals.handle_timeout(PATIENCE)
    log.arrivals.ask_now(0.5)
    assert plain(log.arrivals.handle_timeout(0.5)) == [("ask", 5)]


def test_the_next_page_is_asked_for_when_the_last_one_is_durable() -> None:
    log = Log(o=(1, 5))
    log.come(90, 99)
    assert log.come(5, 20, more=True) == [("take", 5, 20, 5)]
    assert log.settle(20) == [("ask", 20)]
    assert log.come(20, 95) == [("take", 20, 95, 20), ("take", 90, 99, 95)]
    assert log.settle(99) == []
    assert log.arrivals.waiting == 0


def test_an_answer_that_nothing_is_missing_ends_the_waiting() -> None:
    log = Log(o=(1, 5))
    log.arrivals.failed("o", HOME, 0.0)
    assert plain(log.arrivals.handle_timeout(ASK_AGAIN)) == [("ask", 5)]
    assert log.come(5, 5) == []
    assert log.arrivals.waiting == 0


def test_what_is_held_is_bounded() -> None:
    log = Log(o=(1, 0))
    for offset in range(10, 10 + 2 * MOST_HELD):
        log.come(offset, offset + 1)
    assert log.arrivals.counts.dropped == MOST_HELD
    for number in range(2 * MOST_WAITING):
        name = f"p{number}"
        log.covered[name] = (1, 0)
        log.come(5, 6, origin=name)
    assert log.arrivals.waiting == MOST_WAITING


def test_an_origin_that_is_new_begins_where_it_says() -> None:
    log = Log()
    assert log.come(7, 9) == [("take", 7, 9, 7)]
    other = Log()
    assert other.come(7, 9, since=4) == []
    assert plain(other.arrivals.handle_timeout(PATIENCE)) == [("ask", 4)]
    cut = Log()
    assert cut.arrivals.begin("o", (1, 6))
    assert not cut.arrivals.begin("o", (1, 8))
    assert cut.come(7, 9, since=7) == []
    assert plain(cut.arrivals.handle_timeout(PATIENCE)) == [("ask", 6)]


def test_all_of_an_origin_is_asked_for_that_something_has_waited_for() -> None:
    log = Log()
    log.waited_for.add("o")
    assert log.come(5, 7, since=3) == []
    assert plain(log.arrivals.handle_timeout(PATIENCE)) == [("ask", 0)]
    page = Range(ME, (0, 0), (1, 5))
    came = log.arrivals.arrive(Arrived(page, frame([page], origin="o"), 0), 1.0)
    assert plain(came) == [("take", 0, 5, 0), ("take", 5, 7, 5)]


def test_it_begins_at_the_first_place_that_somebody_names() -> None:
    log = Log()
    assert log.arrivals.begin("o", (1, 10))
    assert not log.arrivals.begin("o", (1, 12))
    assert not log.arrivals.begin("o", (1, 4))
    assert log.arrivals.begun == {"o": (1, 4)}
    assert log.come(10, 15) == []
    assert log.come(4, 10) == [("take", 4, 10, 4), ("take", 10, 15, 10)]
    assert not log.arrivals.begin("o", (1, 2)), "what lies before is recovered"
    assert log.arrivals.stands_at("o") == (1, 15)


def test_what_is_held_was_chosen_as_what_is_on_its_way() -> None:
    log = Log(o=(1, 5), p=(1, 1), q=(1, 1))
    log.come(5, 7)
    log.come(9, 12)
    log.come(8, 9)
    log.come(1, 3, origin="p")
    log.come(4, 6, origin="q")
    assert log.arrivals.chosen == {"o": (1, 12), "p": (1, 3), "q": (1, 6)}
    log.settle(7)
    log.come(7, 8)
    log.settle(12)
    assert "o" not in log.arrivals.chosen


def test_origins_that_somebody_names_and_nobody_knows_are_bounded() -> None:
    log = Log()
    begun = [log.arrivals.begin(f"o{number}", (1, 5)) for number in range(MOST_ORIGINS + 1)]
    assert begun == [True] * MOST_ORIGINS + [False]
    assert len(log.arrivals.begun) == MOST_ORIGINS


def test_it_does_not_begin_at_a_cut_with_what_something_has_waited_for() -> None:
    log = Log()
    log.waited_for.add("o")
    assert not log.arrivals.begin("o", (1, 10))
    assert log.arrivals.stands_at("o") == (0, 0)


def test_a_commit_that_failed_is_taken_again_from_where_the_log_stands() -> None:
    log = Log(o=(1, 5))
    log.come(5, 7)
    log.arrivals.failed("o", HOME, 10.0)
    assert plain(log.arrivals.handle_timeout(10.0)) == []
    assert plain(log.arrivals.handle_timeout(10.0 + ASK_AGAIN)) == [("ask", 5)]
    assert log.come(5, 7) == [("take", 5, 7, 5)]


def test_the_first_commit_of_an_origin_may_fail_too() -> None:
    log = Log()
    log.come(7, 9)
    log.arrivals.failed("o", HOME, 0.0)
    assert plain(log.arrivals.handle_timeout(ASK_AGAIN)) == [("ask", 7)]


def test_what_is_in_no_log_any_more_is_passed_over_and_counted() -> None:
    log = Log(o=(1, 5))
    log.come(60, 61)
    assert log.come(50, 60, gone=50) == [("take", 50, 60, 5), ("take", 60, 61, 60)]
    assert log.arrivals.counts.gone == 1


def test_while_what_is_wanted_does_not_flow_nothing_is_taken_or_asked_for() -> None:
    log = Log(o=(1, 5))
    log.arrivals.close()
    assert log.come(5, 7) == [] and log.come(9, 11) == []
    assert log.arrivals.next_timeout() is None
    assert plain(log.arrivals.handle_timeout(1e9)) == []
    assert plain(log.arrivals.open(20.0)) == [("take", 5, 7, 5)]
    assert plain(log.arrivals.handle_timeout(20.0 + PATIENCE)) == [("ask", 7)]
    assert plain(log.arrivals.open(30.0)) == []


def test_behind_what_is_lost_it_goes_on_with_what_has_come() -> None:
    log = Log(o=(1, 3))
    assert log.come(5, 6) == log.come(8, 9) == []
    # To the first of what was held, which follows; what lies behind that is the next hole.
    assert log.lost(None) == [("take", 3, 5, 3), ("take", 5, 6, 5)]
    assert log.lost(None) == [("take", 6, 8, 6), ("take", 8, 9, 8)]
    assert log.arrivals.waiting == 0


def test_it_goes_no_further_than_what_is_lost() -> None:
    log = Log(o=(1, 3))
    assert log.come(9, 10) == []
    assert log.lost(6) == [("take", 3, 6, 3)]
    assert log.lost(6) == []
    assert log.arrivals.waiting == 1
    assert log.lost(1 << 40) == [("take", 6, 9, 6), ("take", 9, 10, 9)]


def test_that_something_is_lost_is_taken_from_its_home_only_and_where_it_is_missing() -> None:
    log = Log(o=(1, 3))
    assert log.lost(None) == log.lost(7) == []
    assert log.come(5, 6) == []
    assert log.lost(None, home=node("liar")) == []
    log.arrivals.close()
    assert log.lost(None) == []
    assert log.arrivals.stands_at("o") == (1, 3)


def test_a_keeper_that_vouches_does_not_hide_that_the_home_was_silent() -> None:
    covered = {"o": (1, 5)}
    arrivals = Arrivals(covered.get)
    home, keeper = node("home"), node("keeper")

    def come(home: Address, after: int, upto: int, now: float) -> list[Any]:
        told = Range(ME, (1, after), (1, upto))
        made = frame([told], origin="o")
        made.home = home
        return list(arrivals.arrive(Arrived(told, made, 0), now))

    come(home, 5, 5, 0.0)
    for second in range(1, 60):
        come(keeper, 5, 5, float(second))
    # The home is back; meanwhile it has forgotten what this node wants.
    come(home, 9, 9, 60.0)
    (ask,) = [each for each in arrivals.handle_timeout(61.0) if isinstance(each, Ask)]
    assert ask.all


def test_a_hole_that_lasts_while_the_home_is_silent_is_asked_for_with_all() -> None:
    covered = {"o": (1, 5)}
    arrivals = Arrivals(covered.get)
    home = node("home")

    def come(after: int, upto: int, now: float) -> list[Any]:
        told = Range(ME, (1, after), (1, upto))
        made = frame([told], origin="o")
        made.home = home
        return list(arrivals.arrive(Arrived(told, made, 0), now))

    come(5, 5, 0.0)
    come(6, 7, 1.0)
    arrivals.handle_timeout(1.2)  # asked; nothing comes any more
    come(20, 20, 60.0)
    (ask,) = [each for each in arrivals.handle_timeout(100.0) if isinstance(each, Ask)]
    assert ask.all


def test_a_hole_that_nobody_answers_for_is_hopeless_after_a_while() -> None:
    log = Log(o=(1, 3))
    log.arrivals = Arrivals(log.covered.get, patience=60.0)
    assert log.come(5, 6) == log.come(8, 9) == []
    assert log.arrivals.hopeless(59.9) == []
    assert log.arrivals.hopeless(60.0) == [("o", HOME)]
    assert log.lost(None, now=60.0) == [("take", 3, 5, 3), ("take", 5, 6, 5)]
    # The next hole has its own time.
    assert log.arrivals.hopeless(119.9) == []
    assert log.arrivals.hopeless(120.0) == [("o", HOME)]


# ----------------------------------------------------------------------------- histories


def history(epoch: int, id: int) -> NamedHistory:
    return epoch, id, (1, 5)


def of_history(
    arrivals: Arrivals, name: tuple[int, int], after: Mark, upto: Mark, now: float = 0.0
) -> list[Effect]:
    told = Range(ME, after, upto)
    came = frame([told])
    came.history = history(*name)
    return arrivals.arrive(Arrived(told, came, 0), now)


def test_places_of_another_process_in_the_same_epoch_are_not_taken() -> None:
    covered: dict[str, Mark] = {"o": (1, 5)}
    arrivals = Arrivals(covered.get, patience=60.0)
    note, taken = of_history(arrivals, (2, 7), (1, 5), (2, 8))
    assert note == NoteHistory("o", (history(2, 7),)) and isinstance(taken, Take)
    # Neither what seems to be new, nor what seems to be here.
    assert of_history(arrivals, (2, 9), (2, 8), (2, 10)) == []
    assert of_history(arrivals, (2, 9), (1, 5), (2, 6)) == []
    assert arrivals.handle_timeout(PATIENCE) == [Ask(HOME, "o", (2, 8), path=(history(2, 7),))]
    # The home goes on in an epoch above that.
    noted, taken = of_history(arrivals, (3, 4), (2, 8), (3, 12), now=1.0)
    assert noted == NoteHistory("o", (history(2, 7), history(3, 4)))
    assert isinstance(taken, Take) and taken.cursor == (2, 8)
    assert arrivals.waiting == 0


def test_a_node_that_has_no_place_of_an_epoch_follows_whoever_speaks() -> None:
    arrivals = Arrivals({"o": (1, 5)}.get)
    assert of_history(arrivals, (2, 7), (2, 6), (2, 8)) == [NoteHistory("o", (history(2, 7),))]
    noted, taken = of_history(arrivals, (2, 9), (1, 5), (2, 6))
    assert noted == NoteHistory("o", (history(2, 9),)) and isinstance(taken, Take)


def test_what_an_earlier_process_of_this_node_has_noted_counts() -> None:
    histories = KnownHistories(lambda _: (history(2, 7),))
    arrivals = Arrivals({"o": (2, 8)}.get, patience=60.0, histories=histories)
    assert of_history(arrivals, (2, 9), (2, 8), (2, 10)) == []
    (asked,) = arrivals.handle_timeout(PATIENCE)
    assert asked == Ask(HOME, "o", (2, 8), path=(history(2, 7),))
    # Without an answer the node goes on with the one that speaks.
    assert arrivals.hopeless(61.0) == [("o", HOME)]
    noted, taken = of_history(arrivals, (2, 9), (2, 8), (2, 11), now=61.0)
    assert noted == NoteHistory("o", (history(2, 9),)) and isinstance(taken, Take)
