"""The XML switch: one pass over a batch finds the subscriptions of each event (DCP D20, DESIGN 6).

A shape proves a document valid and extracts its values. One look-up per index serves all such
documents. Others are parsed, and lxml evaluates undecided queries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import TypeAlias, cast

from zope.interface import implementer

from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, InvalidEvent, QueryTooExpensive
from broker.event.envelope import HIGHEST_RANK
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.client_time_share import (
    FREE_SECONDS,
    FREE_SECONDS_WITHOUT_INDEX,
    ClientTimeShares,
)
from broker.matching.contract import (
    NO_VARIANTS,
    Accepted,
    IMatcher,
    Refused,
    TypeCounters,
    TypeMissing,
    Variants,
    Verdict,
    accepted_class,
)
from broker.matching.document_limits import DocumentLimits
from broker.matching.engine.batch_match import MatchedRows, match_batches, match_shapes
from broker.matching.engine.binding import ShapeBatch
from broker.matching.engine.distinct_query import DistinctQuery, iterate_queries
from broker.matching.engine.family_time_limit import FamilyTimeLimit
from broker.matching.engine.filled_event import FillableTreeCache
from broker.matching.engine.logged_event_selector import LoggedEventSelector
from broker.matching.engine.lone_document import LoneDocumentMatcher
from broker.matching.engine.parsed_event_matcher import ParsedEventMatcher
from broker.matching.engine.portion_size import PortionSize
from broker.matching.engine.query_evaluator import QueryEvaluator
from broker.matching.engine.shape_plan import PlanCache, ShapePlan, UndecidedDocument
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.examiner import Examiner
from broker.matching.explain.explainer import Explainer
from broker.matching.explain.explanation import Explanation
from broker.matching.explain.index_explainer import IndexExplainer
from broker.matching.index.member import Member
from broker.matching.name_watch import NameWatch
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query
from broker.matching.query_bounds import QueryBounds
from broker.matching.shape.cache import RecognisedGroup, ShapeCache, recognise_documents
from broker.matching.shape.shape import Shape
from broker.matching.type_counters import CountersByType
from broker.matching.undescribed import find_dtd
from broker.matching.xpath_evaluation import ParsedEvent

_DOCUMENT_LIMITS = DocumentLimits()
_QUERY_LIMITS = QueryLimits()
#: Matching members, and queries to evaluate.
_Candidates: TypeAlias = tuple[Sequence[Member], Sequence[DistinctQuery]]


@implementer(IMatcher)
class Switch:
    """The default engine. The arguments are those of `ReferenceMatcher`."""

    def __init__(
        self,
        dtds: IDtdCache,
        clock: Callable[[], float],
        document_limits: DocumentLimits = _DOCUMENT_LIMITS,
        query_limits: QueryLimits = _QUERY_LIMITS,
        max_run_time: float = 0.05,
        max_share: float = 0.1,
        names: NameWatch | None = None,
        processor_clock: Callable[[], float] | None = None,
    ) -> None:
        self._dtds = dtds
        self._examiner = Examiner(dtds, document_limits, names)
        self._shapes = ShapeCache(document_limits)
        self._shapes.on_dropped = self._discard_plan
        self._fillable_trees = FillableTreeCache(self._examiner)
        self._registry = SubscriptionRegistry()
        self._plans = PlanCache(dtds, self._shapes, self._registry)
        self._time_shares = ClientTimeShares(clock, max_run_time, max_share)
        make_bounds = partial(QueryBounds, query_limits, clock, max_run_time, processor_clock)
        self._evaluator = QueryEvaluator(self._registry, Budget(make_bounds(), self._time_shares))
        self._selector = LoggedEventSelector(
            self._registry, self._shapes, self._plans, self._evaluator, self._examiner, clock
        )
        self.select = self._selector.select
        self._portions = PortionSize()
        self._variants, self._marked = NO_VARIANTS, False
        self._holder, self._clock = "", clock
        self._counts: Counter[str] = Counter()
        self._type_counters = CountersByType()
        self._lone_matcher = LoneDocumentMatcher(
            *(self._shapes, self._plans, self._registry.stream_patterns),
            *(self._type_counters, self._counts, clock),
        )
        index = IndexExplainer(dtds, self._shapes, self._registry, self._plans, clock)
        self._explainer = Explainer("switch", self._examiner, make_bounds(), clock, index)

    def subscribe(
        self, pattern: StreamPattern, query: Query, holder: str = "", clearance: int = HIGHEST_RANK
    ) -> int:
        number = self._registry.add_subscription(pattern, query, clearance)
        self._time_shares.add_subscription(number, holder)
        return number

    @property
    def last_number(self) -> int:
        return self._registry.last_number

    def unsubscribe(self, number: int) -> None:
        self._evaluator.forget_subscription(number, self._registry.remove_subscription(number))
        self._time_shares.remove_subscription(number)

    def take_suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        return self._evaluator.take_suspended()

    def statistics(self) -> dict[str, int | float]:
        counts = self._counts
        return {
            "accepted": counts["recognised"] + counts["parsed"],
            "recognised": counts["recognised"],
            "parsed": counts["parsed"],
            "type_missing": counts["type_missing"],
            **{name: n for name, n in counts.items() if name.startswith("refused.")},
            "evaluations": self._evaluator.evaluations,
            "undecided": counts["undecided"],
            "subscriptions": len(self._registry),
            "distinct_queries": self._registry.distinct_queries,
            "templates": self._registry.family_count,
            "suspended_queries": self._evaluator.suspension_count,
            "shapes": len(self._shapes),
            "shape_bytes": self._shapes.bytes_held,
            "unready_shapes": self._plans.unready_count,
            "undeclared_names": self._examiner.name_watch.count,
            "guarding_names": int(self._examiner.name_watch.is_guarding),
            "recognition_seconds": self._type_counters.recognition_seconds,
        }

    def type_counters(self) -> tuple[TypeCounters, ...]:
        return self._type_counters.snapshot(self._shapes.types)

    def explain(
        self,
        query: Query,
        document: bytes | None,
        variants: Variants = NO_VARIANTS,
        *,
        shapes: bool = True,
    ) -> Explanation:
        return self._explainer.explain(query, document, variants, shapes=shapes)

    def match(
        self,
        documents: Sequence[bytes],
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
        holder: str = "",
        *,
        marked: bool = False,
    ) -> list[Verdict]:
        if len(documents) == 1 and not marked:
            verdict = self._lone_matcher.match(documents[0], variants)
            if verdict is not None:
                return [verdict]
        self._variants, self._marked = variants, marked
        self._holder = holder
        self._evaluator.begin_batch()
        self._plans.reset_visits()
        verdicts: list[Verdict | None] = [None] * len(documents)
        now = self._clock()
        deadline = now + seconds
        done = 0
        while portion := self._portions.next_portion(done, len(documents), deadline - now, seconds):
            done = self._match_portion(portion, documents, verdicts, deadline)
            started, now = now, self._clock()
            self._portions.record_time(done - portion.start, now - started)
            if done < portion.stop:
                break
        del verdicts[done:]
        self._evaluator.remove_suspended(verdicts)
        return cast("list[Verdict]", verdicts)

    def _match_portion(
        self,
        portion: range,
        documents: Sequence[bytes],
        verdicts: list[Verdict | None],
        deadline: float,
    ) -> int:
        """Match documents until the deadline; return the index after the last one."""
        # Remaining work by index: undecided queries, or None for a parse.
        remaining: dict[int, UndecidedDocument | None] = {}
        # A recognised document is valid, so it would not be marked.
        known = () if self._marked else portion
        groups = self._match_recognisable(known, documents, verdicts, remaining)
        remaining.update(dict.fromkeys(portion if self._marked else ()))
        # In order, so that a suspended query has matched all earlier events.
        indexes = sorted(remaining, reverse=True)
        while indexes:
            index = indexes.pop()
            if index and self._clock() >= deadline:
                self._uncount_unanswered(groups, index, verdicts)
                return index
            undecided = remaining[index]
            if undecided is not None:
                verdicts[index] = self._evaluate_undecided(index, documents[index], undecided)
                continue
            learnt_before = self._counts["learnt"]
            verdicts[index] = self._match_parsed(index, documents[index])
            if self._counts["learnt"] == learnt_before:
                continue
            if unparsed := [each for each in indexes if remaining[each] is None]:
                # Other documents of the batch may have the new shape.
                for each in unparsed:
                    del remaining[each]
                groups += self._match_recognisable(unparsed[::-1], documents, verdicts, remaining)
                indexes = [each for each in indexes if each in remaining]
        return portion.stop

    def _uncount_unanswered(
        self, groups: Iterable[RecognisedGroup], index: int, verdicts: Sequence[Verdict | None]
    ) -> None:
        for group in groups:
            unanswered = group.places[bisect_left(group.places, index) :]
            answered = sum(isinstance(verdicts[each], Accepted) for each in unanswered)
            self._shapes.record_use(group.shape, -len(unanswered))
            self._counts["recognised"] -= answered
            self._type_counters.count_recognised(group.shape.reference, -answered, 0.0)

    def _match_recognisable(
        self,
        indexes: Sequence[int],
        documents: Sequence[bytes],
        verdicts: list[Verdict | None],
        remaining: dict[int, UndecidedDocument | None],
    ) -> list[RecognisedGroup]:
        """Match documents of known shapes. Others, and undecided ones, go to `remaining`."""
        counters, clock = self._type_counters, self._clock
        started = clock()
        groups, parsed = recognise_documents(self._shapes, documents, indexes)
        recognised_at = clock()
        counters.recognition_seconds += recognised_at - started
        remaining.update(dict.fromkeys(parsed))
        prepared: list[tuple[RecognisedGroup, ShapePlan]] = []
        for group in groups:
            plan = self._plans.get(group.shape, self._variants)
            if plan is None:
                remaining.update(dict.fromkeys(group.places))
            else:
                prepared.append((group, plan))
        matched = match_shapes([(plan.bindings, group.values) for group, plan in prepared])
        finished = clock()
        rows = sum(len(group.places) for group, _ in prepared)
        seconds_each = (finished - recognised_at) / max(1, rows)
        for (group, plan), rows_of_group in zip(prepared, matched, strict=True):
            recognised_at = finished
            answered = self._match_recognised(group, plan, rows_of_group, verdicts, remaining)
            finished = clock()
            seconds = finished - recognised_at + seconds_each * len(group.places)
            counters.count_recognised(group.shape.reference, answered, seconds)
        return groups

    def _match_recognised(
        self,
        group: RecognisedGroup,
        plan: ShapePlan,
        matched: MatchedRows,
        verdicts: list[Verdict | None],
        remaining: dict[int, UndecidedDocument | None],
    ) -> int:
        """Match documents of one shape; return their number. Undecided ones go to `remaining`."""
        (members_by_row, undecided), bad_envelopes = matched, 0
        header_of, view_of = group.shape.read_header, self._registry.stream_patterns.get_view
        view, stream, level, kind = None, "", None, group.shape.verdict_class
        new = tuple.__new__  # The named tuple's constructor, with one call less.
        for index, values, members in zip(group.places, group.values, members_by_row, strict=True):
            try:
                header = header_of(values)
            except BadEnvelope:
                bad_envelopes += 1  # The parser will report the line.
                remaining[index] = None
                continue
            if view is None or header.stream != stream or header.security_level is not level:
                stream, level = header.stream, header.security_level
                view = view_of(stream, level.rank)
            found = view.unfiltered if members is None else view.subscriptions_of(members)
            verdicts[index] = new(kind, (header, found))
        for row in range(len(members_by_row)) if plan.pending else undecided:
            index = group.places[row]
            if isinstance(verdict := verdicts[index], Accepted):
                values, queries = group.values[row], undecided.get(row, ())
                remaining[index] = UndecidedDocument(group.shape, values, plan, queries, verdict)
        self._counts["recognised"] += len(group.places) - bad_envelopes
        return len(group.places) - bad_envelopes

    def _match_parsed(self, index: int, document: bytes) -> Verdict:
        started, known_type = self._clock(), partial(self._examiner.find_known_type, document)
        verdict = self._match_event(index, document)
        self._type_counters.count_parsed(verdict, known_type, self._clock() - started)
        return verdict

    def _match_event(self, index: int, document: bytes) -> Verdict:
        try:
            examined = self._examiner.examine(
                document, self._variants, self._holder, marked=self._marked
            )
        except InvalidEvent as error:
            self._counts[f"refused.{error.code}"] += 1
            return Refused(error)
        if isinstance(examined, TypeMissing):
            self._counts["type_missing"] += 1
            return examined
        self._counts["parsed"] += 1
        header, kind = examined.header, accepted_class(document)
        shape = self._learn_shape(document, examined)
        view = self._registry.stream_patterns.view_for(header)
        if not self._registry.distinct_queries:
            return kind(header, view.unfiltered)
        time_limit = self._evaluator.begin_event(examined, FREE_SECONDS_WITHOUT_INDEX)
        found = self._match_by_shape(shape, document) or self._match_by_tree(examined, time_limit)
        members, candidates = found
        queries = self._evaluator.evaluate(candidates, examined, index, document)
        return kind(header, view.merge_subscriptions(view.subscriptions_of(members), queries))

    def _match_by_tree(self, event: ParsedEvent, time_limit: FamilyTimeLimit) -> _Candidates:
        matcher = ParsedEventMatcher(event, time_limit)
        matcher.match_families(*self._registry.structure_index.match_event(event))
        return matcher.matching, matcher.undecided

    def _match_by_shape(self, shape: Shape | None, document: bytes) -> _Candidates | None:
        """Match by the event's new shape. Returns None if its plan is not ready."""
        plan = None if shape is None else self._plans.get(shape, self._variants)
        if shape is None or plan is None or plan.pending:
            return None
        values = shape.extract_values(document)
        if values is None:
            return None
        batch = ShapeBatch([values])
        match_batches([(plan.bindings, batch)])
        return batch.matching[0] or (), batch.undecided.get(0, ())

    def _learn_shape(self, document: bytes, examined: ParsedEvent) -> Shape | None:
        reference = DtdReference(examined.header.type_name, examined.header.version)
        dtd = find_dtd(self._dtds, self._variants.get(reference, reference))
        if dtd is None or self._marked:
            return None
        shape = self._shapes.learn(document, examined.envelope, dtd)
        self._counts["learnt"] += shape is not None
        return shape

    def _evaluate_undecided(
        self, index: int, document: bytes, undecided: UndecidedDocument
    ) -> Accepted:
        """Evaluate the undecided queries of a recognised document; return its final verdict."""
        started = self._clock()
        shape, values, plan, queries, decided = undecided
        header = decided.header
        if shape in self._plans:
            event = self._fillable_trees.fill_event(shape, values, header, document)
        else:
            # The shape was dropped meanwhile, so a fillable tree would not be reused.
            event = self._examiner.parse_recognised(document, header, plan.dtd)
        free = FREE_SECONDS_WITHOUT_INDEX if plan.pending else FREE_SECONDS
        matcher = ParsedEventMatcher(event, self._evaluator.begin_event(event, free))
        matcher.match_families(plan.pending)
        candidates = list(dict.fromkeys([*queries, *matcher.undecided]))
        self._counts["undecided"] += len(candidates)
        more = self._evaluator.evaluate(candidates, event, index, document)
        view = self._registry.stream_patterns.view_for(header)
        matching = (*iterate_queries(matcher.matching), *more)
        subscriptions = view.merge_subscriptions(decided.subscriptions, matching)
        self._type_counters.count_undecided(header, len(candidates), self._clock() - started)
        return type(decided)(header, subscriptions)

    def _discard_plan(self, shape: Shape) -> None:
        self._plans.discard(shape)
        self._fillable_trees.discard(shape)
