from __future__ import annotations

import pytest

from broker.cluster.neighbours import Neighbour
from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq.counters import ArqCounters
from broker.transport.socket import ISocketChannel
from tests.cluster.sample_nodes import a_node
from tests.transport.arq.datagram_pair import Pair, User

PACKETS = [bytes(900)] * 300


def link() -> Neighbour:
    return Neighbour(a_node("alps/n2"), False, False, "udp", "member", True, "there")


def lossy_connection(seed: int, loss: float) -> tuple[ISocketChannel, ISocketChannel]:
    """Return both ends of a connection that has transferred all packets."""
    pair = Pair(seed, DatagramFaults(loss=loss))
    here, there = pair.connected()
    User(here, PACKETS)
    receiver = User(there)
    pair.run(lambda: len(receiver.packets) == len(PACKETS), 60.0)
    assert len(receiver.packets) == len(PACKETS)
    return here, there


@pytest.mark.parametrize("seed", range(5))
def test_losses_and_repeats_are_counted_at_both_ends(seed: int) -> None:
    here, there = link(), link()
    for end, channel in zip((here, there), lossy_connection(seed, 0.2), strict=True):
        end.set_channel(channel)
    assert here.arq_counts is not None and there.arq_counts is not None
    assert here.arq_counts.lost > 20
    assert here.arq_counts.repeated >= here.arq_counts.lost - 1
    assert there.arq_counts.received >= len(PACKETS)
    assert there.arq_counts.lost == there.arq_counts.repeated == 0


def test_counts_include_earlier_connections() -> None:
    end = link()
    sums = ArqCounters()
    for seed in range(3):
        channel, _ = lossy_connection(seed, 0.2)
        end.set_channel(channel)
        assert end.arq_counts is not None
        assert end.arq_counts.lost > sums.lost
        sums = end.arq_counts


def test_a_lossless_path_counts_no_losses() -> None:
    end = link()
    end.set_channel(lossy_connection(1, 0.0)[0])
    assert end.arq_counts is not None
    assert (end.arq_counts.lost, end.arq_counts.repeated, end.arq_counts.forged) == (0, 0, 0)


def test_tcp_has_no_arq_counts() -> None:
    assert link().arq_counts is None
