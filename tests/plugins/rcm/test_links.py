"""Links of sites: states and their times through outages (RCM R24, R25, R40; A8, T13)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.transport.view import LinkState
from plugins.rcm.settings import RcmLinkSettings
from tests.plugins.rcm.site import Site, end_silence, linked_sites, silence
from tests.seeds import seeds
from tests.streams.link_ends import Wire

CONNECTED, SUSPECTED = LinkState.CONNECTED, LinkState.SUSPECTED
DISCONNECTED = LinkState.DISCONNECTED
ROUND_TRIPS = 0.1
"""A few of them, in seconds."""


def outage(wire: Wire, one: Site, other: Site, seconds: float) -> tuple[float, float]:
    """Silence the link of two sites; return the times of its loss and its repair."""
    lost_at = wire.clock.seconds()
    silence(wire, one, other)
    wire.run(seconds)
    end_silence(wire, one, other)
    return lost_at, wire.clock.seconds()


def peers_of(site: Site) -> list[Any]:
    peers: Any = site.links.snapshot()["peers"]
    return list(peers)


# ----------------------------------------------------------------- connecting


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_two_sites_that_dial_at_once_keep_the_connection_of_the_smaller_name(seed: int) -> None:
    wire, (a, b) = linked_sites("a", "b", seed=seed)
    wire.run(5.0)
    assert wire.connections() == 1
    assert [each.initiated for each in a.links._neighbours] == [True]
    assert [each.initiated for each in b.links._neighbours] == [False]
    assert a.states_of(b)[-1] == b.states_of(a)[-1] == "connected"
    assert a.links.node_of(b.end.address) == "b"


def test_the_owner_counts_a_peer_as_connected_before_the_first_message() -> None:
    wire, (a, b) = linked_sites("a", "b")
    assert a.owned[-1][1] == "b"
    assert a.owned[-1][0] <= a.first_time(b, CONNECTED, 0.0)
    assert a.send(b"hello", b) == ["sent"]
    wire.run(0.1)
    assert b.received == [("a", b"hello")]


def test_an_owner_may_send_as_soon_as_it_has_accepted_an_answer() -> None:
    wire = Wire()
    a, b = Site(wire, "a"), Site(wire, "b")
    for one, other in ((a, b), (b, a)):
        one.sends_first = [other]
    a.add(b)
    wire.run(1.0)
    assert a.outcomes == b.outcomes == [["sent"]]
    assert a.received == [("b", b"first")]
    assert b.received == [("a", b"first")]


def test_a_receiver_may_suspect_the_peer_whose_message_it_gets() -> None:
    wire, (a, b) = linked_sites("a", "b")
    b.late = b"two"
    for message in (b"one", b"two", b"three"):
        a.send(message, b)
    wire.run(0.1)
    assert [message for _, message in b.received] == [b"one", b"two", b"three"]
    assert b.links.view_of(a.end.address).reason == "late"
    a.send(b"four", b)
    wire.run(5.2)
    assert b.received[-1] == ("a", b"four")
    assert b.states_of(a) == ["connected", "suspected", "connected"]


def test_a_node_that_the_owner_refuses_gets_the_reason_and_no_link() -> None:
    wire = Wire()
    a, b = Site(wire, "a"), Site(wire, "b")
    b.refused = {"a"}
    a.add(b)
    wire.run(10.0)
    assert a.states == b.states == {}
    assert wire.connections() == 0


def test_an_absent_site_is_dialled_each_period_and_another_is_not_delayed() -> None:
    wire = Wire()
    sites = [Site(wire, name) for name in "abcdef"]
    one, *others = sites
    one.add(*others)
    for other in others[:-1]:
        silence(wire, one, other)
    wire.run(1.0)
    assert one.state_of(others[-1]) is CONNECTED
    wire.run(30.0)
    for other in others[:-1]:
        end_silence(wire, one, other)
    wire.run(3.0 + ROUND_TRIPS)
    assert all(one.state_of(other) is CONNECTED for other in others)


def test_a_site_that_is_added_in_an_outage_keeps_no_other_one_from_being_dialled() -> None:
    wire, (a, b) = linked_sites("a", "b")
    wire.cut(a.end, b.end, refuse=True)
    wire.run(1.0)
    for site in (a, b):
        site.add(Site(wire, "c" if site is a else "d"))
    wire.heal(a.end, b.end)
    wire.run(3.0 + ROUND_TRIPS)
    assert a.state_of(b) is b.state_of(a) is CONNECTED


def test_an_attempt_whose_handshake_takes_too_long_is_given_up() -> None:
    wire = Wire()
    a, b = Site(wire, "a"), Site(wire, "b")
    a.add(b)
    while not wire.connections():
        wire.run(0.001)
    silence(wire, a, b)
    begun_at = wire.clock.seconds()
    wire.run(2.9)
    (attempt,) = a.links._dials.values()
    wire.run(0.2)
    assert attempt.is_given_up
    wire.run(begun_at + 20.0 - wire.clock.seconds())
    assert len(a.links._dials) == 1
    end_silence(wire, a, b)
    wire.run(3.0 + ROUND_TRIPS)
    assert a.state_of(b) is b.state_of(a) is CONNECTED


# ----------------------------------------------------------------- outages


@pytest.mark.parametrize("seed", seeds(3, 20))
@pytest.mark.parametrize("seconds", [7, 8, 9, 10, 15, 30, 45, 57, 60])
def test_a_silent_outage_is_suspected_in_time_and_connected_again(seconds: int, seed: int) -> None:
    wire, (a, b) = linked_sites("a", "b", seed=seed)
    wire.run(1.0 + seed * 0.37)
    lost_at, healed_at = outage(wire, a, b, seconds)
    wire.run(10.0)
    for one, other in ((a, b), (b, a)):
        assert one.states_of(other) == ["connected", "suspected", "connected"]
        assert 4.0 <= one.first_time(other, SUSPECTED, lost_at) - lost_at <= 6.0
        connected_at = one.first_time(other, CONNECTED, healed_at)
        assert connected_at - healed_at <= 3.0 + ROUND_TRIPS


@pytest.mark.parametrize("seconds", [66.1, 70, 100])
def test_a_longer_silent_outage_disconnects(seconds: float) -> None:
    wire, (a, b) = linked_sites("a", "b")
    lost_at, healed_at = outage(wire, a, b, seconds)
    wire.run(10.0)
    for one, other in ((a, b), (b, a)):
        states = ["connected", "suspected", "disconnected", "connected"]
        assert one.states_of(other) == states
        assert 64.0 <= one.first_time(other, DISCONNECTED, lost_at) - lost_at <= 66.0
        connected_at = one.first_time(other, CONNECTED, healed_at)
        assert connected_at - healed_at <= 3.0 + ROUND_TRIPS


@pytest.mark.parametrize("seconds", [1, 2, 5, 10, 30, 56])
def test_an_outage_that_begins_with_a_socket_error_never_disconnects(seconds: int) -> None:
    wire, (a, b) = linked_sites("a", "b")
    lost_at = wire.clock.seconds()
    wire.cut(a.end, b.end, refuse=True)
    wire.run(seconds)
    wire.heal(a.end, b.end)
    wire.run(10.0)
    for one, other in ((a, b), (b, a)):
        assert one.states_of(other) == ["connected", "suspected", "connected"]
        assert one.first_time(other, SUSPECTED, lost_at) - lost_at < ROUND_TRIPS
        assert one.first_time(other, CONNECTED, lost_at + 0.5) - lost_at <= seconds + 3.1


@pytest.mark.parametrize("seconds", [0.5, 2.0, 3.9])
def test_a_short_silence_is_not_noticed(seconds: float) -> None:
    wire, (a, b) = linked_sites("a", "b")
    outage(wire, a, b, seconds)
    wire.run(5.0)
    assert a.states_of(b) == b.states_of(a) == ["connected"]
    assert wire.connections() == 1


def test_data_on_a_silent_connection_keep_it() -> None:
    wire, (a, b) = linked_sites("a", "b")
    before = list(a.links._neighbours)[0].reconnections
    silence(wire, a, b)
    while CONNECTED in (a.state_of(b), b.state_of(a)):
        wire.run(0.1)
    end_silence(wire, a, b)
    wire.run(0.1)
    assert a.states_of(b) == b.states_of(a) == ["connected", "suspected", "connected"]
    assert list(a.links._neighbours)[0].reconnections == before


@pytest.mark.parametrize("deaf", [0, 1])
@pytest.mark.parametrize("seconds", [10.0, 40.0])
def test_both_ends_suspect_after_the_loss_of_one_direction(deaf: int, seconds: float) -> None:
    wire, sites = linked_sites("a", "b")
    wire.run(0.6)
    lost_at = wire.clock.seconds()
    wire.silence(sites[1 - deaf].end, sites[deaf].end)
    wire.run(seconds)
    healed_at = wire.clock.seconds()
    wire.end_silence(sites[1 - deaf].end, sites[deaf].end)
    wire.run(5.0)
    for one, other in (sites, sites[::-1]):
        assert 4.0 <= one.first_time(other, SUSPECTED, lost_at) - lost_at <= 6.0
        assert one.states_of(other) == ["connected", "suspected", "connected"]
        assert one.first_time(other, CONNECTED, healed_at) - healed_at <= 3.0 + ROUND_TRIPS


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_flapping_links_settle(seed: int) -> None:
    wire, sites = linked_sites("a", "b", "c", seed=seed)
    random = wire.network._random
    for _ in range(20):
        one, other = random.sample(sites, 2)
        wire.silence(one.end, other.end)
        wire.run(random.uniform(0.0, 8.0))
        if random.random() < 0.3:
            wire.cut(one.end, other.end)
        if random.random() < 0.7:
            wire.end_silence(one.end, other.end)
    for one in sites:
        for other in sites:
            if one is not other:
                wire.end_silence(one.end, other.end)
    wire.run(10.0)
    for one in sites:
        for other in sites:
            assert one is other or one.state_of(other) is CONNECTED
    assert wire.connections() == 3


# ----------------------------------------------------------------- messages


def test_messages_to_a_suspected_site_arrive_once_after_the_outage() -> None:
    wire, (a, b) = linked_sites("a", "b")
    sent = []
    silence(wire, a, b)
    for number in range(40):
        message = b"%d" % number
        sent.append(("a", message))
        assert a.send(message, b) == ["sent"]
        wire.run(1.0)
    end_silence(wire, a, b)
    wire.run(5.0)
    assert b.received == sent


def test_messages_that_a_disconnected_site_has_not_received_are_kept() -> None:
    wire, (a, b) = linked_sites("a", "b")
    silence(wire, a, b)
    wire.run(20.0)
    assert a.send(b"kept", b) == ["sent"]
    wire.run(300.0)
    assert a.send(b"refused", b) == ["absent"]
    end_silence(wire, a, b)
    wire.run(5.0)
    assert b.received == [("a", b"kept")]
    assert a.views["b"][-1].resumed


def test_messages_are_dropped_when_the_time_is_over() -> None:
    wire, (a, b) = linked_sites("a", "b", options=RcmLinkSettings(keep=100.0))
    silence(wire, a, b)
    wire.run(20.0)
    a.send(b"dropped", b)
    wire.run(200.0)
    assert list(a.links._neighbours) == []
    end_silence(wire, a, b)
    wire.run(5.0)
    assert a.state_of(b) is CONNECTED
    assert b.received == []
    assert not a.views["b"][-1].resumed


def test_a_restarted_site_counts_the_messages_that_it_has_not_received() -> None:
    wire, (a, b) = linked_sites("a", "b")
    wire.cut(a.end, b.end, refuse=True)
    b.links.close()
    b.end.clock.kill()
    wire.run(1.0)
    a.send(b"lost", b)
    # The owner sends as soon as it has accepted the answer of the new process.
    a.sends_first = [b]
    again = Site(wire, "b", incarnation=2)
    wire.heal(a.end, b.end)
    wire.run(5.0)
    assert a.state_of(b) is CONNECTED
    assert a.outcomes == [["sent"]]
    assert again.received == [("a", b"first")]
    assert (a.views["b"][-1].resumed, a.views["b"][-1].undelivered) == (False, 1)
    a.send(b"new", again)
    wire.run(0.1)
    assert again.received[1:] == [("a", b"new")]


@pytest.mark.parametrize(("seconds", "origin"), [(5.0, ""), (70.0, "f" * 16)])
def test_a_restarted_site_may_have_an_earlier_clock(seconds: float, origin: str) -> None:
    """Once it is disconnected, another disk may have its name."""
    wire, (a, b) = linked_sites("a", "b")
    wire.cut(a.end, b.end, refuse=True)
    b.links.close()
    b.end.clock.kill()
    wire.run(seconds)
    assert a.state_of(b) is not CONNECTED
    again = Site(wire, "b", incarnation=2, process=0, origin=origin)
    wire.heal(a.end, b.end)
    wire.run(5.0)
    assert a.state_of(again) is CONNECTED


# ----------------------------------------------------------------- quality, and what is told


def test_a_suspicion_of_the_owner_is_that_of_both_ends_and_keeps_the_connection() -> None:
    wire, (a, b) = linked_sites("a", "b")
    before = wire.connections()
    a.links.suspect(b.end.address, "late")
    assert a.state_of(b) is SUSPECTED
    assert a.links.view_of(b.end.address).reason == "late"
    wire.run(0.1)
    assert b.links.view_of(a.end.address).reason == "suspected by the peer: late"
    a.send(b"waits", b)
    wire.run(4.0)
    assert b.received == []
    wire.run(1.5)
    assert a.states_of(b) == b.states_of(a) == ["connected", "suspected", "connected"]
    assert b.received == [("a", b"waits")]
    assert wire.connections() == before


def test_a_view_has_reason_time_and_the_next_change() -> None:
    wire, (a, b) = linked_sites("a", "b")
    silence(wire, a, b)
    wire.run(10.0)
    view = a.links.view_of(b.end.address)
    suspected_at = a.first_time(b, SUSPECTED, 0.0)
    assert (view.state, view.reason, view.since) == (SUSPECTED, "silent", suspected_at)
    assert view.until == suspected_at + 60.0
    wire.run(60.0)
    view = a.links.view_of(b.end.address)
    assert (view.state, view.reason, view.until) == (DISCONNECTED, "silent", None)


def test_the_snapshot_has_state_reason_times_and_measurements() -> None:
    wire, (a, b) = linked_sites("a", "b")
    wire.run(4.0)
    (peer,) = peers_of(a)
    assert (peer["state"], peer["reason"], peer["next_change"]) == ("connected", "", None)
    assert 0.0 < peer["round_trip"] < 0.02
    assert abs(peer["clock_offset"]) <= peer["clock_uncertainty"] < 0.01
    silence(wire, a, b)
    wire.run(10.0)
    (peer,) = peers_of(a)
    assert (peer["state"], peer["reason"]) == ("suspected", "silent")
    assert peer["next_change"] - peer["state_since"] == pytest.approx(60.0)


def test_the_offset_of_the_clocks_is_measured() -> None:
    wire, (a, b) = linked_sites("a", "b")
    b.clock_offset = 0.125
    wire.run(10.0)
    measured = a.links.clock_of(b.end.address)
    assert measured is not None
    assert measured.offset == pytest.approx(0.125, abs=measured.uncertainty)
    assert measured.uncertainty < 0.005


def test_sites_with_clocks_that_differ_too_much_are_not_connected() -> None:
    wire = Wire()
    a, b = Site(wire, "a"), Site(wire, "b")
    b.clock_offset = 5.0
    a.add(b)
    wire.run(30.0)
    assert a.state_of(b) is not CONNECTED
    assert "clock" in a.links.view_of(b.end.address).reason
    assert wire.connections() == 1
