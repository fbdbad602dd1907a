"""Nodes of a mesh that choose the number of their parents by the events lost at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.mesh.selection import Candidate, IParentSelector
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh

FLOW = "o/asdi.>"
ROOTS = ("a1", "a2", "a3", "a4")
LOSS, TARGET = 0.15, 0.009
#: Seconds in which an uplink loses all datagrams, or none.
BURST = 0.01


@implementer(IPlugin, IParentSelector)
class FirstName:
    """Prefers the first roots."""

    name = "first-name"

    def rank(self, candidate: Candidate, parents: Sequence[Candidate]) -> Sequence[float]:
        return [int(candidate.name[1:])]


class Uplinks:
    """Lose the datagrams of events to a leaf: of roots behind one uplink at the same times."""

    def __init__(self, mesh: Mesh, uplink_of: dict[str, str]) -> None:
        self.uplink_of = uplink_of
        self.loss = LOSS
        self._mesh = mesh
        mesh.datagrams.filter = self.passes

    def passes(self, datagram: bytes, source: object, target: object) -> bool:
        if target != "c" or len(datagram) < 80:
            return True
        uplink = self.uplink_of.get(str(source), source)
        return Random(f"{uplink} {self._mesh.now // BURST}").random() >= self.loss


def make_mesh() -> Mesh:
    settings = DcpSettings(loss_target=TARGET, selector=FirstName())
    mesh = Mesh(3, settings, DatagramFaults(jitter=0.001), ROOTS)
    for name in ROOTS:
        mesh.add_root(name)
    mesh.add("c").subscribe("s", ALL)
    mesh.run(3.0)
    return mesh


def publish(mesh: Mesh, count: int, interval: float = 0.1) -> None:
    first = mesh.ends.get(FLOW, (1, 0))[1] + 1
    for an in range(first, first + count):
        mesh.publish(FLOW, 1, [an])
        mesh.run(interval)


def parents_of(mesh: Mesh) -> set[str]:
    return {each.candidate.name for each in mesh.nodes["c"].router.parents if not each.is_leaving}


@pytest.mark.parametrize(("uplinks", "number"), [({}, 3), ({"a1": "x", "a2": "x"}, 4)])
def test_the_chosen_parents_lose_less_than_the_target(uplinks: dict[str, str], number: int) -> None:
    """Where two of three parents share an uplink, the product of their losses is below the target,
    and their joint loss is above it."""
    mesh = make_mesh()
    Uplinks(mesh, uplinks)
    router = mesh.nodes["c"].router
    found = router.membership.parent_count
    while not (found.judgement and found.judgement.is_measured) or found.judgement.bound >= TARGET:
        publish(mesh, 100)
        assert mesh.now < 500.0, found.snapshot()
    assert found.count == number and len(parents_of(mesh)) == number
    connections = [each.connection for each in router.parents]
    names = {each.connection: each.candidate.name for each in router.parents}
    if uplinks:
        pair = [each for each in connections if names[each] in uplinks]
        one = [each for each in connections if names[each] not in uplinks][:1]
        losses = router.parents.losses
        assert losses.independent_share([*pair, *one]) < TARGET / 2
        assert losses.count([*pair, *one]).share > 1.5 * TARGET
    mesh.run(10.0)
    mesh.check_ends()
    assert mesh.violations == [] and mesh.gaps == []


def test_a_parent_that_is_not_needed_ends_when_the_others_are_proven() -> None:
    mesh = make_mesh()
    router = mesh.nodes["c"].router
    router.membership.parent_count.count = 3
    mesh.run(3.0)
    assert len(router.parents) == 3
    while len(router.parents) > 2 and mesh.now < 1_000.0:
        publish(mesh, 20, 0.5)
    assert router.membership.parent_count.count == len(parents_of(mesh)) == 2
    publish(mesh, 10)
    mesh.run(10.0)
    mesh.check_ends()
    assert mesh.violations == [] and mesh.gaps == [] and router.nacks == 0
