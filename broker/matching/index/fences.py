"""Which sheet a new member belongs to: a binary tree of fences over the bounds (a k-d tree).

Neighbours in value share a sheet, so that a row is looked up in few sheets. This is a matter of
speed alone: a row finds its sheets by what is in them, wherever members were put.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import attrs

from broker.matching.index.member import Member
from broker.matching.index.sheet import Sheet


@attrs.define(eq=False)
class Branch:
    """Literals at `position` below the fence go to `low`, others (and NaN) to `high`."""

    position: int
    fence: float
    low: Node
    high: Node
    parent: Branch | None


Node: TypeAlias = Branch | Sheet


class Fences:
    """The tree; its leaves are sheets."""

    __slots__ = ("_parents", "_root")

    def __init__(self, sheet: Sheet) -> None:
        self._root: Node = sheet
        #: Of each leaf but a leaf that is the root.
        self._parents: dict[Sheet, Branch] = {}

    def sheet_for(self, member: Member) -> Sheet:
        """The leaf for a member's literals."""
        node = self._root
        while isinstance(node, Branch):
            below = cast(float, member.literals[node.position]) < node.fence
            node = node.low if below else node.high
        return node

    def position_above(self, sheet: Sheet) -> int:
        """The hole by which a sheet was parted from its sibling, or -1."""
        parent = self._parents.get(sheet)
        return parent.position if parent else -1

    def part(self, sheet: Sheet, position: int, fence: float, heir: Sheet) -> None:
        """Let a new sheet have what is not below the fence from now on. Anything for a leaf."""
        parent = self._parents.get(sheet)
        branch = Branch(position, fence, sheet, heir, parent)
        self._replace(sheet, branch, parent)
        self._parents[sheet] = self._parents[heir] = branch

    def leads_to(self, sheet: Sheet) -> bool:
        """Whether a sheet is a leaf."""
        return sheet is self._root or sheet in self._parents

    def detach(self, sheet: Sheet) -> None:
        """Give a leaf's part to its sibling; nothing happens to the only leaf, or to no leaf."""
        branch = self._parents.pop(sheet, None)
        if branch is None:
            return
        sibling = branch.high if branch.low is sheet else branch.low
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
