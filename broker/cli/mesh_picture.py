"""The nodes and links of a mesh at one time, from the answers of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class Link:
    """The link from a parent, as its child has measured it."""

    parent: str
    loss: float = 0.0
    """Share of packets, 0 to 1."""
    round_trip_ms: float = 0.0
    first: int = 0
    """Events of which this parent's copy came first."""
    saved_losses: int = 0
    saved_ms: float = 0.0
    is_leaving: bool = False
    level: int = 0
    """Of the parent, as are the next two."""
    paths: int = 1
    shared: frozenset[str] = frozenset()
    """Nodes and diversity keys on each path from a root to the parent."""


@attrs.frozen
class MeshNode:
    name: str
    address: str = ""
    """Empty: it did not answer, and is known by its children only."""
    is_root: bool = False
    level: int = 0
    resilience: int = 0
    wanted_parents: int = 0
    children: int = 0
    child_names: Sequence[str] = ()
    diversity: Mapping[str, str] = attrs.field(factory=dict)
    alarms: Sequence[str] = ()
    has_left: bool = False
    is_moving: bool = False
    parents: Sequence[Link] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The diversity keys as `KIND=NAME`."""
        return frozenset(f"{kind}={which}" for kind, which in self.diversity.items())


@attrs.frozen
class Picture:
    stack: str
    nodes: Mapping[str, MeshNode]
    """By name. A parent that did not answer has no address."""
    silent: Sequence[str] = ()
    """Nodes of the network without an answer. They may have no part in the mesh."""

    @property
    def unanswered(self) -> list[str]:
        """Names of nodes that are parents, and did not answer."""
        return [each.name for each in self.nodes.values() if not each.address]

    def links(self) -> Iterator[tuple[MeshNode, Link]]:
        """Yield each link with its child."""
        for node in self.nodes.values():
            for link in node.parents:
                yield node, link


def read_picture(answer: Mapping[str, Any]) -> Picture:
    """Return the picture that a node answers; of two nodes of one name, the last one counts."""
    known = [_read_node(each) for each in answer.get("nodes", ())]
    nodes = {each.name: each for each in sorted(known, key=lambda node: (node.level, node.name))}
    for each in known:
        for link in each.parents:
            if link.parent not in nodes:
                nodes[link.parent] = _infer_node(link)
    silent = [str(each) for each in answer.get("silent", ())]
    return Picture(str(answer.get("stack")), nodes, silent)


def _read_node(row: Mapping[str, Any]) -> MeshNode:
    return MeshNode(
        name=str(row.get("name")),
        address=str(row.get("node")),
        is_root=bool(row.get("is_root")),
        level=row.get("level", 0),
        resilience=row.get("resilience", 0),
        wanted_parents=row.get("wanted_parents", 0),
        children=row.get("children", 0),
        child_names=row.get("child_names", ()),
        diversity=row.get("diversity", {}),
        alarms=row.get("alarms", ()),
        has_left=bool(row.get("has_left")),
        is_moving=bool(row.get("moving")),
        parents=[_read_link(each) for each in row.get("parents", ())],
    )


def _read_link(row: Mapping[str, Any]) -> Link:
    return Link(
        parent=str(row.get("name")),
        loss=row.get("loss", 0.0),
        round_trip_ms=row.get("round_trip_ms", 0.0),
        first=row.get("first", 0),
        saved_losses=row.get("saved_losses", 0),
        saved_ms=row.get("saved_ms", 0.0),
        is_leaving=bool(row.get("leaving")),
        level=row.get("level", 0),
        paths=row.get("paths", 1),
        shared=frozenset(row.get("shared", ())),
    )


def _infer_node(link: Link) -> MeshNode:
    """Return a node that did not answer, as far as a child knows it."""
    return MeshNode(
        name=link.parent,
        is_root=link.level == 0,
        level=link.level,
        resilience=max(0, link.paths - 1),
    )
