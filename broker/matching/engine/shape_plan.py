"""The plan of a shape: the families bound to it so far."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from broker.dtd.interfaces import IDtdCache
from broker.matching.contract import NO_VARIANTS, Accepted, Variants
from broker.matching.engine.binding import Binding, ShapeBatch, bind_family
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.index_conjunction import ConjunctionReader
from broker.matching.engine.query_family import QueryFamily
from broker.matching.engine.shape_bindings import ShapeBindings
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.function_library import parse_digits
from broker.matching.partial.source import Source, computed, source_of
from broker.matching.shape.cache import ShapeCache
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Value
from broker.matching.undescribed import find_dtd

#: Visited nodes for new families in one call, under 1 us each. It bounds the delay that new shapes
#: and queries cause. Until all families are bound, a document of the shape costs about as much
#: again.
VISITS_A_CALL = 15_000
#: Overhead of a family, in visits.
VISITS_A_FAMILY = 10
#: Members indexed in the time of one visit. One takes some 4 us.
MEMBERS_A_VISIT = 1 / 4


class ShapePlan:
    """Families bound to a shape, and to others that differ from it only in prefixes."""

    def __init__(self, shape: Shape) -> None:
        self.bindings = ShapeBindings()
        self.dtd = shape.dtd
        self._input = make_evaluation_input(shape)
        self.pending: dict[QueryFamily, Binding | None] = {}
        """Families without a look-up yet, with their incomplete bindings."""
        self._reader = ConjunctionReader()
        self.newest_family = 0
        self.dead_families = 0

    def try_share(self) -> bool:
        """Return True if the plan holds for shapes with other prefixes too, from now on."""
        if self._input.reads_prefixes:
            return False
        self._input.prefixes_vary = True
        return True

    def bind_families(self, registry: SubscriptionRegistry, visits: int) -> int:
        """Bind new families within about `visits` node visits; return the number used."""
        if self.dead_families != registry.dead_families:
            self.dead_families = registry.dead_families
            self.bindings.drop_dead_families()
        if self.newest_family != registry.newest_family:
            self.pending.update(
                dict.fromkeys(
                    registry.families_after(self.newest_family)
                    if self.newest_family
                    else registry.structure_index.match_shape(self._input)
                )
            )
            self.newest_family = registry.newest_family
        taken = 0
        while self.pending and taken < visits:
            family, binding = self.pending.popitem()
            if not family.is_dead:
                taken += self._bind_family(family, binding, visits - taken)
        if not self.pending:
            # Later families come one by one, and share little.
            self._reader = ConjunctionReader()
            self._input.clear_caches()
        return taken

    def _bind_family(self, family: QueryFamily, binding: Binding | None, visits: int) -> int:
        taken = 0
        if binding is None:
            binding, visits_taken = bind_family(family, self._input, self._reader)
            taken += visits_taken + VISITS_A_FAMILY
            if binding is None:
                return taken
        limit = max(1, round((visits - taken) * MEMBERS_A_VISIT))
        taken += round(binding.prepare_members(limit) / MEMBERS_A_VISIT)
        if binding.is_ready:
            self.bindings.add_binding(binding)
        else:
            self.pending[family] = binding
        return taken

    def matches_query(self, query: DistinctQuery, batch: ShapeBatch, row: int) -> bool | None:
        """Return True if a query matches a document; None if it must be evaluated."""
        if query.is_suspended:
            return False
        undecided = False
        for family, member in zip(query.families, query.members, strict=True):
            binding = self.bindings.get(family)
            if family in self.pending:
                undecided = True
            elif binding is not None and binding.matches_member(
                member, lambda source: batch.column(source)[row]
            ):
                if binding.is_decided:
                    return True
                undecided = True
        return None if undecided else False


def make_evaluation_input(shape: Shape) -> EvaluationInput:
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
            "Validation": text(shape.validation.value.encode()),
        },
    )


def hash_structure(shape: Shape) -> bytes:
    """Return a hash of the shape's tree without prefixes, its slots, and its type's DTD.

    Shapes with the same hash differ only in prefixes.
    """
    found = hashlib.sha256(f"{shape.reference} {shape.dtd.content_hash}".encode())
    nodes = [shape.tree]
    while nodes:
        node = nodes.pop()
        fields = (node.kind.value, node.namespace, node.local, node.value)
        found.update(repr((*fields, len(node.attributes), len(node.children))).encode())
        nodes += node.attributes
        nodes += node.children
    return found.digest()


class UndecidedDocument(NamedTuple):
    """A recognised document with queries that its shape's plan does not decide."""

    shape: Shape
    values: Sequence[bytes]
    plan: ShapePlan
    queries: Sequence[DistinctQuery]
    verdict: Accepted


class PlanCache:
    def __init__(self, dtds: IDtdCache, shapes: ShapeCache, registry: SubscriptionRegistry) -> None:
        self._dtds = dtds
        self._shapes = shapes
        self._registry = registry
        self._plans: dict[Shape, ShapePlan] = {}
        #: The plan that shapes share, by their structure without prefixes.
        self._shared: WeakValueDictionary[bytes, ShapePlan] = WeakValueDictionary()
        #: Visits left in this call for binding families.
        self._visits_left = 0

    def __contains__(self, shape: object) -> bool:
        return shape in self._plans

    def reset_visits(self) -> None:
        self._visits_left = VISITS_A_CALL

    def get(self, shape: Shape, variants: Variants = NO_VARIANTS) -> ShapePlan | None:
        """Return the shape's plan, None if its documents must be parsed.

        That is so if another text of the DTD validates them. Binds pending families while visits
        are left.
        """
        reference = shape.reference
        if variants:
            reference = variants.get(reference, reference)
        dtd = find_dtd(self._dtds, reference)
        if dtd is None or dtd.content_hash != shape.dtd.content_hash:
            if reference == shape.dtd.reference:
                self._shapes.drop_shape(shape)
            return None
        plan = self._plans.get(shape)
        if plan is None:
            plan = self._plans[shape] = self._make_plan(shape)
        registry = self._registry
        if (
            plan.pending
            or plan.newest_family != registry.newest_family
            or plan.dead_families != registry.dead_families
        ):
            self._visits_left -= plan.bind_families(registry, self._visits_left)
        return plan

    def _make_plan(self, shape: Shape) -> ShapePlan:
        structure = hash_structure(shape)
        plan = self._shared.get(structure)
        if plan is None or not plan.try_share():
            plan = self._shared[structure] = ShapePlan(shape)
        return plan

    def peek(self, shape: Shape) -> ShapePlan | None:
        return self._plans.get(shape)

    def discard(self, shape: Shape) -> None:
        self._plans.pop(shape, None)

    @property
    def unready_count(self) -> int:
        return sum(bool(plan.pending) for plan in self._plans.values())
