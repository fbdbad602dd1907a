"""The families bound to one shape, with common index look-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from broker.matching.engine.binding import (
    AlwaysBinding,
    Binding,
    BitmapBinding,
    IndexedBinding,
    ShapeBatch,
)
from broker.matching.engine.distinct_query import iterate_queries
from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.member import Member, RowMatcher, RowMatches
from broker.matching.index.shared_index import SharedIndex
from broker.matching.partial.source import Computed, Constant, Source


@attrs.define(eq=False)
class _LookupFamilies:
    """Families with the same look-ups: a found member of a decided family matches.

    `lookup_count` look-ups share this object, to save memory.
    """

    decided: set[QueryFamily] = attrs.field(factory=set)
    undecided: set[QueryFamily] = attrs.field(factory=set)
    lookup_count: int = 0


class IndexLookup:
    __slots__ = ("families", "checks", "source_numbers", "sources", "lookup")

    def __init__(
        self,
        sources: tuple[Source, ...],
        checks: tuple[Computed, ...],
        index: SharedIndex,
        families: _LookupFamilies,
    ) -> None:
        self.sources = sources
        self.checks = checks
        self.families = families
        families.lookup_count += 1
        self.lookup = index.lookup_for(
            {
                number: source.value
                for number, source in enumerate(sources)
                if isinstance(source, Constant)
            }
        )
        self.source_numbers: Sequence[int | None] | None = None
        """The number of each parameter's source in `ShapeBindings.sources`; None until needed."""

    def sort_hits(self, hits: RowMatches, batch: ShapeBatch) -> None:
        matching = batch.matching
        if self.checks:
            passed = [batch.column(check) for check in self.checks]
            hits = [hit for hit in hits if all(column[hit[0]] for column in passed)]
        decided, undecided = self.families.decided, self.families.undecided
        for row, postings in hits:
            row_members = matching[row]
            for posting in postings:
                # Other shapes' families use the same index.
                if posting.owner in decided:
                    if row_members is None:
                        row_members = matching[row] = [posting.entry]
                    else:
                        row_members.append(posting.entry)
                elif posting.owner in undecided:
                    batch.undecided.setdefault(row, []).extend(iterate_queries((posting.entry,)))


#: Matcher of the index, numbers of its sources (None for an ignored parameter), and look-up.
ActiveLookup: TypeAlias = tuple[RowMatcher, Sequence[int | None], IndexLookup]


class _IndexLookups:
    __slots__ = ("_active", "_version", "_index", "_number_source", "lookups")

    def __init__(self, index: SharedIndex, number_source: Callable[[Source], int]) -> None:
        self._index = index
        self._number_source = number_source
        self.lookups: dict[tuple[tuple[Source, ...], tuple[Computed, ...]], IndexLookup] = {}
        # Look-ups that may find a member, and the index's version at that time.
        self._active: list[ActiveLookup] = []
        self._version: int | None = None

    def invalidate(self) -> None:
        self._version = None

    def renumber_sources(self) -> None:
        """Recompute source numbers after look-ups were removed."""
        self.invalidate()
        for lookup in self.lookups.values():
            lookup.source_numbers = None

    def active_lookups(self) -> Sequence[ActiveLookup]:
        if self._version != self._index.version:
            self._active = list(self._find_active())
            self._version = self._index.version
        return self._active

    def _find_active(self) -> Iterator[ActiveLookup]:
        for lookup in self.lookups.values():
            matcher = lookup.lookup.matcher
            if matcher is None:
                continue
            numbers = lookup.source_numbers
            if numbers is None:
                positions = lookup.lookup.positions
                numbers = lookup.source_numbers = [
                    self._number_source(source) if position in positions else None
                    for position, source in enumerate(lookup.sources)
                ]
            yield matcher, numbers, lookup


class ShapeBindings:
    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._source_numbers: dict[Source, int] = {}
        self._bindings: dict[QueryFamily, Binding] = {}
        self._without_lookup: dict[QueryFamily, AlwaysBinding | BitmapBinding] = {}
        self._by_index: dict[SharedIndex, _IndexLookups] = {}
        #: Look-ups by the identity of a binding's conjunctions, which many bindings share. Valid
        #: while these bindings are here.
        self._by_conjunctions: dict[int, list[IndexLookup]] = {}

    def get(self, family: QueryFamily) -> Binding | None:
        return self._bindings.get(family)

    def add_binding(self, binding: Binding) -> None:
        family = binding.family
        self._bindings[family] = binding
        if not isinstance(binding, IndexedBinding):
            self._without_lookup[family] = binding
            return
        lookups = self._by_conjunctions.get(id(binding.conjunctions))
        if lookups is None:
            lookups = self._by_conjunctions[id(binding.conjunctions)] = self._make_lookups(binding)
        by_families: dict[_LookupFamilies, list[IndexLookup]] = {}
        for lookup in lookups:
            by_families.setdefault(lookup.families, []).append(lookup)
        for families, joined in by_families.items():
            _add_family(families, joined, family, binding.is_decided)

    def drop_dead_families(self) -> None:
        for family in [family for family in self._bindings if family.is_dead]:
            del self._bindings[family]
            self._without_lookup.pop(family, None)
        # Freed conjunctions may leave their identity to others.
        self._by_conjunctions.clear()
        for index, index_lookups in list(self._by_index.items()):
            for key, lookup in list(index_lookups.lookups.items()):
                families = lookup.families
                for part in (families.decided, families.undecided):
                    part.difference_update([family for family in part if family.is_dead])
                if not (families.decided or families.undecided):
                    lookup.families.lookup_count -= 1
                    del index_lookups.lookups[key]
            if not index_lookups.lookups:
                del self._by_index[index]
            index_lookups.renumber_sources()
        # Sources are numbered again, without those of the removed look-ups.
        self.sources.clear()
        self._source_numbers.clear()

    def prepare_lookups(
        self, batch: ShapeBatch
    ) -> list[tuple[RowMatcher, list[Sequence[Any]], IndexLookup]]:
        columns_by_number: dict[int, Sequence[Any]] = {}
        lookups = []
        for index_lookups in self._by_index.values():
            for matcher, numbers, lookup in index_lookups.active_lookups():
                columns: list[Sequence[Any]] = []
                for number in numbers:
                    if number is None:
                        columns.append(())
                        continue
                    column = columns_by_number.get(number)
                    if column is None:
                        column = columns_by_number[number] = batch.column(self.sources[number])
                    columns.append(column)
                lookups.append((matcher, columns, lookup))
        return lookups

    def match_batch(self, batch: ShapeBatch) -> None:
        for matcher, columns, lookup in self.prepare_lookups(batch) if self._by_index else ():
            if hits := matcher.match_rows(columns, batch.size, batch.index_cache):
                lookup.sort_hits(hits, batch)
        if self._without_lookup:
            self.match_without_lookup(batch)

    def match_without_lookup(self, batch: ShapeBatch) -> None:
        for binding in self._without_lookup.values():
            if binding.is_decided and batch.size == 1 and isinstance(binding, AlwaysBinding):
                members = batch.matching[0]
                batch.matching[0] = [*(members or ()), *binding.family.members]
            else:
                _sort_rows(binding.match_rows(batch), binding.is_decided, batch)

    def _make_lookups(self, binding: IndexedBinding) -> list[IndexLookup]:
        no_families = _LookupFamilies()
        lookups: dict[IndexLookup, None] = {}
        for conjunction in binding.conjunctions:
            index = binding.members_for(conjunction).index
            index_lookups = self._lookups_in(index)
            key = (conjunction.sources, conjunction.checks)
            lookup = index_lookups.lookups.get(key)
            if lookup is None:
                lookup = index_lookups.lookups[key] = IndexLookup(*key, index, no_families)
                index_lookups.invalidate()
            lookups[lookup] = None
        return list(lookups)

    def _number_source(self, source: Source) -> int:
        number = self._source_numbers.get(source)
        if number is None:
            number = self._source_numbers[source] = len(self.sources)
            self.sources.append(source)
        return number

    def _lookups_in(self, index: SharedIndex) -> _IndexLookups:
        index_lookups = self._by_index.get(index)
        if index_lookups is None:
            index_lookups = self._by_index[index] = _IndexLookups(index, self._number_source)
        return index_lookups


def _add_family(
    families: _LookupFamilies, lookups: list[IndexLookup], family: QueryFamily, is_decided: bool
) -> None:
    """Add a family to some of the look-ups that share `families`."""
    if len(lookups) < families.lookup_count or not (families.decided or families.undecided):
        families.lookup_count -= len(lookups)
        families = _LookupFamilies(set(families.decided), set(families.undecided))
        for lookup in lookups:
            lookup.families = families
        families.lookup_count = len(lookups)
    (families.decided if is_decided else families.undecided).add(family)
    (families.undecided if is_decided else families.decided).discard(family)


def _sort_rows(
    rows: Sequence[tuple[int, Sequence[Member]]], decided: bool, batch: ShapeBatch
) -> None:
    for row, members in rows:
        if not decided:
            batch.undecided.setdefault(row, []).extend(iterate_queries(members))
            continue
        row_members = batch.matching[row]
        if row_members is None:
            batch.matching[row] = list(members)
        else:
            row_members += members
