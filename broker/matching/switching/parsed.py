"""Matching a document that was parsed: of no known shape, or of one that is not ready."""

from __future__ import annotations

from collections.abc import Iterable

from broker.matching.evaluation import Subject
from broker.matching.index.member import Member
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.exact_evaluation import build_evaluation_input
from broker.matching.switching.batch import Batch
from broker.matching.switching.binding import Binding
from broker.matching.switching.bound import Bound
from broker.matching.switching.deciding import bound_to
from broker.matching.switching.entry import Entry, entries, entries_of
from broker.matching.switching.family import Family
from broker.matching.switching.finding import Finding, find
from broker.matching.switching.term import Terms

#: Queries of a family up to which lxml evaluates each; more are worth a tree of our own.
MAX_SINGLE = 32
#: Queries of all families up to which that holds. From there on a family has to be smaller: a tree
#: costs a template some 100 us, and a query evaluated some 15.
MAX_OPEN = 2_048
MAX_SINGLE_OF_MANY = 6
#: Members that are put into an index, which had them not, in one document's time: some 10 ms. The
#: others are compared one by one until they are.
MEMBERS_A_DOCUMENT = 2_500


class ParsedMatching:
    """Finds the queries of one parsed document, or those that are left to evaluate."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._subjects: EvaluationInput | None = None
        self._has_tree = True
        self._most = MEMBERS_A_DOCUMENT
        self._terms = Terms()
        self.found: list[Member] = []
        """Members that match."""
        self.open: list[Entry] = []
        """Queries that may match, to be evaluated."""

    def look(self, families: Iterable[Family], certain: Iterable[Family] = ()) -> None:
        """Sort the queries of families that the document's structure leaves possible.

        Those of `certain` match, as the structure alone has it.
        """
        for family in certain:
            self.found += family.members
        bound, batch = Bound(), Batch([()])
        for family in families:
            if self._is_small(family) or not self._bind(family, bound, batch):
                self.open += entries(family.members)
        finding = Finding(bound, batch)
        find([finding])
        self.found += finding.matching[0] or ()
        self.open += finding.undecided.get(0, ())

    def _is_small(self, family: Family) -> bool:
        members = family.members
        most = MAX_SINGLE if len(self.open) < MAX_OPEN else MAX_SINGLE_OF_MANY
        if len(members) > most:
            return False
        # One member may be an alternative of very many queries.
        return sum(len(entries_of(member)) for member in members) <= most

    def _bind(self, family: Family, bound: Bound, batch: Batch) -> bool:
        """Bind a family to the document's tree; False if it has none."""
        subjects = self._tree()
        if subjects is None:
            return False
        binding, _ = bound_to(family, subjects, self._terms)
        if binding is not None:
            self._most -= binding.prepare(self._most)
            if not binding.is_ready:
                self._find_waiting(binding, batch)
            bound.add(binding)
        return True

    def _find_waiting(self, binding: Binding, batch: Batch) -> None:
        """Sort the queries that the index does not have yet, unless it is better that it has."""
        found = binding.waiting(lambda source: batch.column(source)[0])
        if found is None:
            binding.prepare(len(binding.family.members))
        elif binding.decided:
            self.found += found
        else:
            self.open += entries(found)

    def _tree(self) -> EvaluationInput | None:
        if self._subjects is None and self._has_tree:
            self._subjects = build_evaluation_input(self._subject)
            self._has_tree = self._subjects is not None
        return self._subjects
