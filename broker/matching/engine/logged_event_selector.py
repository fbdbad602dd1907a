"""Events of a log for one subscription, which gets them when there is time for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope
from broker.event.envelope import Liveness
from broker.matching.contract import Variants
from broker.matching.engine.batch import ShapeBatch
from broker.matching.engine.plan_cache import PlanCache
from broker.matching.engine.query_evaluator import QueryEvaluator
from broker.matching.engine.recognition import recognise_documents
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.examiner import Examiner
from broker.matching.shape.cache import ShapeCache


class LoggedEventSelector:
    """Asks plans member by member, without a look-up, and lxml where they do not tell."""

    def __init__(
        self,
        registry: SubscriptionRegistry,
        shapes: ShapeCache,
        plans: PlanCache,
        single: QueryEvaluator,
        examiner: Examiner,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._shapes = shapes
        self._plans = plans
        self._evaluator = single
        self._examiner = examiner
        self._clock = clock

    def select(
        self,
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        undescribed: Set[DtdReference],
        seconds: float,
        variants: Variants,
    ) -> list[bool]:
        """See `IMatcher`."""
        enough = self._clock() + seconds
        pattern = self._registry.pattern_of(number)
        entry = self._registry.query_of(number)
        self._evaluator.begin_batch()
        self._plans.reset_visits()
        places = range(len(documents))
        # Shapes prove what the DTDs say that count here.
        groups, parsed = (
            ([], list(places)) if variants else recognise_documents(self._shapes, documents, places)
        )
        selected: dict[int, bool] = {}
        for group in groups:
            plan = self._plans.get(group.shape)
            if plan is None or (entry is not None and "$Liveness" in entry.text):
                parsed += group.places
                continue
            batch = ShapeBatch(group.values)
            for row, place in enumerate(group.places):
                try:
                    stream = group.shape.read_header(group.values[row]).stream
                except BadEnvelope:
                    parsed.append(place)
                    continue
                wanted = pattern.matches(stream) and (
                    entry is None or plan.matches_query(entry, batch, row)
                )
                if wanted is None:
                    parsed.append(place)
                else:
                    selected[place] = wanted
        end = len(documents)
        for place in sorted(parsed):
            if place and self._clock() >= enough:
                end = place
                break
            document = documents[place]
            subject = self._examiner.parse_logged(document, liveness, undescribed, variants)
            selected[place] = pattern.matches(subject.header.stream) and (
                entry is None
                or self._evaluator.matches_logged_event(entry, subject, place, document)
            )
        broken = self._evaluator.first_suspension(end)
        return [place < broken and selected[place] for place in range(end)]
