"""Requests of one tier: only for ranges that all parents have lost (DCP A2, A3, A7; D46)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from random import Random
from statistics import fmean

import pytest

from benchmarks.meshes.binomial import binomial_bounds
from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.packet import ACK, FIN, KEEPALIVE, NACK, RETX, STREAM, SYN
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh, modulo

FLOW = "o/asdi.>"
#: Seconds between two events, each in a datagram of its own.
_GAP = 0.02
_NO_EVENTS = ACK | NACK | KEEPALIVE | STREAM | FIN
_CONFIDENCE = 0.9999


class Tier:
    """Roots, and one leaf that has all of them as parents."""

    def __init__(self, parents: int, faults: DatagramFaults, seed: int = 1) -> None:
        roots = [f"a{number}" for number in range(1, parents + 1)]
        self.mesh = Mesh(seed, DcpSettings(parents=parents), faults, roots)
        for name in roots:
            self.mesh.add_root(name)
        self.leaf = self.mesh.add("c", children=0)
        self.mesh.time.run_until(lambda: len(self.leaf.router.parents.paths) == parents, 10.0)

    def publish(self, ans: range) -> None:
        for an in ans:
            self.mesh.publish(FLOW, 1, [an])
            self.mesh.run(_GAP)

    def check(self) -> None:
        self.mesh.run(5.0)
        self.mesh.check_ends()
        assert self.mesh.violations == []
        assert self.mesh.gaps == []


class FirstTransmissions:
    """Loses a share of the datagrams with events to a node, but none that is sent again."""

    def __init__(self, target: str, share: float, seed: int) -> None:
        self._target = target
        self._share = share
        self._random = Random(f"first transmissions {seed}")
        self.lost: Counter[int] = Counter()
        """Losses of the datagram of each AN."""
        self.resent: set[int] = set()

    def passes(self, datagram: bytes, source: Hashable, target: Hashable) -> bool:
        flags = int.from_bytes(datagram[:2], "big")
        if target != self._target or flags & (_NO_EVENTS | SYN):
            return True
        an = int.from_bytes(datagram[4:12], "big")
        if flags & RETX:
            self.resent.add(an)
            return True
        is_lost = self._random.random() < self._share
        self.lost[an] += is_lost
        return not is_lost


@pytest.mark.parametrize(
    ("parents", "loss", "count"),
    [
        (1, 0.1, 300),
        (2, 0.2, 800),
        *(
            pytest.param(n, f, 10_000, marks=pytest.mark.soak)
            for n in (1, 2, 3)
            for f in (0.1, 0.3)
        ),
    ],
)
def test_each_range_that_all_parents_lost_is_requested_and_no_other(
    parents: int, loss: float, count: int
) -> None:
    tier = Tier(parents, DatagramFaults(delay=0.002))
    tier.leaf.subscribe("s", ALL)
    tier.mesh.run(1.0)
    tier.publish(range(1, 11))
    first = FirstTransmissions("c", loss, seed=parents)
    tier.mesh.datagrams.filter = first.passes
    tier.publish(range(11, 11 + count))
    tier.mesh.datagrams.filter = lambda *_: True
    tier.check()
    lost_by_all = {an for an, times in first.lost.items() if times == parents}
    assert first.resent == lost_by_all
    least, most = binomial_bounds(count, loss**parents, _CONFIDENCE)
    assert least <= len(first.resent) <= most


def test_nothing_is_requested_that_is_filtered() -> None:
    """Queries change, and the stream pauses for longer than keep-alives do."""
    tier = Tier(2, DatagramFaults(delay=0.002))
    tier.leaf.subscribe("s", modulo(10, 3))
    tier.mesh.run(1.0)
    for number in range(5):
        tier.publish(range(1 + 100 * number, 101 + 100 * number))
        tier.leaf.subscribe(f"s{number}", modulo(20, number))
        tier.mesh.run(2.0)
    tier.check()
    received = sum(path.first for path in tier.leaf.router.parents.paths.values())
    assert 50 <= received <= 100
    assert tier.leaf.router.nacks == 0


def test_the_mean_latency_does_not_rise_with_parents() -> None:
    means = []
    for parents in (1, 2, 3):
        tier = Tier(parents, DatagramFaults(delay=0.005, jitter=0.01, loss=0.1))
        tier.leaf.subscribe("s", ALL)
        tier.mesh.run(1.0)
        tier.publish(range(1, 501))
        tier.check()
        means.append(fmean(tier.mesh.latencies))
    assert means == sorted(means, reverse=True)
