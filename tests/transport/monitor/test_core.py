"""States of a peer, by the tables of RCM R24 and R25, and their times."""

from __future__ import annotations

import pytest

from broker.errors import NotConnected, PeerSilent, ProtocolError, VersionMismatch
from broker.transport.monitor import MonitorSettings
from broker.transport.view import LinkState
from tests.transport.monitor.core_pair import CorePair, Owner

CONNECTED, SUSPECTED = LinkState.CONNECTED, LinkState.SUSPECTED
DISCONNECTED = LinkState.DISCONNECTED


def connected_pair(*settings: MonitorSettings, with_owners: bool = False) -> CorePair:
    owners = (Owner("a"), Owner("b")) if with_owners else (None, None)
    pair = CorePair(*settings, owners=owners)
    pair.connect()
    pair.run(1.0)
    assert pair.one.last.state is pair.other.last.state is CONNECTED
    return pair


# ----------------------------------------------------------------- connecting


def test_a_peer_is_connected_once_its_hello_has_come() -> None:
    pair = CorePair()
    assert pair.one.core.status is DISCONNECTED
    pair.hold(pair.one)
    pair.connect()
    pair.run(0.5)
    assert pair.one.views == []
    assert pair.other.states == ["connected"]
    pair.heal()
    pair.run(0.1)
    assert pair.one.states == ["connected"]
    assert not pair.one.last.resumed


def test_a_connection_without_hello_is_closed_after_the_time_of_an_attempt() -> None:
    pair = CorePair()
    pair.hold()
    pair.connect()
    pair.run(2.9)
    assert pair.one.errors == []
    pair.run(0.2)
    assert isinstance(pair.one.errors[0], PeerSilent)
    assert pair.one.states == ["disconnected"]


def test_owners_exchange_offers_before_the_peer_is_connected() -> None:
    pair = connected_pair(with_owners=True)
    for end, peer in ("ab", "ba"):
        owner = (pair.one if end == "a" else pair.other).core._owner
        assert isinstance(owner, Owner)
        assert sorted(owner.calls) == sorted(["offer", f"answer {peer}", f"accept {end}{peer}"])
    assert pair.one.states == ["suspected", "connected"]
    assert pair.one.reported[0][1].reason == "negotiating"


def test_an_owner_that_has_no_answer_yet_is_asked_again() -> None:
    owners = Owner("a"), Owner("b")
    owners[1].answers = False
    pair = CorePair(owners=owners)
    pair.connect()
    pair.run(0.5)
    assert pair.one.core.status is DISCONNECTED
    assert pair.other.core.status is CONNECTED
    assert 5 < owners[1].calls.count("answer a") < 15
    owners[1].answers = True
    pair.run(0.1)
    assert pair.one.core.status is CONNECTED


def test_an_owner_that_accepts_no_answer_makes_another_offer() -> None:
    owners = Owner("a"), Owner("b")
    owners[0].accepts = False
    pair = CorePair(owners=owners)
    pair.connect()
    pair.run(0.5)
    assert pair.one.core.status is DISCONNECTED
    assert owners[0].calls.count("offer") > 4
    owners[0].accepts = True
    pair.run(0.2)
    assert pair.one.core.status is CONNECTED


@pytest.mark.parametrize("error", [ProtocolError("a bad offer"), VersionMismatch("another one")])
def test_an_error_of_the_owner_ends_the_connection(error: Exception) -> None:
    owners = Owner("a"), Owner("b")
    owners[1].error = error
    pair = CorePair(owners=owners)
    pair.connect()
    pair.run(0.1)
    assert pair.other.errors == [error]


def test_the_layer_above_gets_packets_from_the_notice_of_the_connection_on() -> None:
    owners = Owner("a"), Owner("b")
    owners[0].answers = False
    pair = CorePair(owners=owners)
    pair.connect()
    pair.run(0.1)
    pair.send(pair.one, b"\x01early")
    pair.run(0.1)
    assert pair.other.core.status is DISCONNECTED
    assert pair.other.views[0][1].is_new_connection
    assert pair.other.delivered == [b"\x01early"]


# ----------------------------------------------------------------- silence


def test_a_silent_peer_is_suspected_then_its_connection_is_closed() -> None:
    pair = connected_pair()
    pair.run(0.5)
    pair.hold()
    lost_at = pair.now
    pair.run(10.0)
    for end in pair.ends:
        assert end.states[:2] == ["connected", "suspected"]
        assert 4.0 <= end.reported[1][0] - lost_at <= 5.1
        assert end.reported[1][1].reason == "silent"
        assert isinstance(end.errors[0], PeerSilent)
        # The end of the connection is reported too, for the next attempt.
        assert end.reported[2][0] - end.reported[1][0] == pytest.approx(1.0, abs=0.02)
        assert end.reported[2][1].state is SUSPECTED


def test_data_on_a_silent_connection_connect_the_peer_again() -> None:
    pair = connected_pair(with_owners=True)
    pair.hold()
    while pair.one.core.status is CONNECTED or pair.other.core.status is CONNECTED:
        pair.run(0.1)
    pair.run(0.5)
    for end in pair.ends:
        owner = end.core._owner
        assert isinstance(owner, Owner)
        owner.calls.clear()
    pair.heal()
    pair.run(0.2)
    for end in pair.ends:
        assert end.errors == []
        assert end.last.state is CONNECTED
        assert end.last.resumed
        owner = end.core._owner
        assert isinstance(owner, Owner)
        # Both ends exchange clocks again.
        assert any(call.startswith("accept") for call in owner.calls)
        assert any(call.startswith("answer") for call in owner.calls)


@pytest.mark.parametrize("deaf", [0, 1])
def test_both_ends_suspect_after_the_loss_of_one_direction(deaf: int) -> None:
    pair = connected_pair()
    pair.run(0.7)
    pair.hold(pair.ends[deaf])
    lost_at = pair.now
    pair.run(6.2)
    for end in pair.ends:
        assert 4.0 <= end.time_of(SUSPECTED) - lost_at <= 6.1
        assert "silent" in end.reported[1][1].reason


def test_an_end_whose_data_do_not_arrive_suspects_although_the_peer_tells_nothing() -> None:
    """Here the peer has a longer liveness."""
    pair = connected_pair(MonitorSettings(), MonitorSettings(liveness=50.0))
    pair.hold(pair.other)
    lost_at = pair.now
    pair.run(8.0)
    suspected_at, view = pair.one.reported[1]
    assert 4.0 <= suspected_at - lost_at <= 6.1
    assert view.reason == "silent"
    assert isinstance(pair.one.errors[0], PeerSilent)


def test_data_without_echo_are_silence_once_the_other_direction_is_quiet_too() -> None:
    """The peer has noticed the loss, and could not tell it."""
    pair = connected_pair()
    pair.hold(pair.other)
    lost_at = pair.now
    pair.run(4.6)
    pair.hold()
    pair.run(2.0)
    assert pair.one.last.state is SUSPECTED
    assert pair.one.time_of(SUSPECTED) - lost_at <= 6.2


def test_a_long_burst_is_no_silence_while_it_makes_progress() -> None:
    pair = connected_pair(MonitorSettings(most_round_trip=0.0, most_age=0.0))
    pair.spacing = 0.5
    pair.send(pair.one, *(b"\x02" + bytes(100) for _ in range(24)))
    pair.run(30.0)
    assert len(pair.other.delivered) == 24
    assert pair.one.errors == pair.other.errors == []
    assert pair.one.states == pair.other.states == ["connected"]


# ----------------------------------------------------------------- suspicion


def test_a_lost_connection_is_suspected_at_once_and_given_up_after_suspect() -> None:
    pair = connected_pair()
    lost_at = pair.now
    pair.disconnect()
    assert pair.one.last.state is SUSPECTED
    assert pair.one.last.reason == "connection lost"
    assert pair.one.last.since == lost_at
    assert pair.one.last.until == lost_at + 60.0
    pair.run(59.9)
    assert pair.one.last.state is SUSPECTED
    pair.run(0.2)
    assert pair.one.last.state is DISCONNECTED
    assert pair.one.last.reason == "connection lost"
    assert pair.one.last.until is None


def test_failed_attempts_do_not_prolong_the_suspicion() -> None:
    pair = connected_pair()
    lost_at = pair.now
    pair.disconnect()
    pair.hold()
    for _ in range(10):
        pair.connect()
        pair.run(6.0)
        pair.disconnect()
    pair.run(1.0)
    assert pair.one.time_of(DISCONNECTED) - lost_at == pytest.approx(60.0, abs=0.02)


def test_a_new_connection_ends_the_suspicion_and_is_not_resumed() -> None:
    pair = connected_pair()
    pair.disconnect()
    pair.run(20.0)
    pair.connect()
    pair.run(0.1)
    assert pair.one.last.state is CONNECTED
    assert not pair.one.last.resumed
    pair.run(60.0)
    assert pair.one.states == ["connected", "suspected", "connected"]


def test_suspicion_does_not_run_out_while_offers_are_exchanged() -> None:
    """An owner may fetch what is missing first."""
    pair = connected_pair(with_owners=True)
    pair.disconnect()
    pair.run(50.0)
    owner = pair.one.core._owner
    assert isinstance(owner, Owner)
    owner.accepts = False
    pair.connect()
    pair.run(30.0)
    assert pair.one.core.status is SUSPECTED
    pair.disconnect()
    pair.run(9.0)
    assert pair.one.core.status is SUSPECTED
    pair.run(1.2)
    assert pair.one.core.status is DISCONNECTED


# ----------------------------------------------------------------- quality


def test_a_suspicion_for_quality_is_that_of_both_ends_until_liveness_has_passed_well() -> None:
    pair = connected_pair()
    pair.suspect(pair.one, "late")
    assert pair.one.last.state is SUSPECTED
    assert pair.one.last.reason == "late"
    pair.run(0.1)
    assert pair.other.last.reason == "suspected by the peer: late"
    pair.run(4.8)
    assert pair.one.core.status is pair.other.core.status is SUSPECTED
    pair.run(0.2)
    assert pair.one.core.status is pair.other.core.status is CONNECTED
    assert pair.one.last.resumed
    assert pair.other.last.resumed
    assert pair.one.errors == pair.other.errors == []


def test_a_repeated_suspicion_lasts_and_the_connection_stays_beyond_suspect() -> None:
    pair = connected_pair(MonitorSettings(suspect=10.0))
    for _ in range(20):
        pair.suspect(pair.one, "late")
        pair.run(1.0)
    for end in pair.ends:
        assert end.states == ["connected", "suspected", "disconnected"]
        assert end.time_of(DISCONNECTED) - end.time_of(SUSPECTED) == pytest.approx(10.0, abs=0.02)
        assert end.errors == []
    pair.run(5.0)
    assert pair.one.last.state is pair.other.last.state is CONNECTED
    assert pair.one.last.resumed


def test_packets_of_a_suspected_peer_are_delivered() -> None:
    pair = connected_pair()
    pair.suspect(pair.one, "late")
    pair.send(pair.other, b"\x02on its way")
    pair.run(0.1)
    assert pair.one.delivered == [b"\x02on its way"]


def test_a_long_round_trip_is_suspected_until_it_is_below_a_half_of_the_bound() -> None:
    pair = connected_pair(MonitorSettings(most_round_trip=1.0))
    pair.latency = 0.6
    pair.run(3.0)
    assert pair.one.last.state is SUSPECTED
    assert "round trip" in pair.one.last.reason
    pair.latency = 0.3
    pair.run(20.0)
    assert pair.one.last.state is SUSPECTED
    pair.latency = 0.1
    pair.run(8.0)
    assert pair.one.last.state is pair.other.last.state is CONNECTED
    assert pair.one.states == ["connected", "suspected", "connected"]


def test_old_data_without_acknowledgement_are_suspected() -> None:
    pair = connected_pair(MonitorSettings(most_age=2.5, most_round_trip=0.0))
    pair.latency = 2.0
    pair.run(4.0)
    assert pair.one.last.state is SUSPECTED
    assert "age" in pair.one.last.reason


def test_clocks_that_differ_are_suspected() -> None:
    owners = Owner("a"), Owner("b")
    owners[1].clock_offset = 3600.0
    pair = CorePair(MonitorSettings(most_clock_offset=0.25), owners=owners)
    pair.connect()
    pair.run(1.0)
    for end in pair.ends:
        assert end.core.status is not CONNECTED
        assert end.core.clock_offset is not None
        assert abs(end.core.clock_offset.offset) == pytest.approx(3600.0, abs=0.02)
    owners[1].clock_offset = 0.1
    pair.run(20.0)
    assert pair.one.core.status is pair.other.core.status is CONNECTED


def test_the_offset_of_the_clock_is_that_of_the_shortest_round_trip() -> None:
    owners = Owner("a"), Owner("b")
    owners[1].clock_offset = 0.5
    pair = CorePair(owners=owners)
    pair.connect()
    pair.run(1.0)
    # Longer round trips, which are not even both ways, change nothing.
    pair.latency = 0.4
    pair.run(3.0)
    measured = pair.one.core.clock_offset
    assert measured is not None
    assert measured.offset == pytest.approx(0.5, abs=measured.uncertainty)
    assert measured.uncertainty <= 0.015


# ----------------------------------------------------------------- heartbeats


def test_an_idle_link_carries_one_heartbeat_a_second_each_way() -> None:
    pair = connected_pair()
    pair.one.sends_at.clear()
    pair.run(10.0)
    assert len(pair.one.sends_at) == 10


def test_a_monitor_without_connection_has_no_timer() -> None:
    pair = connected_pair()
    pair.disconnect()
    pair.run(61.0)
    assert pair.one.core.next_timeout() is None
    assert pair.one.core.submit([b"\x01"], pair.now) == []
    assert pair.one.core.suspect("late", pair.now) == []


# ----------------------------------------------------------------- what the layers above get


def test_layers_above_get_no_errors_of_sockets() -> None:
    """The monitor alone knows them (RCM R4). The error that a peer broke a rule is a reason."""
    pair = connected_pair()
    pair.disconnect(error=NotConnected("connection reset by peer"))
    assert (pair.one.last.error, pair.one.last.reason) == (None, "connection lost")
    pair.run(61.0)
    pair.connect()
    pair.disconnect(error=VersionMismatch("version 9"))
    assert pair.one.last.state is DISCONNECTED
    assert (pair.one.last.error, pair.one.last.reason) == (
        None,
        "connection lost: version-mismatch",
    )
