"""Matching a document that was parsed: of no known shape, or of one that is not ready."""

from __future__ import annotations

from collections.abc import Iterable

from broker.matching.engine.batch import ShapeBatch
from broker.matching.engine.batch_match import BatchMatch, match_batches
from broker.matching.engine.binding import Binding
from broker.matching.engine.distinct_query import DistinctQuery, iterate_queries, queries_of
from broker.matching.engine.family_binding import bind_family
from broker.matching.engine.index_conjunction import ConjunctionReader
from broker.matching.engine.query_family import QueryFamily
from broker.matching.engine.shape_bindings import ShapeBindings
from broker.matching.index.member import Member
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.exact_evaluation import build_evaluation_input
from broker.matching.xpath_evaluation import ParsedEvent

#: Queries of a family up to which lxml evaluates each; more are worth a tree of our own.
MAX_EVALUATED = 32
#: Queries of all families up to which that holds. From there on a family has to be smaller: a tree
#: costs a template some 100 us, and a query evaluated some 15.
MAX_UNDECIDED = 2_048
MAX_EVALUATED_OF_MANY = 6
#: Members that are put into an index, which had them not, in one document's time: some 10 ms. The
#: others are compared one by one until they are.
MEMBERS_A_DOCUMENT = 2_500


class ParsedEventMatcher:
    """Finds the queries of one parsed document, or those that are left to evaluate."""

    def __init__(self, subject: ParsedEvent) -> None:
        self._event = subject
        self._input: EvaluationInput | None = None
        self._has_tree = True
        self._members_left = MEMBERS_A_DOCUMENT
        self._reader = ConjunctionReader()
        self.matching: list[Member] = []
        """Members that match."""
        self.undecided: list[DistinctQuery] = []
        """Queries that may match, to be evaluated."""

    def match_families(
        self, families: Iterable[QueryFamily], certain: Iterable[QueryFamily] = ()
    ) -> None:
        """Sort the queries of families that the document's structure leaves possible.

        Those of `certain` match, as the structure alone has it.
        """
        for family in certain:
            self.matching += family.members
        bound, batch = ShapeBindings(), ShapeBatch([()])
        for family in families:
            if self._is_small(family) or not self._bind_family(family, bound, batch):
                self.undecided += iterate_queries(family.members)
        finding = BatchMatch(bound, batch)
        match_batches([finding])
        self.matching += finding.matching[0] or ()
        self.undecided += finding.undecided.get(0, ())

    def _is_small(self, family: QueryFamily) -> bool:
        members = family.members
        most = MAX_EVALUATED if len(self.undecided) < MAX_UNDECIDED else MAX_EVALUATED_OF_MANY
        if len(members) > most:
            return False
        # One member may be an alternative of very many queries.
        return sum(len(queries_of(member)) for member in members) <= most

    def _bind_family(self, family: QueryFamily, bound: ShapeBindings, batch: ShapeBatch) -> bool:
        """Bind a family to the document's tree; False if it has none."""
        subjects = self._get_input()
        if subjects is None:
            return False
        binding, _ = bind_family(family, subjects, self._reader)
        if binding is not None:
            self._members_left -= binding.prepare_members(self._members_left)
            if not binding.is_ready:
                self._scan_unprepared(binding, batch)
            bound.add_binding(binding)
        return True

    def _scan_unprepared(self, binding: Binding, batch: ShapeBatch) -> None:
        """Sort the queries that the index does not have yet, unless it is better that it has."""
        found = binding.scan_unprepared(lambda source: batch.column(source)[0])
        if found is None:
            binding.prepare_members(len(binding.family.members))
        elif binding.is_decided:
            self.matching += found
        else:
            self.undecided += iterate_queries(found)

    def _get_input(self) -> EvaluationInput | None:
        if self._input is None and self._has_tree:
            self._input = build_evaluation_input(self._event)
            self._has_tree = self._input is not None
        return self._input
