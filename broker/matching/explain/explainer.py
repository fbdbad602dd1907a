"""Explains queries for an engine: how it answers them, and their result on an event."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final

import attrs

from broker.errors import InvalidEvent, QueryTooExpensive
from broker.matching.contract import NO_VARIANTS, DtdNeeded, TypeMissing, Variants
from broker.matching.examiner import Examiner
from broker.matching.explain.event_finding import EventFindings
from broker.matching.explain.explanation import EventExplanation, Explanation, Measured
from broker.matching.explain.index_explainer import IndexExplainer
from broker.matching.explain.probe import MAX_NODES, Probe
from broker.matching.query.query import Query
from broker.matching.query_bounds import BoundedEvaluation, QueryBounds, RunnableQuery
from broker.matching.xpath_evaluation import ParsedEvent

#: Seconds after which no further part of an explanation starts.
MAX_TOTAL_SECONDS: Final = 0.1
#: Maximum number of measurements. None starts after so many seconds in total.
MEASUREMENTS: Final = 5
MAX_SECONDS: Final = 0.02

#: Holder of the share of undeclared names of all explained events.
_HOLDER: Final = "explain"
_NO_EVENT: Final = "not measured: no event was given"


@attrs.frozen
class _Examined:
    document: bytes
    variants: Variants
    event: ParsedEvent
    seconds: float


class Explainer:
    """Explains queries without learning, counting or suspending anything.

    It needs its own `bounds`, since they count evaluations.
    """

    def __init__(
        self,
        engine: str,
        examiner: Examiner,
        bounds: QueryBounds,
        clock: Callable[[], float],
        index: IndexExplainer | None = None,
    ) -> None:
        self._engine = engine
        self._examiner = examiner
        self._bounds = bounds
        self._clock = clock
        self._index = index
        self._last: _Examined | None = None
        """The last event: several queries are explained on it."""

    def explain(
        self,
        query: Query,
        document: bytes | None,
        variants: Variants = NO_VARIANTS,
        *,
        shapes: bool = True,
    ) -> Explanation:
        index = self._index
        explanation = Explanation(
            engine=self._engine,
            query=query.written,
            estimated_cost=query.estimated_cost,
            everything=query.is_true,
            withheld=index is not None and not shapes,
            measured=Measured(note=_NO_EVENT),
        )
        if index is not None:
            explanation = attrs.evolve(explanation, alternatives=index.explain_alternatives(query))
            if shapes:
                types, more = index.explain_shapes(query)
                explanation = attrs.evolve(explanation, types=types, more_shapes=more)
        if document is None:
            return explanation
        return self._explain_event(explanation, query, document, variants, shapes=shapes)

    def _explain_event(
        self,
        explanation: Explanation,
        query: Query,
        document: bytes,
        variants: Variants,
        *,
        shapes: bool,
    ) -> Explanation:
        began = self._clock()
        try:
            subject, parsing = self._examine(document, variants)
        except InvalidEvent as error:
            answer = EventExplanation(refused=error.to_wire())
            return attrs.evolve(explanation, measured=Measured(note="not measured"), event=answer)
        if isinstance(subject, TypeMissing):
            raise DtdNeeded(subject)
        runnable = RunnableQuery(query)
        evaluation = BoundedEvaluation(self._bounds, subject, document, max_tree=MAX_NODES)
        # Shapes, and the time of a look-up, reveal something about other events.
        known = None if self._index is None or not shapes else self._index.find_shape(document)
        header = subject.header
        answer = EventExplanation(
            type=header.type_name,
            version=header.version,
            stream=header.stream,
            security_level=header.security_level.value,
            client_id=header.event_id.client_id,
            timestamp=header.event_id.timestamp,
            incarnation=header.event_id.incarnation,
            sequence_number=header.event_id.sequence_number,
            recognised=known is not None if shapes else None,
        )

        def evaluate(part: RunnableQuery) -> bool:
            cost = part.worst_cost(evaluation.rounded_nodes)
            return part.is_always_true or evaluation.matches(part, cost)

        started = self._clock()
        try:
            matches = evaluate(runnable)
        except QueryTooExpensive as reason:
            return attrs.evolve(
                explanation,
                measured=Measured(note="not measured"),
                event=attrs.evolve(answer, note=f"it is not evaluated on this event: {reason}"),
            )
        lookup = None
        if self._index is not None and known is not None:
            lookup = self._measure(self._index.prepare_lookup(query, *known))
        measured = Measured(
            evaluation=self._measure(
                evaluation.prepare_evaluation(runnable), self._clock() - started
            ),
            lookup=lookup,
            parsing=parsing,
        )
        findings = EventFindings(
            query.text,
            Probe(
                *(query, subject, self._clock, lambda part: evaluate(RunnableQuery(part))),
                deadline=began + MAX_TOTAL_SECONDS,
            ),
        )
        finding = findings.explain_expression(query.expression, holds=matches)
        answer = attrs.evolve(answer, matches=matches, finding=finding)
        return attrs.evolve(explanation, measured=measured, event=answer)

    def _examine(
        self, document: bytes, variants: Variants
    ) -> tuple[ParsedEvent | TypeMissing, float]:
        """Return the event, and the seconds that the examination takes."""
        last = self._last
        if last is None or last.document is not document or last.variants != variants:
            self._last = None
            started = self._clock()
            subject = self._examiner.examine(document, variants, holder=_HOLDER)
            seconds = self._clock() - started
            if isinstance(subject, TypeMissing):
                return subject, seconds
            seconds = self._measure(
                lambda: self._examiner.examine(document, variants, holder=_HOLDER), seconds
            )
            last = self._last = _Examined(document, variants, subject, seconds)
        return last.event, last.seconds

    def _measure(self, action: Callable[[], object], first: float | None = None) -> float:
        """Return the median of some measurements; `first` is one that was made before."""
        taken = [] if first is None else [first]
        while len(taken) < MEASUREMENTS and sum(taken) < MAX_SECONDS:
            before = self._clock()
            action()
            taken.append(self._clock() - before)
        return median(taken)
