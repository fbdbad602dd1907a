"""A large mesh in virtual time: the router with the most descendants dies (DCP D61-D67)."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Set
from typing import Final

import attrs

from benchmarks.harness.report import Sheet, format_number
from benchmarks.meshes.matching import EVERYTHING
from benchmarks.meshes.mesh_node import MeshNode
from benchmarks.meshes.virtual_mesh import VirtualMesh
from benchmarks.sites.finding import Finding
from plugins.dcp.settings import DcpSettings

NODES: Final = 1_000
CHILDREN: Final = 100
QUICK: Final = (60, 16)
"""Nodes, and most children of each, of a quick run."""
PARENTS: Final = 3
#: Virtual seconds in which each node must have its full resilience again, and MiB of the process.
REPAIR: Final = 5.0
MEMORY: Final = 2_000.0
_ROOTS: Final = ("root0", "root1", "root2")
_DELAY: Final = 0.005
#: Nodes that start at once, and the seconds between two such groups.
_GROUP: Final = 20
_GROUP_GAP: Final = 0.2
#: Seconds between two events.
_GAP: Final = 0.25
_GIVE_UP: Final = 60.0


@attrs.frozen
class LargeMesh:
    nodes: int
    levels: int
    descendants: int
    """Of the router that dies."""
    connected_after: float
    """Virtual seconds from the first start to full resilience of all."""
    repaired_after: float
    """Virtual seconds from its death to full resilience of all others."""
    pause: float
    """Longest time without an event at a node while it was repaired."""
    missing: int
    """Events that did not arrive at one of the other nodes."""
    memory: float
    """Most MiB that the process has used."""


def measure(nodes: int = NODES, children: int = CHILDREN, seed: int = 6) -> LargeMesh:
    mesh = VirtualMesh(seed, _DELAY)
    settings = DcpSettings(parents=PARENTS, children=children)
    for name in _ROOTS:
        mesh.add_searching(name, _ROOTS, settings)
    begin = mesh.now
    for number in range(nodes - len(_ROOTS)):
        mesh.add_searching(f"node{number}", _ROOTS, settings).subscribe(EVERYTHING)
        if number % _GROUP == _GROUP - 1:
            mesh.run(_GROUP_GAP)
    _wait_until_whole(mesh)
    connected_after = mesh.now - begin
    mesh.run(1.0)
    earlier = len(mesh.published)
    for name in mesh.nodes.keys() - set(_ROOTS):
        mesh.record(name)
    mesh.publish_paced(8, _GAP)
    below = descendants(mesh.nodes)
    name = max(mesh.nodes.keys() - set(_ROOTS), key=lambda each: (len(below[each]), each))
    levels = 1 + max(each.router.membership.level for each in mesh.nodes.values())
    mesh.kill(name)
    killed_at = mesh.now
    _wait_until_whole(mesh)
    repaired_after = mesh.now - killed_at
    mesh.publish_paced(8, _GAP)
    mesh.run(2.0)
    arrived = [mesh.arrivals[each] for each in mesh.nodes if each not in _ROOTS]
    missing = sum(len(mesh.published) - earlier - len(each) for each in arrived)
    pauses = [_longest_pause(list(each.values())) for each in arrived]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return LargeMesh(
        *(nodes, levels, len(below[name]), connected_after, repaired_after),
        *(max(pauses), missing, memory),
    )


def _wait_until_whole(mesh: VirtualMesh) -> None:
    """Publish until each node has its full resilience.

    Raises AssertionError after a minute.
    """
    begin = mesh.now
    while not _is_whole(mesh):
        assert mesh.now < begin + _GIVE_UP, "the mesh has not its full resilience"
        mesh.publish_paced(1, _GAP)


def _is_whole(mesh: VirtualMesh) -> bool:
    """Return whether each node has its full resilience, and no dead parent."""
    return all(
        each.router.membership.standing.paths >= PARENTS
        and all(parent.candidate.name in mesh.nodes for parent in each.router.parents)
        for each in mesh.nodes.values()
    )


def descendants(nodes: Mapping[str, MeshNode]) -> dict[str, Set[str]]:
    """Return the nodes below each node."""
    found: dict[str, Set[str]] = {}
    for name in sorted(nodes, key=lambda each: -nodes[each].router.membership.level):
        children = {child.name for child in nodes[name].router.children}
        found[name] = children.union(*(found[child] for child in children))
    return found


def _longest_pause(times: list[float]) -> float:
    return max((later - one for one, later in zip(times, times[1:], strict=False)), default=0.0)


def findings(result: LargeMesh) -> list[Finding]:
    name = f"{result.nodes:,} nodes"
    return [
        Finding(name, "full resilience after a death", result.repaired_after, "s", most=REPAIR),
        Finding(name, "longest pause", 1e3 * (result.pause - _GAP), "ms"),
        Finding(name, "events missing", result.missing, "", most=0),
        Finding(name, "memory of the process", result.memory, "MiB", most=MEMORY),
    ]


def make_sheet(result: LargeMesh) -> Sheet:
    row = (
        *(format_number(result.nodes), str(result.levels), format_number(result.descendants)),
        *(f"{result.connected_after:.1f}", f"{result.repaired_after:.1f}"),
        *(f"{1e3 * (result.pause - _GAP):.0f}", str(result.missing), f"{result.memory:.0f}"),
    )
    columns = (
        *("nodes", "levels", "descendants of the dead", "s to connect", "s to repair"),
        *("longest pause ms", "missing", "MiB"),
    )
    return Sheet(f"A mesh of {PARENTS} parents in virtual time", columns, [row])
