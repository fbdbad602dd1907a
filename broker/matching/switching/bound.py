"""The families bound to one shape, asked together: what they have in common is looked up once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from broker.matching.index.member import Member
from broker.matching.index.row_matcher import RowMatcher, RowMatches
from broker.matching.index.shared_index import SharedIndex
from broker.matching.partial.source import Computed, Constant, Source
from broker.matching.switching.batch import Batch
from broker.matching.switching.binding import Always, Binding, Bitmaps, Indexed
from broker.matching.switching.entry import Entry, entries
from broker.matching.switching.family import Family

#: By row, the members that match; None for none.
Matching: TypeAlias = list[list[Member] | None]
#: By row, the queries that may match.
Undecided: TypeAlias = dict[int, list[Entry]]


class _Audience:
    """Families that ask the same questions, each with whether its members then match for certain.

    Shared by `questions` questions, since most families have many in common.
    """

    __slots__ = ("families", "questions")

    def __init__(self, families: dict[Family, bool]) -> None:
        self.families = families
        self.questions = 0


class Question:
    """A conjunction whose members one look-up finds, whichever family of the audience has them."""

    __slots__ = ("audience", "checks", "places", "sources", "way")

    def __init__(
        self,
        sources: tuple[Source, ...],
        checks: tuple[Computed, ...],
        index: SharedIndex,
        audience: _Audience,
    ) -> None:
        self.sources = sources
        self.checks = checks
        self.audience = audience
        audience.questions += 1
        self.way = index.lookup_for(
            {at: source.value for at, source in enumerate(sources) if isinstance(source, Constant)}
        )
        self.places: Sequence[int | None] | None = None
        """Where in `Bound.sources` is what it reads, once that was wanted."""

    def sort(self, hits: RowMatches, batch: Batch, found: Matching, undecided: Undecided) -> None:
        """Add what a look-up found to the rows."""
        if self.checks:
            passed = [batch.column(check) for check in self.checks]
            hits = [hit for hit in hits if all(column[hit[0]] for column in passed)]
        decides = self.audience.families.get
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
                    undecided.setdefault(row, []).extend(entries((posting.entry,)))


#: What finds a question's members, and where in `Bound.sources` is what it reads; None at holes
#: that it does not look at.
Answerable: TypeAlias = tuple[RowMatcher, Sequence[int | None], Question]


class _Asked:
    """The questions to one index."""

    __slots__ = ("_answerable", "_changes", "_index", "_place_of", "questions")

    def __init__(self, index: SharedIndex, place_of: Callable[[Source], int]) -> None:
        self._index = index
        self._place_of = place_of
        self.questions: dict[tuple[tuple[Source, ...], tuple[Computed, ...]], Question] = {}
        # Those that any member can answer, as ways of the index led after so many changes.
        self._answerable: list[Answerable] = []
        self._changes: int | None = None

    def changed(self) -> None:
        """Other questions are asked."""
        self._changes = None

    def read_anew(self) -> None:
        """Questions have gone, and what they read has other places."""
        self.changed()
        for question in self.questions.values():
            question.places = None

    def answerable(self) -> Sequence[Answerable]:
        """The questions to which some member may be the answer."""
        if self._changes != self._index.version:
            self._answerable = list(self._answers())
            self._changes = self._index.version
        return self._answerable

    def _answers(self) -> Iterator[Answerable]:
        for question in self.questions.values():
            finder = question.way.matcher
            if finder is None:
                continue
            places = question.places
            if places is None:
                read = question.way.positions
                places = question.places = [
                    self._place_of(source) if at in read else None
                    for at, source in enumerate(question.sources)
                ]
            yield finder, places, question


class Bound:
    """Bindings by family."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        """What any question reads, once each."""
        self._places: dict[Source, int] = {}
        self._bindings: dict[Family, Binding] = {}
        self._alone: dict[Family, Always | Bitmaps] = {}
        self._asked: dict[SharedIndex, _Asked] = {}
        #: By the identity of terms that bindings have, the same list for many: it means something
        #: as long as the bindings are here.
        self._questions: dict[int, list[Question]] = {}

    def get(self, family: Family) -> Binding | None:
        """How a family is bound, None if it is not."""
        return self._bindings.get(family)

    def add(self, binding: Binding) -> None:
        """Ask about one family more, which is not here yet."""
        family = binding.family
        self._bindings[family] = binding
        if not isinstance(binding, Indexed):
            self._alone[family] = binding
            return
        questions = self._questions.get(id(binding.terms))
        if questions is None:
            questions = self._questions[id(binding.terms)] = self._questions_of(binding)
        joining: dict[_Audience, list[Question]] = {}
        for question in questions:
            joining.setdefault(question.audience, []).append(question)
        for audience, theirs in joining.items():
            _join(audience, theirs, family, binding.decided)

    def drop_dead(self) -> None:
        """Ask no more about families that nobody has queries of."""
        for family in [family for family in self._bindings if family.dead]:
            del self._bindings[family]
            self._alone.pop(family, None)
        # Their terms may be gone with them, and others be where these were.
        self._questions.clear()
        for index, asked in list(self._asked.items()):
            for key, question in list(asked.questions.items()):
                families = question.audience.families
                for family in [family for family in families if family.dead]:
                    del families[family]
                if not families:
                    question.audience.questions -= 1
                    del asked.questions[key]
            if not asked.questions:
                del self._asked[index]
            asked.read_anew()
        # What only they have read is read no more.
        self.sources.clear()
        self._places.clear()

    def asked(self, batch: Batch) -> list[tuple[RowMatcher, list[Sequence[Any]], Question]]:
        """The questions that some member may answer, with the columns that the finder reads."""
        known: dict[int, Sequence[Any]] = {}
        questions = []
        for asked in self._asked.values():
            for finder, places, question in asked.answerable():
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

    def find(self, batch: Batch, found: Matching, undecided: Undecided) -> None:
        """Add to each row the members that match it, by a look-up for these rows alone."""
        for finder, columns, question in self.asked(batch) if self._asked else ():
            if hits := finder.match_rows(columns, batch.size, batch.known):
                question.sort(hits, batch, found, undecided)
        if self._alone:
            self.find_alone(batch, found, undecided)

    def find_alone(self, batch: Batch, found: Matching, undecided: Undecided) -> None:
        """Add to each row what is found without questions."""
        for binding in self._alone.values():
            if binding.decided and batch.size == 1 and isinstance(binding, Always):
                members = found[0]
                found[0] = [*(members or ()), *binding.family.members]
            else:
                _sort(binding.rows(batch), binding.decided, found, undecided)

    def _questions_of(self, binding: Indexed) -> list[Question]:
        nobody = _Audience({})
        found: dict[Question, None] = {}
        for term in binding.terms:
            index = binding.projection(term).index
            asked = self._asked_of(index)
            key = (term.sources, term.checks)
            question = asked.questions.get(key)
            if question is None:
                question = asked.questions[key] = Question(*key, index, nobody)
                asked.changed()
            found[question] = None
        return list(found)

    def _place_of(self, source: Source) -> int:
        place = self._places.get(source)
        if place is None:
            place = self._places[source] = len(self.sources)
            self.sources.append(source)
        return place

    def _asked_of(self, index: SharedIndex) -> _Asked:
        asked = self._asked.get(index)
        if asked is None:
            asked = self._asked[index] = _Asked(index, self._place_of)
        return asked


def _join(audience: _Audience, questions: list[Question], family: Family, decided: bool) -> None:
    """Let a family into the audience of some of its questions."""
    if len(questions) < audience.questions or not audience.families:
        audience.questions -= len(questions)
        audience = _Audience(dict(audience.families))
        for question in questions:
            question.audience = audience
        audience.questions = len(questions)
    audience.families[family] = decided


def _sort(
    rows: Sequence[tuple[int, Sequence[Member]]],
    decided: bool,
    found: Matching,
    undecided: Undecided,
) -> None:
    for row, members in rows:
        if not decided:
            undecided.setdefault(row, []).extend(entries(members))
            continue
        known = found[row]
        if known is None:
            found[row] = list(members)
        else:
            known += members
