"""Losses of Robust P2P and of its baselines across one outage (RCM R41; A9)."""

from __future__ import annotations

import pytest

from plugins.rcm.settings import RcmLinkSettings
from tests.plugins.rcm.site import Site, end_silence, linked_sites, silence
from tests.streams.link_ends import Wire


def lost_messages(p2p: str, outage: float) -> tuple[Wire, Site, Site, list[float]]:
    """Send two messages a second through an outage; return the times of those that are lost."""
    wire, (a, b) = linked_sites("a", "b", options=RcmLinkSettings(p2p=p2p))
    begins, ends = wire.clock.seconds() + 10.0, wire.clock.seconds() + 10.0 + outage
    sent: dict[bytes, float] = {}
    while wire.clock.seconds() < ends + 20.0:
        now = wire.clock.seconds()
        if begins <= now < begins + 0.5:
            silence(wire, a, b)
        if ends <= now < ends + 0.5:
            end_silence(wire, a, b)
        message = b"%f" % now
        sent[message] = now - begins
        assert a.send(message, b) == ["sent"]
        wire.run(0.5)
    wire.run(10.0)
    received = [message for _, message in b.received]
    assert len(received) == len(set(received))
    return wire, a, b, [sent[each] for each in sent if each not in received]


@pytest.mark.parametrize("outage", [3, 15, 30, 60])
def test_robust_p2p_loses_nothing_and_resends_nothing_delivered(outage: int) -> None:
    _, _, b, lost = lost_messages("robust-p2p", outage)
    assert lost == []
    (link,) = b.links._neighbours.driver.links.values()
    assert link.cores[1].receiver.duplicates == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("outage", [15, 30, 60])
def test_a_suspending_connection_loses_what_was_sent_before_the_suspicion(outage: int) -> None:
    *_, lost = lost_messages("tcp-suspected", outage)
    assert 8 <= len(lost) <= 12
    assert all(0.0 <= time <= 6.0 for time in lost)


@pytest.mark.parametrize("outage", [15, 30, 60])
def test_a_plain_connection_loses_what_is_sent_during_the_outage(outage: int) -> None:
    *_, lost = lost_messages("tcp", outage)
    assert len(lost) >= 2 * outage - 1


@pytest.mark.parametrize("p2p", ["tcp", "tcp-suspected"])
def test_no_baseline_loses_anything_in_a_short_silence(p2p: str) -> None:
    *_, lost = lost_messages(p2p, 3)
    assert lost == []
