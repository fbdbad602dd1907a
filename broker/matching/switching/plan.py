"""What a shape's documents are matched with: the families bound to it so far."""

from __future__ import annotations

from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.function_library import parse_digits
from broker.matching.partial.source import Source, computed, source_of
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Value
from broker.matching.switching.batch import Batch
from broker.matching.switching.binding import Binding
from broker.matching.switching.bound import Bound
from broker.matching.switching.deciding import bound_to
from broker.matching.switching.entry import Entry
from broker.matching.switching.family import Family
from broker.matching.switching.registry import Registry
from broker.matching.switching.term import Terms

#: Nodes visited for new families in one turn, about 1 us each: what new shapes, or very many new
#: queries, may hold up everybody else. Until all are bound, each document of the
#: shape costs about as much again.
VISITS_A_TURN = 10_000
#: What a family costs beside the nodes that are visited, in visits.
VISITS_A_FAMILY = 10
#: Members that one visit's time is enough to make known to an index, which takes some 4 us each.
MEMBERS_A_VISIT = 1 / 4


class ShapePlan:
    """The families that concern one shape."""

    def __init__(self, shape: Shape) -> None:
        self.bound = Bound()
        self.dtd = shape.dtd
        self._subjects = subjects_of(shape)
        self.pending: dict[Family, Binding | None] = {}
        """Families that are not asked about yet, with what is known of how to."""
        self._terms = Terms()
        self.seen = 0
        """The sequence number of the newest family that was looked at."""
        self.deaths = 0
        """How many families were dead when dead ones were last dropped."""

    def bind(self, registry: Registry, visits: int) -> int:
        """Bind families that came, within about so many visits of nodes; how many it took."""
        if self.deaths != registry.deaths:
            self.deaths = registry.deaths
            self.bound.drop_dead()
        if self.seen != registry.newest:
            self.pending.update(
                dict.fromkeys(
                    registry.younger_than(self.seen)
                    if self.seen
                    else registry.structure.possible_on(self._subjects)
                )
            )
            self.seen = registry.newest
        taken = 0
        while self.pending and taken < visits:
            family, binding = self.pending.popitem()
            if not family.dead:
                taken += self._bind(family, binding, visits - taken)
        if not self.pending:
            # What comes later comes one at a time, and has little in common.
            self._terms = Terms()
            self._subjects.clear_caches()
        return taken

    def _bind(self, family: Family, binding: Binding | None, visits: int) -> int:
        taken = 0
        if binding is None:
            binding, visits_taken = bound_to(family, self._subjects, self._terms)
            taken += visits_taken + VISITS_A_FAMILY
            if binding is None:
                return taken
        most = max(1, round((visits - taken) * MEMBERS_A_VISIT))
        taken += round(binding.prepare(most) / MEMBERS_A_VISIT)
        if binding.is_ready:
            self.bound.add(binding)
        else:
            self.pending[family] = binding
        return taken

    def matches(self, entry: Entry, batch: Batch, row: int) -> bool | None:
        """Whether one query matches a document, None if only its evaluation can tell."""
        if entry.suspended:
            return False
        undecided = False
        for family, member in zip(entry.families, entry.members, strict=True):
            binding = self.bound.get(family)
            if family in self.pending:
                undecided = True
            elif binding is not None and binding.holds(
                member, lambda source: batch.column(source)[row]
            ):
                if binding.decided:
                    return True
                undecided = True
        return None if undecided else False


def subjects_of(shape: Shape) -> EvaluationInput:
    """What queries address in a shape."""
    fields = shape.fields
    type_name = shape.reference.type.encode()

    def text(value: Value) -> Source:
        return source_of(value)

    def number(value: Value) -> Source:
        return computed(parse_digits, source_of(value))

    return EvaluationInput(
        payload=shape.payload or shape.tree,
        envelope=shape.tree,
        variables={
            "StreamId": text(fields.stream),
            "ClientId": text(fields.client_id),
            "TimeStamp": number(fields.timestamp),
            "SequenceNumber": number(fields.sequence_number),
            "Incarnation": number(fields.incarnation),
            "VersionNum": text(fields.version_num),
            "EventType": text(type_name),
            "Securitylevel": text(fields.security_level),
            "Liveness": text(fields.liveness),
        },
    )
