"""Matching of a single document of a known shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from broker.errors import BadEnvelope
from broker.matching.contract import Variants, Verdict
from broker.matching.engine.binding import ShapeBatch
from broker.matching.engine.shape_plan import PlanCache
from broker.matching.engine.stream_patterns import StreamPatterns
from broker.matching.shape.cache import LENGTH_CLASSES, ShapeCache
from broker.matching.type_counters import CountersByType


class LoneDocumentMatcher:
    """Matches a document by the likely shape of its length, and that shape's plan.

    It avoids the function calls for groups and columns of a batch.
    """

    def __init__(
        self,
        shapes: ShapeCache,
        plans: PlanCache,
        patterns: StreamPatterns,
        type_counters: CountersByType,
        counts: Counter[str],
        clock: Callable[[], float],
    ) -> None:
        self._shapes = shapes
        self._plans = plans
        self._patterns = patterns
        self._type_counters = type_counters
        self._counts = counts
        self._clock = clock

    def match(self, document: bytes, variants: Variants) -> Verdict | None:
        """Return the verdict; None for a document that `Switch.match` must match as a batch."""
        shape = self._shapes.likely_shapes[len(document) % LENGTH_CLASSES]
        if shape is None:
            return None
        started = self._clock()
        values = shape.extract_values(document)
        if values is None:
            return None
        recognised_at = self._clock()
        plan = self._plans.get(shape, variants)
        if plan is None or plan.pending:
            return None
        try:
            header = shape.read_header(values)
        except BadEnvelope:
            return None
        batch = ShapeBatch((values,))
        plan.bindings.match_batch(batch)
        if batch.undecided:
            return None
        view = self._patterns.get_view(header.stream, header.security_level.rank)
        members = batch.matching[0]
        subscriptions = view.unfiltered if members is None else view.subscriptions_of(members)
        self._shapes.record_use(shape, 1)
        self._counts["recognised"] += 1
        self._type_counters.recognition_seconds += recognised_at - started
        self._type_counters.count_recognised(shape.reference, 1, self._clock() - recognised_at)
        return shape.verdict_class(header, subscriptions)
