"""The families bound to one shape, asked together: what they have in common is looked up once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from broker.matching.engine.batch import ShapeBatch
from broker.matching.engine.binding import AlwaysBinding, Binding, BitmapBinding, IndexedBinding
from broker.matching.engine.distinct_query import DistinctQuery, iterate_queries
from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.member import Member, RowMatcher, RowMatches
from broker.matching.index.shared_index import SharedIndex
from broker.matching.partial.source import Computed, Constant, Source

#: By row, the members that match; None for none.
MembersByRow: TypeAlias = list[list[Member] | None]
#: By row, the queries that may match.
UndecidedByRow: TypeAlias = dict[int, list[DistinctQuery]]


class _LookupFamilies:
    """Families that ask the same questions, each with whether its members then match for certain.

    Shared by `questions` questions, since most families have many in common.
    """

    __slots__ = ("is_decided", "lookup_count")

    def __init__(self, families: dict[QueryFamily, bool]) -> None:
        self.is_decided = families
        self.lookup_count = 0


class IndexLookup:
    """A conjunction whose members one look-up finds, whichever family of the audience has them."""

    __slots__ = ("families", "checks", "source_numbers", "sources", "lookup")

    def __init__(
        self,
        sources: tuple[Source, ...],
        checks: tuple[Computed, ...],
        index: SharedIndex,
        audience: _LookupFamilies,
    ) -> None:
        self.sources = sources
        self.checks = checks
        self.families = audience
        audience.lookup_count += 1
        self.lookup = index.lookup_for(
            {at: source.value for at, source in enumerate(sources) if isinstance(source, Constant)}
        )
        self.source_numbers: Sequence[int | None] | None = None
        """Where in `ShapeBindings.sources` is what it reads, once that was wanted."""

    def sort_hits(
        self, hits: RowMatches, batch: ShapeBatch, found: MembersByRow, undecided: UndecidedByRow
    ) -> None:
        """Add what a look-up found to the rows."""
        if self.checks:
            passed = [batch.column(check) for check in self.checks]
            hits = [hit for hit in hits if all(column[hit[0]] for column in passed)]
        decides = self.families.is_decided.get
        for row, postings in hits:
            known = found[row]
            for posting in postings:
                decided = decides(posting.owner)
                if decided:
                    if known is None:
                        known = found[row] = [posting.entry]
                    else:
                        known.append(posting.entry)
                elif decided is not None:
                    undecided.setdefault(row, []).extend(iterate_queries((posting.entry,)))


#: What finds a question's members, and where in `ShapeBindings.sources` is what it reads; None at holes
#: that it does not look at.
ActiveLookup: TypeAlias = tuple[RowMatcher, Sequence[int | None], IndexLookup]


class _IndexLookups:
    """The questions to one index."""

    __slots__ = ("_active", "_version", "_index", "_number_source", "lookups")

    def __init__(self, index: SharedIndex, place_of: Callable[[Source], int]) -> None:
        self._index = index
        self._number_source = place_of
        self.lookups: dict[tuple[tuple[Source, ...], tuple[Computed, ...]], IndexLookup] = {}
        # Those that any member can answer, as ways of the index led after so many changes.
        self._active: list[ActiveLookup] = []
        self._version: int | None = None

    def invalidate(self) -> None:
        """Other questions are asked."""
        self._version = None

    def renumber_sources(self) -> None:
        """Questions have gone, and what they read has other places."""
        self.invalidate()
        for question in self.lookups.values():
            question.source_numbers = None

    def active_lookups(self) -> Sequence[ActiveLookup]:
        """The questions to which some member may be the answer."""
        if self._version != self._index.version:
            self._active = list(self._find_active())
            self._version = self._index.version
        return self._active

    def _find_active(self) -> Iterator[ActiveLookup]:
        for question in self.lookups.values():
            finder = question.lookup.matcher
            if finder is None:
                continue
            places = question.source_numbers
            if places is None:
                read = question.lookup.positions
                places = question.source_numbers = [
                    self._number_source(source) if at in read else None
                    for at, source in enumerate(question.sources)
                ]
            yield finder, places, question


class ShapeBindings:
    """Bindings by family."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        """What any question reads, once each."""
        self._source_numbers: dict[Source, int] = {}
        self._bindings: dict[QueryFamily, Binding] = {}
        self._without_lookup: dict[QueryFamily, AlwaysBinding | BitmapBinding] = {}
        self._by_index: dict[SharedIndex, _IndexLookups] = {}
        #: By the identity of terms that bindings have, the same list for many: it means something
        #: as long as the bindings are here.
        self._by_conjunctions: dict[int, list[IndexLookup]] = {}

    def get(self, family: QueryFamily) -> Binding | None:
        """How a family is bound, None if it is not."""
        return self._bindings.get(family)

    def add_binding(self, binding: Binding) -> None:
        """Ask about one family more, which is not here yet."""
        family = binding.family
        self._bindings[family] = binding
        if not isinstance(binding, IndexedBinding):
            self._without_lookup[family] = binding
            return
        questions = self._by_conjunctions.get(id(binding.conjunctions))
        if questions is None:
            questions = self._by_conjunctions[id(binding.conjunctions)] = self._make_lookups(
                binding
            )
        joining: dict[_LookupFamilies, list[IndexLookup]] = {}
        for question in questions:
            joining.setdefault(question.families, []).append(question)
        for audience, theirs in joining.items():
            _add_family(audience, theirs, family, binding.is_decided)

    def drop_dead_families(self) -> None:
        """Ask no more about families that nobody has queries of."""
        for family in [family for family in self._bindings if family.is_dead]:
            del self._bindings[family]
            self._without_lookup.pop(family, None)
        # Their terms may be gone with them, and others be where these were.
        self._by_conjunctions.clear()
        for index, asked in list(self._by_index.items()):
            for key, question in list(asked.lookups.items()):
                families = question.families.is_decided
                for family in [family for family in families if family.is_dead]:
                    del families[family]
                if not families:
                    question.families.lookup_count -= 1
                    del asked.lookups[key]
            if not asked.lookups:
                del self._by_index[index]
            asked.renumber_sources()
        # What only they have read is read no more.
        self.sources.clear()
        self._source_numbers.clear()

    def prepare_lookups(
        self, batch: ShapeBatch
    ) -> list[tuple[RowMatcher, list[Sequence[Any]], IndexLookup]]:
        """The questions that some member may answer, with the columns that the finder reads."""
        known: dict[int, Sequence[Any]] = {}
        questions = []
        for asked in self._by_index.values():
            for finder, places, question in asked.active_lookups():
                columns: list[Sequence[Any]] = []
                for place in places:
                    if place is None:
                        columns.append(())
                        continue
                    column = known.get(place)
                    if column is None:
                        column = known[place] = batch.column(self.sources[place])
                    columns.append(column)
                questions.append((finder, columns, question))
        return questions

    def match_batch(
        self, batch: ShapeBatch, found: MembersByRow, undecided: UndecidedByRow
    ) -> None:
        """Add to each row the members that match it, by a look-up for these rows alone."""
        for finder, columns, question in self.prepare_lookups(batch) if self._by_index else ():
            if hits := finder.match_rows(columns, batch.size, batch.index_cache):
                question.sort_hits(hits, batch, found, undecided)
        if self._without_lookup:
            self.match_without_lookup(batch, found, undecided)

    def match_without_lookup(
        self, batch: ShapeBatch, found: MembersByRow, undecided: UndecidedByRow
    ) -> None:
        """Add to each row what is found without questions."""
        for binding in self._without_lookup.values():
            if binding.is_decided and batch.size == 1 and isinstance(binding, AlwaysBinding):
                members = found[0]
                found[0] = [*(members or ()), *binding.family.members]
            else:
                _sort_rows(binding.match_rows(batch), binding.is_decided, found, undecided)

    def _make_lookups(self, binding: IndexedBinding) -> list[IndexLookup]:
        nobody = _LookupFamilies({})
        found: dict[IndexLookup, None] = {}
        for term in binding.conjunctions:
            index = binding.members_for(term).index
            asked = self._lookups_in(index)
            key = (term.sources, term.checks)
            question = asked.lookups.get(key)
            if question is None:
                question = asked.lookups[key] = IndexLookup(*key, index, nobody)
                asked.invalidate()
            found[question] = None
        return list(found)

    def _number_source(self, source: Source) -> int:
        place = self._source_numbers.get(source)
        if place is None:
            place = self._source_numbers[source] = len(self.sources)
            self.sources.append(source)
        return place

    def _lookups_in(self, index: SharedIndex) -> _IndexLookups:
        asked = self._by_index.get(index)
        if asked is None:
            asked = self._by_index[index] = _IndexLookups(index, self._number_source)
        return asked


def _add_family(
    audience: _LookupFamilies, questions: list[IndexLookup], family: QueryFamily, decided: bool
) -> None:
    """Let a family into the audience of some of its questions."""
    if len(questions) < audience.lookup_count or not audience.is_decided:
        audience.lookup_count -= len(questions)
        audience = _LookupFamilies(dict(audience.is_decided))
        for question in questions:
            question.families = audience
        audience.lookup_count = len(questions)
    audience.is_decided[family] = decided


def _sort_rows(
    rows: Sequence[tuple[int, Sequence[Member]]],
    decided: bool,
    found: MembersByRow,
    undecided: UndecidedByRow,
) -> None:
    for row, members in rows:
        if not decided:
            undecided.setdefault(row, []).extend(iterate_queries(members))
            continue
        known = found[row]
        if known is None:
            found[row] = list(members)
        else:
            known += members
