"""The reference engine: parse, validate, and each distinct query once per event.

It is the oracle (DESIGN 5): what it says of an event is right by definition, and a faster engine
must say the same. One parse serves all (T24).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import partial
from math import inf

from zope.interface import implementer

from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import InvalidEvent, QueryTooExpensive
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.accounts import FREE_WITHOUT_INDEX, Accounts
from broker.matching.bounds import Bounds
from broker.matching.budget import Budget
from broker.matching.contract import (
    NO_VARIANTS,
    IMatcher,
    Refused,
    TypeFigures,
    TypeMissing,
    Variants,
    Verdict,
    accepted_kind,
)
from broker.matching.evaluation import Subject
from broker.matching.examination import Examiner
from broker.matching.explain.explainer import Explainer
from broker.matching.explain.explanation import Explanation
from broker.matching.figures import Figures
from broker.matching.limits import DocumentLimits
from broker.matching.names import NameWatch
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query
from broker.matching.subscriptions import Interest, Subscriptions

_DOCUMENT_LIMITS = DocumentLimits()
_QUERY_LIMITS = QueryLimits()


@implementer(IMatcher)
class ReferenceMatcher:
    """The engine that shows what is right.

    `clock` gives seconds, for the figures and the budget: `max_run_time` seconds for one query on
    one event, and `max_share` of all time for the queries of one client.
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
    ) -> None:
        self._examiner = Examiner(dtds, document_limits, names)
        self._accounts = Accounts(clock, max_run_time, max_share)
        self._budget = Budget(Bounds(query_limits, clock, max_run_time), self._accounts)
        self._subscriptions = Subscriptions()
        self._suspended: list[tuple[int, QueryTooExpensive]] = []
        self._accepted = 0
        self._counts: Counter[str] = Counter()
        self._clock = clock
        self._figures = Figures()
        self._variants: Variants = NO_VARIANTS
        bounds = Bounds(query_limits, clock, max_run_time)
        self._explainer = Explainer("reference", self._examiner, bounds, clock)

    def subscribe(self, pattern: StreamPattern, query: Query, client: str = "") -> int:
        """See `IMatcher`."""
        number = self._subscriptions.add(pattern, query)
        self._accounts.open(number, client)
        return number

    def unsubscribe(self, number: int) -> None:
        """See `IMatcher`."""
        self._subscriptions.remove(number)
        self._accounts.close(number)
        self._suspended = [entry for entry in self._suspended if entry[0] != number]

    def match(
        self,
        documents: Sequence[bytes],
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[Verdict]:
        """See `IMatcher`."""
        self._variants = variants
        verdicts: list[Verdict] = []
        before = self._clock()
        enough = before + seconds
        for document in documents:
            if before >= enough and verdicts:
                break
            verdict = self._verdict(document, undescribed)
            now = self._clock()
            known_type = partial(self._examiner.known_type, document)
            self._figures.parsed(verdict, known_type, now - before)
            before = now
            verdicts.append(verdict)
        return verdicts

    def select(
        self,
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[bool]:
        """See `IMatcher`."""
        group = self._subscriptions.group(number)
        pattern = group.patterns[number]
        selected: list[bool] = []
        enough = self._clock() + seconds
        for document in documents:
            if selected and self._clock() >= enough:
                break
            subject = self._examiner.logged(document, liveness, undescribed, variants)
            wanted = not group.suspended and pattern.matches(subject.header.stream)
            interests = (Interest(group, (number,)),) if wanted else ()
            # It comes when there is time for it.
            found = self._evaluate(interests, subject, document, lambda _: ())
            selected.append(bool(found))
        return selected

    def suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        """See `IMatcher`."""
        told, self._suspended = self._suspended, []
        return told

    def statistics(self) -> dict[str, int | float]:
        """See `IMatcher`; refusals are counted by the code of their error."""
        return {
            "accepted": self._accepted,
            "type_missing": self._counts["type_missing"],
            **{name: n for name, n in self._counts.items() if name.startswith("refused.")},
            "evaluations": self._budget.evaluations,
            "subscriptions": len(self._subscriptions),
            "distinct_queries": self._subscriptions.distinct,
            "suspended_queries": self._counts["suspended_queries"],
            "undeclared_names": self._examiner.names.count,
            "guarding_names": int(self._examiner.names.guarding),
        }

    def types(self) -> tuple[TypeFigures, ...]:
        """See `IMatcher`."""
        return self._figures.told()

    def explain(
        self,
        query: Query,
        document: bytes | None,
        undescribed: Set[DtdReference] = frozenset(),
        *,
        shapes: bool = True,
    ) -> Explanation:
        """See `IMatcher`: each query is evaluated on each event, so there is little to tell."""
        return self._explainer.explain(query, document, undescribed, shapes=shapes)

    # ---------------------------------------------------------------- one document

    def _verdict(self, document: bytes, undescribed: Set[DtdReference]) -> Verdict:
        try:
            examined = self._examiner.examine(document, undescribed, self._variants)
        except InvalidEvent as error:
            self._counts[f"refused.{error.code}"] += 1
            return Refused(error)
        if isinstance(examined, TypeMissing):
            self._counts["type_missing"] += 1
            return examined
        self._accepted += 1
        header, accepted = examined.header, accepted_kind(document)
        interests = self._subscriptions.interests(header.stream)
        if not interests:
            return accepted(header, ())
        matching = self._evaluate(interests, examined, document, lambda each: each.numbers)
        if len(matching) == 1:
            return accepted(header, matching[0].numbers)
        return accepted(header, tuple(sorted(n for interest in matching for n in interest.numbers)))

    # ---------------------------------------------------------------- queries

    def _evaluate(
        self,
        interests: tuple[Interest, ...],
        subject: Subject,
        document: bytes,
        subscriptions: Callable[[Interest], Sequence[int]],
    ) -> list[Interest]:
        matching, broken = self._budget.evaluate(
            interests, subject, document, subscriptions, FREE_WITHOUT_INDEX
        )
        for interest, error in broken:
            self._counts["suspended_queries"] += 1
            numbers = self._subscriptions.suspend(interest.group)
            self._suspended.extend((number, error) for number in numbers)
        return matching
