from __future__ import annotations

from twisted.internet.task import Clock

from broker.transport.deadline_timer import DeadlineTimer


def new_alarm() -> tuple[Clock, DeadlineTimer, list[float]]:
    clock = Clock()
    rung: list[float] = []
    return clock, DeadlineTimer(clock, lambda: rung.append(clock.seconds())), rung


def test_it_rings_at_the_deadline() -> None:
    clock, alarm, rung = new_alarm()
    alarm.arm(2.0)
    clock.pump([1.0, 0.5, 0.5, 5.0])
    assert rung == [2.0]


def test_a_deadline_that_moves_away_does_not_touch_the_timer() -> None:
    clock, alarm, rung = new_alarm()
    alarm.arm(2.0)
    (armed,) = clock.getDelayedCalls()
    alarm.arm(3.0)
    alarm.arm(2.0)
    assert clock.getDelayedCalls() == [armed]
    clock.advance(2.0)
    assert rung == [2.0]  # early: its receiver checks, and arms it again


def test_an_earlier_deadline_is_met() -> None:
    clock, alarm, rung = new_alarm()
    alarm.arm(2.0)
    alarm.arm(1.0)
    clock.advance(1.0)
    assert rung == [1.0]
    assert clock.getDelayedCalls() == []


def test_without_a_deadline_there_is_no_timer() -> None:
    clock, alarm, rung = new_alarm()
    alarm.arm(2.0)
    alarm.arm(None)
    assert clock.getDelayedCalls() == []
    clock.advance(5.0)
    alarm.arm(1.0)  # long past
    clock.advance(0)
    assert rung == [5.0]
