"""Bitmap index over any number of members and parameters, in partitions (checklist F5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import and_
from typing import Any, TypeAlias, cast

import attrs

from broker.matching.bitmap import PARTITION_SIZE, iterate_numbers
from broker.matching.index.bound_block import CumulativeBitmaps
from broker.matching.index.member import Columns, Member, ResultCache, RowMatches
from broker.matching.index.parameter import Operator, Parameter
from broker.matching.index.partition import Partition
from broker.matching.index.substring_index import SubstringIndex

_PARTITION_MASK = (1 << PARTITION_SIZE) - 1
_PARTITION_BYTES = PARTITION_SIZE // 8
#: A partition of this size is split. Its members move one by one with later changes, so no single
#: change is slow. Until they have moved, the rest of the partition takes new members.
_SPLIT_SIZE = PARTITION_SIZE * 3 // 4
#: A partition with fewer members is dissolved, in the same way.
_DISSOLVE_SIZE = PARTITION_SIZE // 8
#: Members that arrive together in at least this number get their own partition. Loading takes about
#: a microsecond a member, adding ten.
_BULK_SIZE = PARTITION_SIZE // 4


class BitmapIndex:
    """Members by the parameters at the given positions.

    A change may change members' numbers in the bitmaps.
    """

    def __init__(self, parameters: Mapping[int, Parameter], members: Iterable[Member] = ()) -> None:
        self._parameters = parameters
        self._substrings = {
            position: SubstringIndex()
            for position, parameter in parameters.items()
            if parameter.operator is Operator.CONTAINS
        }
        self._partitions: list[Partition] = []
        #: Partitions that are split or dissolved, with the members to move. Some of them may be
        #: removed meanwhile.
        self._moving: dict[Partition, list[Member]] = {}
        self._zone_map: ZoneMap | None = None
        self._kd_tree = KdTree(self._open_partition())
        self.size = 0
        self.add_many(list(members))

    def add(self, member: Member) -> None:
        self._zone_map = None
        partition = self._place_member(member)
        self.size += 1
        if partition.size >= _SPLIT_SIZE and partition not in self._moving:
            self._split(partition)
        self._move_one(partition)

    def add_many(self, members: Sequence[Member]) -> None:
        """Add new members, in partitions of their own if there are enough of them."""
        self._zone_map = None
        for start in range(0, len(members), _SPLIT_SIZE):
            some = members[start : start + _SPLIT_SIZE]
            empty = not self.size
            if len(some) < _BULK_SIZE and not empty:
                for member in some:
                    self.add(member)
                continue
            partition = self._partitions[0] if empty else self._open_partition()
            partition.load(some)
            self.size += len(some)

    def remove(self, member: Member) -> None:
        self._zone_map = None
        partition = cast(Partition, member.partition)
        partition.remove(member)
        self.size -= 1
        if partition.size < _DISSOLVE_SIZE and (not self._moving or not partition.size):
            self._dissolve(partition)
        self._move_one(partition)
        self._drop_if_empty(partition)

    def list_members(self) -> list[Member]:
        return [
            member
            for partition in self._partitions
            for member in partition.select_members(partition.full_bitmap)
        ]

    def match_rows(self, columns: Columns, rows: int, _cache: ResultCache = None) -> RowMatches:
        prepared: dict[int, Sequence[Any]] = {
            position: columns[position] for position in self._parameters
        }
        for position, substrings in self._substrings.items():
            prepared[position] = substrings.search_column(columns[position])
        if len(self._partitions) == 1:
            return self._partitions[0].match_rows(prepared, rows)
        if self._zone_map is None:
            self._zone_map = ZoneMap(self._parameters, self._partitions)
        found: dict[int, list[Member]] = {}
        for partition, chosen in zip(
            self._partitions, self._zone_map.select_rows(columns, rows), strict=True
        ):
            if not chosen:
                continue
            some = _gather_rows(prepared, chosen)
            for at, members in partition.match_rows(some, len(chosen)):
                row = chosen[at]
                if row in found:
                    found[row] += members
                else:
                    found[row] = members
        return [(row, found[row]) for row in sorted(found)]

    @property
    def full_bitmap(self) -> int:
        return _concatenate(partition.full_bitmap for partition in self._partitions)

    def match_bitmap(self, position: int, value: Any) -> int:
        return _concatenate(
            partition.match_bitmap(position, value) for partition in self._partitions
        )

    def select_members(self, bitmap: int) -> list[Member]:
        found = []
        for partition in self._partitions:
            if not bitmap:
                break
            found += partition.select_members(bitmap & _PARTITION_MASK)
            bitmap >>= PARTITION_SIZE
        return found

    def _open_partition(self) -> Partition:
        partition = Partition(self._parameters, self._substrings)
        self._partitions.append(partition)
        return partition

    def _place_member(self, member: Member) -> Partition:
        partition = self._kd_tree.find_partition(member)
        if partition.is_full:
            with_room = (
                each for each in self._partitions if not each.is_full and each not in self._moving
            )
            partition = next(with_room, None) or self._open_partition()
        partition.add(member)
        return partition

    def _split(self, partition: Partition) -> None:
        parting = partition.choose_split(self._kd_tree.split_position(partition))
        if parting is not None:
            position, boundary, leaving = parting
            self._kd_tree.split(partition, position, boundary, self._open_partition())
            self._moving[partition] = leaving

    def _dissolve(self, partition: Partition) -> None:
        self._kd_tree.remove_leaf(partition)
        if not self._kd_tree.is_leaf(partition):
            self._moving[partition] = partition.select_members(partition.full_bitmap)

    def _move_one(self, partition: Partition) -> None:
        """Move one member out of this partition; if none is to leave it, out of another."""
        if not self._moving:
            return
        if partition not in self._moving:
            if self.size % 2:
                # Moving one at every other change is fast enough.
                return
            partition = next(iter(self._moving))
        leaving = self._moving[partition]
        while leaving:
            member = leaving.pop()
            if member.partition is partition:
                if self._kd_tree.find_partition(member) is not partition:
                    partition.remove(member)
                    self._place_member(member)
                break
        if not leaving:
            del self._moving[partition]
            self._drop_if_empty(partition)

    def _drop_if_empty(self, partition: Partition) -> None:
        """Drop a partition that is empty and not a leaf of the k-d tree."""
        needed = partition.size or partition in self._moving or self._kd_tree.is_leaf(partition)
        if not needed and partition in self._partitions:
            self._partitions.remove(partition)


def _gather_rows(
    columns: Mapping[int, Sequence[Any]], rows: Sequence[int]
) -> dict[int, Sequence[Any]]:
    """Return the columns with these rows only, each shared column once."""
    gathered: dict[int, list[Any]] = {}
    for column in columns.values():
        if id(column) not in gathered:
            gathered[id(column)] = [column[row] for row in rows]
    return {position: gathered[id(column)] for position, column in columns.items()}


def _concatenate(parts: Iterable[int]) -> int:
    return int.from_bytes(
        b"".join([bits.to_bytes(_PARTITION_BYTES, "little") for bits in parts]), "little"
    )


class Overflow:
    __slots__ = ("_parameters", "_index")

    def __init__(self, parameters: Mapping[int, Parameter]) -> None:
        self._parameters = parameters
        self._index: BitmapIndex | None = None

    def __len__(self) -> int:
        return 0 if self._index is None else self._index.size

    def list_members(self) -> list[Member]:
        return [] if self._index is None else self._index.list_members()

    def add(self, member: Member) -> None:
        if self._index is None:
            self._index = BitmapIndex(self._parameters)
        self._index.add(member)

    def discard(self, member: Member) -> bool:
        if self._index is None or member.partition is None:
            return False
        self._index.remove(member)
        return True

    def match_rows(self, columns: Columns, rows: int) -> RowMatches:
        return self._index.match_rows(columns, rows) if self._index else []


class ZoneMap:
    """A snapshot of the partitions, made anew after a change."""

    __slots__ = ("_by_position", "_partition_count")

    def __init__(
        self, parameters: Mapping[int, Parameter], partitions: Sequence[Partition]
    ) -> None:
        self._partition_count = len(partitions)
        self._by_position: list[tuple[int, CumulativeBitmaps]] = []
        for position, parameter in parameters.items():
            if parameter.is_threshold:
                weakest = [
                    (bound, 1 << at)
                    for at, partition in enumerate(partitions)
                    if (bound := partition.weakest_bound(position)) is not None
                ]
                weakest.sort()
                cumulative = CumulativeBitmaps(parameter.operator)
                cumulative.load([bound for bound, _ in weakest], [bit for _, bit in weakest])
                self._by_position.append((position, cumulative))

    def select_rows(self, columns: Columns, rows: int) -> list[Sequence[int]]:
        """Return for each partition the ascending rows to look up in it."""
        if not self._by_position:
            return [range(rows)] * self._partition_count
        combined: list[int] | None = None
        for position, cumulative in self._by_position:
            column = cumulative.match_column(columns[position])
            combined = column if combined is None else list(map(and_, combined, column))
        chosen: list[list[int]] = [[] for _ in range(self._partition_count)]
        for row, bits in enumerate(combined or ()):
            for at in iterate_numbers(bits):
                chosen[at].append(row)
        return list(chosen)


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
