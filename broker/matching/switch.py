"""The XML switch: one pass over a batch finds, for each event, who wants it (DCP D20, DESIGN 6).

A document of a known shape is not parsed: its shape proves it valid and cuts its values, and the
families of queries bound to the shape are asked for all such documents of the batch at once. What
no shape recognises, or what the index does not decide, goes the way of the reference engine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from math import inf
from typing import cast

from zope.interface import implementer

from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, InvalidEvent, QueryTooExpensive
from broker.event.envelope import Header, Liveness
from broker.event.stream import StreamPattern
from broker.matching.accounts import FREE, FREE_WITHOUT_INDEX, Accounts
from broker.matching.bounds import Bounds
from broker.matching.budget import Budget
from broker.matching.contract import (
    NO_VARIANTS,
    Accepted,
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
from broker.matching.explain.index_explainer import IndexExplainer
from broker.matching.figures import Figures
from broker.matching.index.member import Member
from broker.matching.limits import DocumentLimits
from broker.matching.names import NameWatch
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query
from broker.matching.shape.cache import ShapeCache
from broker.matching.shape.shape import Shape
from broker.matching.switching.batch import Batch
from broker.matching.switching.entry import Entry, entries
from broker.matching.switching.filling import Forms
from broker.matching.switching.finding import Finding, find
from broker.matching.switching.lone_document import LoneDocument
from broker.matching.switching.parsed import ParsedMatching
from broker.matching.switching.plan import ShapePlan
from broker.matching.switching.plans import Plans
from broker.matching.switching.recognition import Recognised, recognised
from broker.matching.switching.registry import Registry
from broker.matching.switching.selecting import Selecting
from broker.matching.switching.single import SingleQueries
from broker.matching.switching.stride import Stride
from broker.matching.switching.undecided import Undecided

_DOCUMENT_LIMITS = DocumentLimits()
_QUERY_LIMITS = QueryLimits()


@implementer(IMatcher)
class Switch:
    """The engine of content routing. Arguments are those of `ReferenceMatcher`."""

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
        self._dtds = dtds
        self._examiner = Examiner(dtds, document_limits, names)
        self._shapes = ShapeCache(document_limits)
        self._shapes.on_forgotten = self._forget_plan
        self._forms = Forms(self._examiner)
        self._registry = Registry()
        self._plans = Plans(dtds, self._shapes, self._registry)
        self._accounts = Accounts(clock, max_run_time, max_share)
        budget = Budget(Bounds(query_limits, clock, max_run_time), self._accounts)
        self._single = SingleQueries(self._registry, budget)
        self._selecting = Selecting(
            self._registry, self._shapes, self._plans, self._single, self._examiner, clock
        )
        self._stride = Stride()
        self._variants: Variants = NO_VARIANTS
        self._counts: Counter[str] = Counter()
        self._clock = clock
        self._figures = Figures()
        self._lone = LoneDocument(
            *(self._shapes, self._plans, self._registry.streams, self._figures, self._counts),
            clock,
        )
        index = IndexExplainer(dtds, self._shapes, self._registry, self._plans, clock)
        bounds = Bounds(query_limits, clock, max_run_time)
        self._explainer = Explainer("switch", self._examiner, bounds, clock, index)

    def subscribe(self, pattern: StreamPattern, query: Query, client: str = "") -> int:
        """See `IMatcher`."""
        number = self._registry.add(pattern, query)
        self._accounts.open(number, client)
        return number

    def unsubscribe(self, number: int) -> None:
        """See `IMatcher`."""
        self._single.forget(number, self._registry.remove(number))
        self._accounts.close(number)

    def suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        """See `IMatcher`."""
        return self._single.suspended()

    def statistics(self) -> dict[str, int | float]:
        """See `IMatcher`; refusals are counted by the code of their error."""
        counts = self._counts
        return {
            "accepted": counts["recognised"] + counts["parsed"],
            "recognised": counts["recognised"],
            "parsed": counts["parsed"],
            "type_missing": counts["type_missing"],
            **{name: n for name, n in counts.items() if name.startswith("refused.")},
            "evaluations": self._single.evaluations,
            "undecided": counts["undecided"],
            "subscriptions": len(self._registry),
            "distinct_queries": self._registry.distinct,
            "templates": self._registry.families,
            "suspended_queries": self._single.suspensions,
            "shapes": len(self._shapes),
            "shape_bytes": self._shapes.bytes_held,
            "unready_shapes": self._plans.unready,
            "undeclared_names": self._examiner.names.count,
            "guarding_names": int(self._examiner.names.guarding),
            "recognition_seconds": self._figures.recognition_seconds,
        }

    def types(self) -> tuple[TypeFigures, ...]:
        """See `IMatcher`."""
        return self._figures.told(self._shapes.statistics())

    def explain(
        self,
        query: Query,
        document: bytes | None,
        undescribed: Set[DtdReference] = frozenset(),
        *,
        shapes: bool = True,
    ) -> Explanation:
        """See `IMatcher`."""
        return self._explainer.explain(query, document, undescribed, shapes=shapes)

    # ---------------------------------------------------------------- a batch

    def match(
        self,
        documents: Sequence[bytes],
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[Verdict]:
        """See `IMatcher`."""
        if len(documents) == 1 and not variants:
            verdict = self._lone.match(documents[0])
            if verdict is not None:
                return [verdict]
        self._variants = variants
        self._single.begin()
        self._plans.begin()
        verdicts: list[Verdict | None] = [None] * len(documents)
        now = self._clock()
        enough = now + seconds
        done = 0
        while portion := self._stride.next(done, len(documents), enough - now, seconds):
            done = self._match_portion(portion, documents, undescribed, verdicts, enough)
            before, now = now, self._clock()
            self._stride.took(done - portion.start, now - before)
            if done < portion.stop:
                break
        del verdicts[done:]
        self._single.take_back(verdicts)
        return cast("list[Verdict]", verdicts)

    def _match_portion(
        self,
        portion: range,
        documents: Sequence[bytes],
        undescribed: Set[DtdReference],
        verdicts: list[Verdict | None],
        enough: float,
    ) -> int:
        """Verdicts for the documents at the places of `portion`, or for the first ones of them when
        time is up; the place behind the last one."""
        # What is left to do with single documents, by place; None means that it must be parsed.
        single: dict[int, Undecided | None] = {}
        # Shapes prove what the DTDs say that count here.
        known = () if self._variants else portion
        groups = self._match_known(known, documents, verdicts, single)
        single.update(dict.fromkeys(portion if self._variants else ()))
        # In order, so that a query that breaks its budget has missed no event before.
        places = sorted(single, reverse=True)
        while places:
            place = places.pop()
            if place and self._clock() >= enough:
                self._leave(groups, place, verdicts)
                return place
            undecided = single[place]
            if undecided is not None:
                verdicts[place] = self._decide(place, documents[place], undecided)
                continue
            learnt = self._counts["learnt"]
            verdicts[place] = self._match_parsed(place, documents[place], undescribed)
            if self._counts["learnt"] == learnt:
                continue
            if rest := [each for each in places if single[each] is None]:
                # More of the batch may be of the new shape.
                for each in rest:
                    del single[each]
                groups += self._match_known(rest[::-1], documents, verdicts, single)
                places = [each for each in places if each in single]
        return portion.stop

    def _leave(
        self, groups: Iterable[Recognised], place: int, verdicts: Sequence[Verdict | None]
    ) -> None:
        """What was recognised from a place on is not answered now: it will be asked for again."""
        for group in groups:
            late = group.places[bisect_left(group.places, place) :]
            answered = sum(isinstance(verdicts[each], Accepted) for each in late)
            self._shapes.use(group.shape, -len(late))
            self._counts["recognised"] -= answered
            self._figures.recognised(group.shape.reference, -answered, 0.0)

    def _match_known(
        self,
        places: Sequence[int],
        documents: Sequence[bytes],
        verdicts: list[Verdict | None],
        single: dict[int, Undecided | None],
    ) -> list[Recognised]:
        """Verdicts for documents that are recognised. What is left to do goes to `single`."""
        figures, clock = self._figures, self._clock
        began = clock()
        groups, parsed = recognised(self._shapes, documents, places)
        before = clock()
        figures.recognition_seconds += before - began
        single.update(dict.fromkeys(parsed))
        bound: list[tuple[Recognised, ShapePlan, Finding]] = []
        for group in groups:
            plan = self._plans.get(group.shape)
            if plan is None:
                single.update(dict.fromkeys(group.places))
            else:
                bound.append((group, plan, Finding(plan.bound, Batch(group.values))))
        find([finding for _, _, finding in bound])
        now = clock()
        each = (now - before) / max(1, sum(finding.batch.size for _, _, finding in bound))
        for group, plan, finding in bound:
            before = now
            answered = self._match_recognised(group, plan, finding, verdicts, single)
            now = clock()
            seconds = now - before + each * finding.batch.size
            figures.recognised(group.shape.reference, answered, seconds)
        return groups

    def _match_recognised(
        self,
        group: Recognised,
        plan: ShapePlan,
        finding: Finding,
        verdicts: list[Verdict | None],
        single: dict[int, Undecided | None],
    ) -> int:
        """Verdicts for documents of a shape: how many. What is left to do goes to `single`."""
        found, undecided, refused = finding.matching, finding.undecided, 0
        header_of, view_of = group.shape.header, self._registry.streams.view
        view, stream, kind = None, "", group.shape.verdict
        # What a named tuple's own constructor does, without the call in between.
        new = tuple.__new__
        for place, values, members in zip(group.places, group.values, found, strict=True):
            try:
                header = header_of(values)
            except BadEnvelope:
                # The parser knows the line.
                refused += 1
                single[place] = None
                continue
            if view is None or header.stream != stream:
                stream = header.stream
                view = view_of(stream)
            wanted = view.everything if members is None else view.wanted(members)
            verdicts[place] = new(kind, (header, wanted))
        for row in range(len(found)) if plan.pending else undecided:
            place = group.places[row]
            if isinstance(verdict := verdicts[place], Accepted):
                values, queries = group.values[row], undecided.get(row, ())
                single[place] = Undecided(group.shape, values, plan, queries, verdict)
        self._counts["recognised"] += len(group.places) - refused
        return len(group.places) - refused

    def _match_parsed(self, place: int, document: bytes, undescribed: Set[DtdReference]) -> Verdict:
        before = self._clock()
        verdict = self._parsed(place, document, undescribed)
        known_type = partial(self._examiner.known_type, document)
        self._figures.parsed(verdict, known_type, self._clock() - before)
        return verdict

    def _parsed(self, place: int, document: bytes, undescribed: Set[DtdReference]) -> Verdict:
        try:
            examined = self._examiner.examine(document, undescribed, self._variants)
        except InvalidEvent as error:
            self._counts[f"refused.{error.code}"] += 1
            return Refused(error)
        if isinstance(examined, TypeMissing):
            self._counts["type_missing"] += 1
            return examined
        self._counts["parsed"] += 1
        header, kind = examined.header, accepted_kind(document)
        shape = self._learn(document, examined)
        view = self._registry.streams.view(header.stream)
        if not self._registry.distinct:
            return kind(header, view.everything)
        found, candidates = self._found_by(shape, document) or self._found_in(examined)
        more = self._single.evaluate(candidates, examined, place, document, FREE_WITHOUT_INDEX)
        return kind(header, view.joined(view.wanted(found), more))

    def _found_in(self, subject: Subject) -> tuple[Sequence[Member], Sequence[Entry]]:
        """What matches a parsed event, and what may."""
        matching = ParsedMatching(subject)
        possible = self._registry.structure.possible_in(subject)
        matching.look(possible.open, possible.certain)
        return matching.found, matching.open

    def _found_by(
        self, shape: Shape | None, document: bytes
    ) -> tuple[Sequence[Member], Sequence[Entry]] | None:
        """The same by the shape that the event has taught; None if that has to wait."""
        plan = None if shape is None else self._plans.get(shape)
        if shape is None or plan is None or plan.pending:
            return None
        values = shape.values(document)
        if values is None:
            return None
        finding = Finding(plan.bound, Batch([values]))
        find([finding])
        return finding.matching[0] or (), finding.undecided.get(0, ())

    def _learn(self, document: bytes, examined: Subject) -> Shape | None:
        if self._variants:
            return None
        header: Header = examined.header
        reference = DtdReference(header.type_name, header.version)
        dtd = self._dtds.get(reference)
        if dtd is None:
            return None
        shape = self._shapes.learn(document, examined.envelope, reference, dtd)
        self._counts["learnt"] += shape is not None
        return shape

    # ---------------------------------------------------------------- events of a log

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
        return self._selecting.select(number, documents, liveness, undescribed, seconds, variants)

    # ---------------------------------------------------------------- single queries

    def _decide(self, place: int, document: bytes, undecided: Undecided) -> Accepted:
        """The verdict on a recognised document with what its shape's plan does not tell."""
        before = self._clock()
        shape, values, plan, queries, decided = undecided
        header = decided.header
        if shape in self._plans:
            subject = self._forms.subject(shape, values, header, document)
        else:
            # It was forgotten meanwhile, and a form would be of no more use.
            subject = self._examiner.reread(document, header, plan.dtd)
        matching = ParsedMatching(subject)
        matching.look(plan.pending)
        candidates = list(dict.fromkeys([*queries, *matching.open]))
        self._counts["undecided"] += len(candidates)
        free = FREE_WITHOUT_INDEX if plan.pending else FREE
        more = self._single.evaluate(candidates, subject, place, document, free)
        view = self._registry.streams.view(header.stream)
        found = view.joined(decided.subscriptions, [*entries(matching.found), *more])
        self._figures.undecided(header, len(candidates), self._clock() - before)
        return type(decided)(header, found)

    def _forget_plan(self, shape: Shape) -> None:
        self._plans.forget(shape)
        self._forms.forget(shape)
