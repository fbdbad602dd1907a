"""The reference engine: parses each event and evaluates each distinct query.

It is the test oracle (DESIGN 5): its results are correct by definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf

from zope.interface import implementer

from broker.dtd.interfaces import IDtdCache
from broker.errors import InvalidEvent, QueryTooExpensive, UnknownSubscription
from broker.event.envelope import HIGHEST_RANK, Header, Liveness
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.client_time_share import FREE_SECONDS_WITHOUT_INDEX, ClientTimeShares
from broker.matching.contract import (
    NO_VARIANTS,
    IMatcher,
    Refused,
    TypeCounters,
    TypeMissing,
    Variants,
    Verdict,
    accepted_class,
)
from broker.matching.document_limits import DocumentLimits
from broker.matching.examiner import Examiner
from broker.matching.explain.explainer import Explainer
from broker.matching.explain.explanation import Explanation
from broker.matching.name_watch import NameWatch
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query
from broker.matching.query_bounds import QueryBounds, RunnableQuery
from broker.matching.readable_streams import ReadableStreams
from broker.matching.type_counters import CountersByType
from broker.matching.xpath_evaluation import ParsedEvent

_DOCUMENT_LIMITS = DocumentLimits()
_QUERY_LIMITS = QueryLimits()


class _QueryGroup(RunnableQuery):
    """A distinct query, and the patterns of its subscriptions by number, ascending."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self.patterns: dict[int, ReadableStreams] = {}
        self.is_suspended = False

    def numbers_for(self, header: Header) -> tuple[int, ...]:
        """Return the subscriptions that may read an event."""
        stream, rank = header.stream, header.security_level.rank
        return tuple(n for n, each in self.patterns.items() if each.include(stream, rank))

    def split_off(self, numbers: Iterable[int]) -> _QueryGroup:
        """Move subscriptions to another group of the query."""
        split = _QueryGroup(self.query)
        split.patterns = {number: self.patterns.pop(number) for number in numbers}
        return split


@implementer(IMatcher)
class ReferenceMatcher:
    """The engine with correct results by definition.

    `clock` returns seconds. `max_run_time` is the limit of one query on one event, `max_share` the
    share of all time for the queries of one client. `processor_clock` is that of `QueryBounds`.
    """

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
        self._examiner = Examiner(dtds, document_limits, names)
        self._time_shares = ClientTimeShares(clock, max_run_time, max_share)
        make_bounds = partial(QueryBounds, query_limits, clock, max_run_time, processor_clock)
        self._budget = Budget(make_bounds(), self._time_shares)
        self.last_number = 0
        self._groups: dict[Query, _QueryGroup] = {}
        self._by_number: dict[int, _QueryGroup] = {}
        self._suspended: list[tuple[int, QueryTooExpensive]] = []
        self._accepted = 0
        self._counts: Counter[str] = Counter()
        self._clock = clock
        self._type_counters = CountersByType()
        self._variants: Variants = NO_VARIANTS
        self._holder = ""
        self._explainer = Explainer("reference", self._examiner, make_bounds(), clock)

    def subscribe(
        self,
        pattern: StreamPattern,
        query: Query,
        holder: str = "",
        clearance: int = HIGHEST_RANK,
    ) -> int:
        group = self._groups.get(query)
        if group is None:
            group = self._groups[query] = _QueryGroup(query)
        self.last_number += 1
        group.patterns[self.last_number] = ReadableStreams(pattern, clearance)
        self._by_number[self.last_number] = group
        self._time_shares.add_subscription(self.last_number, holder)
        return self.last_number

    def unsubscribe(self, number: int) -> None:
        group = self._group_of(number)
        del self._by_number[number], group.patterns[number]
        if not (group.patterns or group.is_suspended):
            del self._groups[group.query]
        self._time_shares.remove_subscription(number)
        self._suspended = [suspension for suspension in self._suspended if suspension[0] != number]

    def match(
        self,
        documents: Sequence[bytes],
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
        holder: str = "",
        *,
        marked: bool = False,
    ) -> list[Verdict]:
        self._variants = variants
        self._holder = holder
        verdicts: list[Verdict] = []
        started = self._clock()
        deadline = started + seconds
        for document in documents:
            if started >= deadline and verdicts:
                break
            verdict = self._match_document(document, marked=marked)
            now = self._clock()
            known_type = partial(self._examiner.find_known_type, document)
            self._type_counters.count_parsed(verdict, known_type, now - started)
            started = now
            verdicts.append(verdict)
        return verdicts

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
        readable = self._group_of(number).patterns[number]
        selected: list[bool] = []
        deadline = self._clock() + seconds
        for document in documents:
            if selected and self._clock() >= deadline:
                break
            event = self._examiner.parse_logged(document, liveness, variants, marked=marked)
            header, group = event.header, self._group_of(number)
            is_candidate = not group.is_suspended and readable.include(
                header.stream, header.security_level.rank
            )
            # No client's time is charged for logged events.
            groups = {group: ()} if is_candidate else {}
            selected.append(bool(self._evaluate(groups, event, document)))
        return selected

    def take_suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        suspended, self._suspended = self._suspended, []
        return suspended

    def statistics(self) -> dict[str, int | float]:
        return {
            "accepted": self._accepted,
            "type_missing": self._counts["type_missing"],
            **{name: n for name, n in self._counts.items() if name.startswith("refused.")},
            "evaluations": self._budget.evaluations,
            "subscriptions": len(self._by_number),
            "distinct_queries": len(self._groups),
            "suspended_queries": self._counts["suspended_queries"],
            "undeclared_names": self._examiner.name_watch.count,
            "guarding_names": int(self._examiner.name_watch.is_guarding),
        }

    def type_counters(self) -> tuple[TypeCounters, ...]:
        return self._type_counters.snapshot()

    def explain(
        self,
        query: Query,
        document: bytes | None,
        variants: Variants = NO_VARIANTS,
        *,
        shapes: bool = True,
    ) -> Explanation:
        return self._explainer.explain(query, document, variants, shapes=shapes)

    # ---------------------------------------------------------------- one document

    def _match_document(self, document: bytes, *, marked: bool) -> Verdict:
        try:
            examined = self._examiner.examine(document, self._variants, self._holder, marked=marked)
        except InvalidEvent as error:
            self._counts[f"refused.{error.code}"] += 1
            return Refused(error)
        if isinstance(examined, TypeMissing):
            self._counts["type_missing"] += 1
            return examined
        self._accepted += 1
        header, verdict_class = examined.header, accepted_class(document)
        groups: dict[_QueryGroup, tuple[int, ...]] = {}
        for group in self._groups.values():
            numbers = group.numbers_for(header)
            if numbers:
                groups[group] = numbers
        matching = self._evaluate(groups, examined, document) if groups else ()
        return verdict_class(header, tuple(sorted(n for each in matching for n in groups[each])))

    # ---------------------------------------------------------------- queries

    def _group_of(self, number: int) -> _QueryGroup:
        group = self._by_number.get(number)
        if group is None:
            raise UnknownSubscription(f"there is no subscription {number}")
        return group

    def _evaluate(
        self,
        groups: Mapping[_QueryGroup, tuple[int, ...]],
        event: ParsedEvent,
        document: bytes,
    ) -> list[_QueryGroup]:
        """Return the matching groups. `groups` has the subscriptions that pay for each."""
        self._time_shares.begin_event(FREE_SECONDS_WITHOUT_INDEX)
        matching, suspended = self._budget.evaluate_queries(
            list(groups), event, document, groups.__getitem__
        )
        for group, error in suspended:
            self._counts["suspended_queries"] += 1
            # Others may not read the event, so it must not end them.
            concerned = group.numbers_for(event.header)
            split = group if len(concerned) == len(group.patterns) else group.split_off(concerned)
            split.is_suspended = True
            if split is group:
                del self._groups[group.query]
            self._by_number.update(dict.fromkeys(concerned, split))
            self._suspended.extend((number, error) for number in concerned)
        return matching
