"""K-d tree that chooses the partition of a new member.

Members with similar values share a partition, so a row needs few partitions. Only speed depends on
it: a row finds its partitions by their contents.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import attrs

from broker.matching.index.member import Member
from broker.matching.index.partition import Partition


@attrs.define(eq=False)
class Branch:
    """Literals at `position` below the boundary belong to `low`, others and NaN to `high`."""

    position: int
    boundary: float
    low: Node
    high: Node
    parent: Branch | None


Node: TypeAlias = Branch | Partition


class KdTree:
    """The tree. Its leaves are partitions."""

    __slots__ = ("_parents", "_root")

    def __init__(self, partition: Partition) -> None:
        self._root: Node = partition
        #: Parents of all leaves; a leaf that is the root has none.
        self._parents: dict[Partition, Branch] = {}

    def find_partition(self, member: Member) -> Partition:
        node = self._root
        while isinstance(node, Branch):
            below = cast(float, member.literals[node.position]) < node.boundary
            node = node.low if below else node.high
        return node

    def split_position(self, partition: Partition) -> int:
        parent = self._parents.get(partition)
        return parent.position if parent else -1

    def split(
        self, partition: Partition, position: int, boundary: float, new_partition: Partition
    ) -> None:
        """Split a leaf: the new partition takes literals that are not below the boundary."""
        parent = self._parents.get(partition)
        branch = Branch(position, boundary, partition, new_partition, parent)
        self._replace(partition, branch, parent)
        self._parents[partition] = self._parents[new_partition] = branch

    def is_leaf(self, partition: Partition) -> bool:
        return partition is self._root or partition in self._parents

    def remove_leaf(self, partition: Partition) -> None:
        """Remove a leaf; its sibling takes its range. No effect on the only leaf or on no leaf."""
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
