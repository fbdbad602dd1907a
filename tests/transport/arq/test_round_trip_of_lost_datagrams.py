"""FEEDBACK refers to the newest datagram that arrived, not to one announced by a POLL."""

from __future__ import annotations

from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq.wire import DATA
from tests.transport.arq.datagram_pair import Pair, User

WAY = 0.05


def one_lost_after_a_pause() -> tuple[Pair, User, User]:
    pair = Pair(0, DatagramFaults(delay=WAY))
    here, there = (User(channel) for channel in pair.connected())
    here.channel.send([b"first"])
    pair.run(lambda: bool(there.packets), 1.0)
    pair.run(lambda: False, 5.0)
    pair.network.filter = lambda datagram, *_: datagram[0] != DATA
    here.channel.send([b"lost at first"])
    pair.run(lambda: False, 0.02)
    pair.network.filter = lambda *_: True
    pair.run(lambda: len(there.packets) == 2, 5.0)
    pair.run(lambda: False, 1.0)
    return pair, here, there


def test_a_loss_after_a_pause_makes_no_round_trip_of_no_time() -> None:
    _, here, _ = one_lost_after_a_pause()
    assert here.core.sender.round_trip.shortest >= 2 * WAY


def test_a_loss_after_a_pause_does_not_bring_the_rate_to_its_least() -> None:
    pair, here, there = one_lost_after_a_pause()
    count = 2_000
    here._waiting = [bytes(4000)] * count
    start = here.core.sender.pacer.rate
    here.send_more()
    lowest = start

    def all_there() -> bool:
        nonlocal lowest
        lowest = min(lowest, here.core.sender.pacer.rate)
        return len(there.packets) == count + 2

    took = pair.run(all_there, 60.0)
    assert lowest == start  # nothing is lost on this path, and nothing waits
    assert count * 4000 / took > 4e6
