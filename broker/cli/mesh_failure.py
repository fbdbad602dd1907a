"""Effects of failures on a mesh, computed from a picture of it (DCP D70; N8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from broker.cli.mesh_picture import MeshNode, Picture

#: More than any number of paths.
_MANY: Final = 1_000_000


class UnknownElement(ValueError):
    """Neither a node of the picture, nor a diversity key of one."""


@attrs.frozen
class Failure:
    """Effects of a failure, until the nodes have found other parents."""

    gone: Sequence[str]
    """Nodes that fail."""
    cut_off: Sequence[str]
    """Nodes without a path from a root: they lose events, which come from the log later."""
    weakened: Mapping[str, tuple[int, int]]
    """Resilience before and after, of other nodes that lose some."""
    shared: Mapping[str, Sequence[str]]
    """Diversity keys, each with the nodes that its failure would cut off then. The nodes that
    have the key themselves are not counted."""


def check_failure(picture: Picture, without: Collection[str]) -> Failure:
    """Return the effects of the failure of nodes, and of all nodes with a diversity key as
    `uplink=isp-a`.

    A node is served by the parents that it has now, and not by one that is leaving it. Of a node
    that did not answer, its children know what all paths to it share. Raises `UnknownElement`.
    """
    gone = find_members(picture, without)
    before, after = count_paths(picture), count_paths(picture, without)
    cut_off = [name for name in before if name not in after and name not in gone]
    weakened = {
        name: (before[name] - 1, paths - 1)
        for name, paths in after.items()
        if name in before and paths < before[name]
    }
    shared: dict[str, Sequence[str]] = {}
    for key in sorted({key for name in after for key in picture.nodes[name].keys}):
        members = find_members(picture, [key])
        rest = count_paths(picture, [*without, key])
        if cut := [name for name in after if name not in rest and name not in members]:
            shared[key] = cut
    return Failure(sorted(gone), cut_off, weakened, shared)


def find_members(picture: Picture, elements: Collection[str]) -> frozenset[str]:
    """Return the names of the nodes that fail with these nodes and diversity keys."""
    found: set[str] = set()
    for element in elements:
        members = {
            node.name
            for node in picture.nodes.values()
            if element == node.name or element in node.keys
        }
        if not members and not _is_stated(picture, element):
            keys = sorted({key for node in picture.nodes.values() for key in node.keys})
            raise UnknownElement(
                f"{picture.stack} has neither a node nor a diversity key {element!r}; its nodes: "
                f"{', '.join(sorted(picture.nodes)) or 'none'}; its diversity keys: "
                f"{', '.join(keys) or 'none'}"
            )
        found |= members
    return frozenset(found)


def _is_stated(picture: Picture, element: str) -> bool:
    return any(_text_of(element) in link.shared for _, link in picture.links())


def _text_of(element: str) -> str:
    """Return a node or diversity key as nodes state what their paths share."""
    kind, _, which = element.partition("=")
    return f"{kind} {which}" if which else f"node {kind}"


def count_paths(picture: Picture, without: Collection[str] = ()) -> dict[str, int]:
    """Return the number of failures that cut each node off, without some nodes and diversity keys.

    It is the smallest of the number of a node's served parents and their numbers; of a root, the
    number of roots. Nodes that no root serves are left out.
    """
    gone = find_members(picture, without)
    failed = {_text_of(each) for each in without}
    behind = {link.parent for _, link in picture.links() if failed & link.shared}
    nodes = {name: node for name, node in picture.nodes.items() if name not in gone}
    roots = sum(node.is_root for node in nodes.values())
    # The answers are of different times: a circle may appear, and is not served by itself.
    served: dict[str, int] = {}
    for name, node in nodes.items():
        if node.is_root:
            served[name] = roots
        elif not node.address and name not in behind:
            served[name] = node.resilience + 1
    waiting = {name for name, node in nodes.items() if name not in served and node.address}
    while found := {name for name in waiting if _served_parents(nodes[name], served)}:
        served.update((name, _MANY) for name in found)
        waiting -= found
    has_changed = True
    while has_changed:
        has_changed = False
        for name, node in nodes.items():
            if node.is_root or name not in served or not node.address:
                continue
            parents = _served_parents(node, served)
            paths = min([len(parents), *(served[each] for each in parents)])
            if paths < served[name]:
                served[name], has_changed = paths, True
    return {name: served[name] for name in nodes if name in served}


def _served_parents(node: MeshNode, served: Mapping[str, int]) -> list[str]:
    return [link.parent for link in node.parents if link.parent in served and not link.is_leaving]
