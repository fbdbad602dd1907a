"""Matching of a parsed event, which has no shape or one whose plan is not ready."""

from __future__ import annotations

from collections.abc import Iterable

from broker.matching.engine.batch_match import match_batches
from broker.matching.engine.binding import Binding, ShapeBatch, bind_family
from broker.matching.engine.distinct_query import DistinctQuery, iterate_queries, queries_of
from broker.matching.engine.family_time_limit import FamilyTimeLimit
from broker.matching.engine.index_conjunction import ConjunctionReader
from broker.matching.engine.query_family import QueryFamily
from broker.matching.engine.shape_bindings import ShapeBindings
from broker.matching.index.member import Member
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.exact_evaluation import evaluation_input_of
from broker.matching.xpath_evaluation import ParsedEvent

#: Maximum queries of a family that lxml evaluates one by one. For more, partial evaluation pays.
MAX_EVALUATED = 32
#: Maximum undecided queries of all families for `MAX_EVALUATED`; beyond it `MAX_EVALUATED_OF_MANY`
#: holds. Partial evaluation takes some 100 us for a template, lxml 15 us for a query.
MAX_UNDECIDED = 2_048
MAX_EVALUATED_OF_MANY = 6
#: Members that one document adds to an index, in some 10 ms. The others are compared one by one.
MEMBERS_A_DOCUMENT = 2_500


class ParsedEventMatcher:
    """Sorts the queries for one parsed event into matching and undecided ones."""

    def __init__(self, event: ParsedEvent, time_limit: FamilyTimeLimit) -> None:
        self._event = event
        self._time_limit = time_limit
        self._members_left = MEMBERS_A_DOCUMENT
        self._reader = ConjunctionReader()
        self.matching: list[Member] = []
        self.undecided: list[DistinctQuery] = []

    def match_families(
        self, families: Iterable[QueryFamily], certain: Iterable[QueryFamily] = ()
    ) -> None:
        """Match the families that the structure leaves possible, and the `certain` ones."""
        for family in certain:
            self.matching += family.members
        bindings, batch = ShapeBindings(), ShapeBatch([()])
        for family in families:
            if self._is_small(family) or not self._bind_family(family, bindings, batch):
                self.undecided += iterate_queries(family.members)
        match_batches([(bindings, batch)])
        self.matching += batch.matching[0] or ()
        self.undecided += batch.undecided.get(0, ())

    def _is_small(self, family: QueryFamily) -> bool:
        members = family.members
        limit = MAX_EVALUATED if len(self.undecided) < MAX_UNDECIDED else MAX_EVALUATED_OF_MANY
        if len(members) > limit:
            return False
        # One member may be an alternative of very many queries.
        return sum(len(queries_of(member)) for member in members) <= limit

    def _bind_family(self, family: QueryFamily, bindings: ShapeBindings, batch: ShapeBatch) -> bool:
        evaluation_input = self._input
        if evaluation_input is None:
            return False
        found = self._time_limit.evaluate_family(
            family, lambda work: bind_family(family, evaluation_input, self._reader, work)
        )
        if found is None:
            return False
        binding, _ = found
        if binding is not None:
            self._members_left -= binding.prepare_members(self._members_left)
            if not binding.is_ready:
                self._scan_unprepared(binding, batch)
            bindings.add_binding(binding)
        return True

    def _scan_unprepared(self, binding: Binding, batch: ShapeBatch) -> None:
        """Compare the members that the index lacks, or add them if that is cheaper."""
        matching = binding.scan_unprepared(lambda source: batch.column(source)[0])
        if matching is None:
            binding.prepare_members(len(binding.family.members))
        elif binding.is_decided:
            self.matching += matching
        else:
            self.undecided += iterate_queries(matching)

    @property
    def _input(self) -> EvaluationInput | None:
        return evaluation_input_of(self._event)
