"""Members by hash key: scanned while few, indexed when many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from broker.matching.index.bitmap_index import BitmapIndex
from broker.matching.index.comparison import compile_comparison
from broker.matching.index.grid_index import GridIndex
from broker.matching.index.interval_index import IntervalIndex
from broker.matching.index.lookup import LinearScan, Lookup, LookupTable
from broker.matching.index.member import Columns, Member, ResultCache
from broker.matching.index.parameter import Literal, Parameter, find_windows
from broker.matching.index.shrinking_dict import ShrinkingDict

#: More than `_MAX_SCANNED` members are indexed, fewer than `_MIN_INDEXED` are scanned again. The
#: distance avoids rebuilding a bucket at every change.
_MAX_SCANNED = 8
_MIN_INDEXED = 4

#: A literal, or the literals of several parameters.
Key: TypeAlias = Literal | tuple[Literal, ...]
MemberIndex: TypeAlias = BitmapIndex | GridIndex | IntervalIndex
Bucket: TypeAlias = tuple[Member, ...] | MemberIndex


def build_member_index(
    parameters: Mapping[int, Parameter], members: Iterable[Member] = ()
) -> MemberIndex:
    match len(find_windows(parameters)):
        case 0:
            return BitmapIndex(parameters, members)
        case 1:
            return IntervalIndex(parameters, members)
        case _:
            return GridIndex(parameters, members)


class Buckets:
    __slots__ = ("_compare", "_remaining", "_lookups", "by_key")

    def __init__(self, remaining: Mapping[int, Parameter]) -> None:
        self._remaining = remaining
        self._compare = compile_comparison(remaining)
        #: Keys contain no NaN, since a dict would find it by identity.
        self.by_key = ShrinkingDict[Key, Bucket]()
        self._lookups = LookupTable[Key]()

    @property
    def version(self) -> int:
        return self._lookups.version

    def add(self, key: Key, member: Member) -> None:
        bucket = self.by_key.get(key, ())
        if not isinstance(bucket, tuple):
            bucket.add(member)
            return
        if not self._remaining or len(bucket) < _MAX_SCANNED:
            self._set_bucket(key, (*bucket, member))
        else:
            self._set_bucket(key, build_member_index(self._remaining, (*bucket, member)))

    def remove(self, key: Key, member: Member) -> None:
        bucket = self.by_key[key]
        if not isinstance(bucket, tuple):
            bucket.remove(member)
            if bucket.size < _MIN_INDEXED:
                self._set_bucket(key, tuple(bucket.list_members()))
            return
        self._set_bucket(key, tuple([each for each in bucket if each is not member]))

    def lookup_for(self, key: Key) -> Lookup:
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups.create_lookup(
                key, self._matcher_for(self.by_key.get(key)), self._remaining
            )
        return lookup

    def _set_bucket(self, key: Key, bucket: Bucket) -> None:
        if bucket == ():
            del self.by_key[key]
        else:
            self.by_key[key] = bucket
        lookup = self._lookups.get(key)
        if lookup is None:
            return
        if isinstance(bucket, tuple) and bucket and isinstance(lookup.matcher, LinearScan):
            lookup.matcher.members = bucket
        else:
            self._lookups.redirect(lookup, self._matcher_for(bucket))

    def _matcher_for(self, bucket: Bucket | None) -> LinearScan | MemberIndex | None:
        if isinstance(bucket, tuple):
            return LinearScan(self._compare, bucket) if bucket else None
        return bucket

    def match_buckets(
        self,
        hits: Sequence[tuple[int, Bucket]],
        columns: Columns,
        rows: int,
        cache: ResultCache,
    ) -> list[tuple[int, Sequence[Member]]]:
        found: list[tuple[int, Sequence[Member]]] = []
        indexed: dict[MemberIndex, list[int]] = {}
        scanned: list[tuple[int, tuple[Member, ...]]] = []
        for row, bucket in hits:
            members: tuple[Member, ...] | None = None
            if isinstance(bucket, tuple):
                members = bucket
            elif isinstance(bucket, IntervalIndex):
                members = bucket.find_candidates(columns[bucket.window_position][row])
            if members is None:
                indexed.setdefault(cast(MemberIndex, bucket), []).append(row)
            elif members:
                scanned.append((row, members))
        self._compare(scanned, columns, found)
        for index, chosen in indexed.items():
            if len(chosen) == rows:
                found += index.match_rows(columns, rows, cache)
                continue
            some = [
                [column[row] for row in chosen] if position in self._remaining else ()
                for position, column in enumerate(columns)
            ]
            found += [(chosen[at], hit) for at, hit in index.match_rows(some, len(chosen))]
        return found
