"""Which partition a new member belongs to: a binary tree of fences over the bounds (a k-d tree).

Neighbours in value share a partition, so that a row is looked up in few partitions. This is a matter of
speed alone: a row finds its partitions by what is in them, wherever members were put.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import attrs

from broker.matching.index.member import Member
from broker.matching.index.partition import Partition


@attrs.define(eq=False)
class Branch:
    """Literals at `position` below the boundary go to `low`, others (and NaN) to `high`."""

    position: int
    boundary: float
    low: Node
    high: Node
    parent: Branch | None


Node: TypeAlias = Branch | Partition


class KdTree:
    """The tree; its leaves are partitions."""

    __slots__ = ("_parents", "_root")

    def __init__(self, partition: Partition) -> None:
        self._root: Node = partition
        #: Of each leaf but a leaf that is the root.
        self._parents: dict[Partition, Branch] = {}

    def find_partition(self, member: Member) -> Partition:
        """The leaf for a member's literals."""
        node = self._root
        while isinstance(node, Branch):
            below = cast(float, member.literals[node.position]) < node.boundary
            node = node.low if below else node.high
        return node

    def split_position(self, partition: Partition) -> int:
        """The parameter by which a partition was parted from its sibling, or -1."""
        parent = self._parents.get(partition)
        return parent.position if parent else -1

    def split(
        self, partition: Partition, position: int, boundary: float, new_partition: Partition
    ) -> None:
        """Let a new partition have what is not below the boundary from now on. Anything for a leaf."""
        parent = self._parents.get(partition)
        branch = Branch(position, boundary, partition, new_partition, parent)
        self._replace(partition, branch, parent)
        self._parents[partition] = self._parents[new_partition] = branch

    def is_leaf(self, partition: Partition) -> bool:
        """Whether a partition is a leaf."""
        return partition is self._root or partition in self._parents

    def remove_leaf(self, partition: Partition) -> None:
        """Give a leaf's part to its sibling; nothing happens to the only leaf, or to no leaf."""
        branch = self._parents.pop(partition, None)
        if branch is None:
            return
        sibling = branch.high if branch.low is partition else branch.low
        self._replace(branch, sibling, branch.parent)
        if isinstance(sibling, Branch):
            sibling.parent = branch.parent
        elif branch.parent is None:
            del self._parents[sibling]
        else:
            self._parents[sibling] = branch.parent

    def _replace(self, node: Node, successor: Node, parent: Branch | None) -> None:
        if parent is None:
            self._root = successor
        elif parent.low is node:
            parent.low = successor
        else:
            parent.high = successor
