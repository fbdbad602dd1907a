from __future__ import annotations

from typing import Any, cast

from twisted.internet.task import Clock

from broker.errors import BrokerError, LoginExpired
from broker.sessions.login_expiries import LoginExpiries


class FakeSession:
    def __init__(self) -> None:
        self.ends: list[BrokerError | None] = []

    def end(self, reason: BrokerError | None) -> None:
        self.ends.append(reason)


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.ahead = 0.0
        """Seconds by which the wall clock was set forward."""
        self.session = FakeSession()
        self.expiries = LoginExpiries(
            self.clock, lambda: int(1000 * (self.clock.seconds() + self.ahead))
        )

    def arm(self, expires_at: float | None) -> None:
        self.expiries.arm(cast(Any, self.session), expires_at)


def test_a_session_ends_when_its_login_expires() -> None:
    world = World()
    world.arm(10.0)
    world.clock.advance(9.9)
    assert not world.session.ends
    world.clock.advance(0.2)
    (reason,) = world.session.ends
    assert isinstance(reason, LoginExpired)
    assert not world.clock.getDelayedCalls()


def test_a_later_login_of_the_session_replaces_the_end() -> None:
    world = World()
    world.arm(10.0)
    world.arm(20.0)
    world.clock.advance(15.0)
    assert not world.session.ends
    world.arm(None)
    world.clock.advance(15.0)
    assert not world.session.ends and not world.clock.getDelayedCalls()


def test_a_login_that_has_expired_ends_the_session_at_once() -> None:
    world = World()
    world.clock.advance(100.0)
    world.arm(10.0)
    world.clock.advance(0.0)
    assert len(world.session.ends) == 1


def test_a_distant_end_follows_the_wall_clock() -> None:
    world = World()
    world.arm(10 * 3600.0)
    world.ahead = 8 * 3600.0
    world.clock.pump([3600.0])
    assert not world.session.ends
    world.clock.pump([3600.0])
    assert len(world.session.ends) == 1
