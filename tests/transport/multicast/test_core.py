from __future__ import annotations

import pytest

from broker.errors import PeerSilent
from broker.transport.multicast.core import MulticastCore, Outcome, PeerView
from broker.transport.view import LinkState, View

UP = View(LinkState.CONNECTED)
RESUMED = View(LinkState.CONNECTED, resumed=True)
BROKEN = View(LinkState.DISCONNECTED, error=PeerSilent("gone"))
AGAIN = View(LinkState.DISCONNECTED, error=PeerSilent("again"))
SUSPECTED = View(LinkState.SUSPECTED, error=BROKEN.error)


def core_of(*peers: str, suspect_timeout: float = 60.0) -> MulticastCore:
    core = MulticastCore(suspect_timeout)
    for peer in peers:
        core.add_peer(peer)
        assert core.view_changed(peer, UP, 0.0) == [PeerView(peer, UP)]
    return core


def test_a_peer_is_absent_until_its_first_connection() -> None:
    core = MulticastCore(60.0)
    assert core.send_outcome("a", True) is Outcome.ABSENT
    core.add_peer("a")
    assert core.send_outcome("a", True) is Outcome.ABSENT
    assert core.view_changed("a", BROKEN, 1.0) == [PeerView("a", BROKEN)]
    assert core.next_timeout() is None
    core.view_changed("a", UP, 2.0)
    assert core.send_outcome("a", True) is Outcome.SENT
    core.remove_peer("a")
    assert core.send_outcome("a", True) is Outcome.ABSENT
    assert core.states() == {}


def test_a_suspected_peer_is_still_sent_to_and_then_given_up() -> None:
    core = core_of("a", "b")
    assert core.view_changed("a", BROKEN, 10.0) == [PeerView("a", SUSPECTED)]
    assert core.send_outcome("a", True) is Outcome.SENT
    assert core.next_timeout() == 70.0
    assert core.handle_timeout(69.9) == []
    assert core.handle_timeout(70.0) == [PeerView("a", BROKEN)]
    assert core.next_timeout() is None
    assert core.states() == {"a": LinkState.DISCONNECTED, "b": LinkState.CONNECTED}
    assert core.send_outcome("a", True) is Outcome.ABSENT
    assert core.send_outcome("b", True) is Outcome.SENT


def test_suspicion_counts_from_the_first_break_and_each_failed_attempt_is_reported() -> None:
    core = core_of("a")
    core.view_changed("a", BROKEN, 10.0)
    told = View(LinkState.SUSPECTED, error=AGAIN.error)
    assert core.view_changed("a", AGAIN, 50.0) == [PeerView("a", told)]
    assert core.next_timeout() == 70.0
    assert core.handle_timeout(70.0) == [PeerView("a", AGAIN)]
    assert core.view_changed("a", BROKEN, 80.0) == [PeerView("a", BROKEN)]
    assert core.view_changed("a", RESUMED, 90.0) == [PeerView("a", RESUMED)]


def test_a_connection_ends_suspicion_and_the_next_break_begins_another() -> None:
    core = core_of("a")
    core.view_changed("a", BROKEN, 10.0)
    core.view_changed("a", RESUMED, 60.0)
    assert core.next_timeout() is None
    core.view_changed("a", BROKEN, 65.0)
    assert core.next_timeout() == 125.0


def test_the_earliest_of_several_is_given_up_first() -> None:
    core = core_of("a", "b", suspect_timeout=5.0)
    core.view_changed("b", BROKEN, 1.0)
    core.view_changed("a", BROKEN, 2.0)
    assert core.handle_timeout(6.5) == [PeerView("b", BROKEN)]
    assert core.next_timeout() == 7.0


def test_without_suspicion_a_break_is_reported_at_once() -> None:
    core = core_of("a", suspect_timeout=0.0)
    assert core.view_changed("a", BROKEN, 1.0) == [PeerView("a", BROKEN)]
    assert core.view_changed("a", AGAIN, 2.0) == [PeerView("a", AGAIN)]
    assert core.send_outcome("a", True) is Outcome.ABSENT


def test_a_stack_that_can_not_be_used_any_more_is_not_hoped_for() -> None:
    core = core_of("a", "b")
    assert core.view_changed("a", BROKEN, 1.0, final=True) == [PeerView("a", BROKEN)]
    core.view_changed("b", BROKEN, 1.0)
    assert core.view_changed("b", AGAIN, 2.0, final=True) == [PeerView("b", AGAIN)]
    assert core.next_timeout() is None


def test_back_pressure_is_reported_for_present_peers() -> None:
    core = core_of("a")
    assert core.send_outcome("a", writable=False) is Outcome.FULL
    assert core.send_outcome("b", writable=False) is Outcome.ABSENT
    core.view_changed("a", BROKEN, 1.0)
    assert core.send_outcome("a", writable=False) is Outcome.FULL
    core.handle_timeout(61.0)
    assert core.send_outcome("a", writable=False) is Outcome.ABSENT


def test_a_peer_joins_once() -> None:
    core = core_of("a")
    with pytest.raises(ValueError, match="'a' has joined before"):
        core.add_peer("a")
    with pytest.raises(KeyError):
        core.remove_peer("b")
