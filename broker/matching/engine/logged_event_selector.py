"""Selection of logged events for one subscription, outside the time of live events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from broker.errors import BadEnvelope
from broker.event.envelope import Liveness
from broker.matching.contract import NO_VARIANTS, Variants
from broker.matching.engine.binding import ShapeBatch
from broker.matching.engine.query_evaluator import QueryEvaluator
from broker.matching.engine.shape_plan import PlanCache
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.examiner import Examiner
from broker.matching.shape.cache import ShapeCache, recognise_documents


class LoggedEventSelector:
    """Matches one query by the plans of shapes, member by member, and by lxml where these are
    undecided."""

    def __init__(
        self,
        registry: SubscriptionRegistry,
        shapes: ShapeCache,
        plans: PlanCache,
        evaluator: QueryEvaluator,
        examiner: Examiner,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._shapes = shapes
        self._plans = plans
        self._evaluator = evaluator
        self._examiner = examiner
        self._clock = clock

    def select(
        self,
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
        *,
        marked: bool = False,
    ) -> list[bool]:
        """See `IMatcher.select`."""
        deadline = self._clock() + seconds
        readable = self._registry.readable_streams_of(number)
        query = self._registry.query_of(number)
        self._evaluator.begin_batch()
        self._plans.reset_visits()
        indexes = range(len(documents))
        groups, parsed = recognise_documents(self._shapes, documents, () if marked else indexes)
        if marked:
            parsed = list(indexes)
        selected: dict[int, bool] = {}
        for group in groups:
            plan = self._plans.get(group.shape, variants)
            if plan is None or (query is not None and "$Liveness" in query.text):
                parsed += group.places
                continue
            batch = ShapeBatch(group.values)
            for row, index in enumerate(group.places):
                try:
                    header = group.shape.read_header(group.values[row])
                except BadEnvelope:
                    parsed.append(index)
                    continue
                is_selected = readable.include(header.stream, header.security_level.rank) and (
                    query is None or plan.matches_query(query, batch, row)
                )
                if is_selected is None:
                    parsed.append(index)
                else:
                    selected[index] = is_selected
        end = len(documents)
        for index in sorted(parsed):
            if index and self._clock() >= deadline:
                end = index
                break
            document = documents[index]
            event = self._examiner.parse_logged(document, liveness, variants, marked=marked)
            header = event.header
            selected[index] = readable.include(header.stream, header.security_level.rank) and (
                query is None or self._evaluator.matches_logged_event(query, event, index, document)
            )
        first_suspended = self._evaluator.first_suspension(end)
        return [index < first_suspended and selected[index] for index in range(end)]
