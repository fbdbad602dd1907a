from __future__ import annotations

import pytest

from broker.errors import ConfigurationError, PeerSilent
from broker.transport.effects import Effect, ViewChanged
from broker.transport.p2p import P2PLayer
from broker.transport.p2p.core import P2PCore
from broker.transport.view import LinkState, View
from tests.transport.p2p.one_end import UP, new_core, open_core, said

BROKEN = View(LinkState.DISCONNECTED, error=PeerSilent("gone"))
AGAIN = View(LinkState.DISCONNECTED, error=PeerSilent("again"))
SUSPECTED = View(LinkState.SUSPECTED, error=BROKEN.error)


def core_of(suspect: float = 60.0, liveness: float = 1000.0) -> P2PCore:
    core = new_core(suspect=suspect, liveness=liveness, keepalive=500.0)
    open_core(core)
    return core


def views(effects: list[Effect]) -> list[View]:
    return [effect.view for effect in effects if isinstance(effect, ViewChanged)]


def reconnect(core: P2PCore, now: float) -> list[View]:
    return views(open_core(core, said(known=7), now))


def test_an_attempt_before_the_first_connection_is_no_suspicion() -> None:
    core = new_core(suspect=60.0)
    core.view_changed(UP, 0.0)
    assert core.view_changed(BROKEN, 1.0) == [ViewChanged(BROKEN)]
    assert core.next_timeout() is None


def test_a_suspected_peer_is_given_up_in_the_end() -> None:
    core = core_of()
    assert core.view_changed(BROKEN, 10.0) == [ViewChanged(SUSPECTED)]
    assert core.next_timeout() == 70.0
    assert core.handle_timeout(69.9) == []
    assert core.handle_timeout(70.0) == [ViewChanged(BROKEN)]
    assert core.next_timeout() is None
    assert core.view_changed(AGAIN, 80.0) == [ViewChanged(AGAIN)]
    assert [view.state for view in reconnect(core, 90.0)] == [LinkState.CONNECTED]


def test_suspicion_counts_from_the_first_break_and_each_failed_attempt_is_reported() -> None:
    core = core_of()
    core.view_changed(BROKEN, 10.0)
    core.view_changed(UP, 20.0)
    again = View(LinkState.SUSPECTED, error=AGAIN.error)
    assert core.view_changed(AGAIN, 50.0) == [ViewChanged(again)]
    assert core.next_timeout() == 70.0
    assert core.handle_timeout(70.0) == [ViewChanged(AGAIN)]


def test_an_unfinished_handshake_does_not_end_suspicion() -> None:
    core = core_of()
    core.view_changed(BROKEN, 10.0)
    core.view_changed(UP, 65.0)
    assert core.next_timeout() == 70.0
    assert core.handle_timeout(70.0) == [ViewChanged(BROKEN)]
    assert core.next_timeout() == 1065.0
    (view,) = views(core.receive([said(known=7)], 71.0))
    assert view == View(LinkState.CONNECTED, resumed=True)


def test_a_connection_ends_suspicion_and_the_next_break_begins_another() -> None:
    core = core_of()
    core.view_changed(BROKEN, 10.0)
    assert reconnect(core, 60.0) == [View(LinkState.CONNECTED, resumed=True)]
    assert core.next_timeout() == 560.0
    core.view_changed(BROKEN, 65.0)
    assert core.next_timeout() == 125.0


def test_without_suspicion_a_break_is_reported_at_once() -> None:
    core = core_of(suspect=0.0)
    assert core.view_changed(BROKEN, 1.0) == [ViewChanged(BROKEN)]
    assert core.view_changed(AGAIN, 2.0) == [ViewChanged(AGAIN)]


def test_the_time_of_suspicion_is_not_negative() -> None:
    with pytest.raises(ConfigurationError, match="p2p suspect"):
        P2PLayer(incarnation=1, suspect=-1.0)
