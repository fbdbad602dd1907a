"""The reference engine: parse, validate, and each distinct query once per event.

It is the oracle (DESIGN 5): what it says of an event is right by definition, and a faster engine
must say the same. One parse serves all (T24).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set

from lxml import etree
from zope.interface import implementer

from broker.content.budget import Budget
from broker.content.contract import (
    Accepted,
    DtdNeeded,
    IMatcher,
    Refused,
    TypeMissing,
    Verdict,
)
from broker.content.envelope import EnvelopeParts, read_envelope
from broker.content.evaluation import Subject
from broker.content.limits import DocumentLimits
from broker.content.names import NameWatch
from broker.content.parsing import DocumentParser
from broker.content.prolog import Prolog, PrologReader
from broker.content.query.limits import QueryLimits
from broker.content.query.query import Query
from broker.content.screening import check_references, screen
from broker.content.structure import apply_envelope_defaults, check_structure
from broker.content.subscriptions import Interest, Subscriptions
from broker.content.whitespace import with_runs_unkept
from broker.dtd.interfaces import IDtd, IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, InvalidEvent, NotValid, QueryTooExpensive, UnknownType
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern

_NO_NAMES: frozenset[str] = frozenset()
_GUARDING = "too many unknown names were seen, so they are looked for before a document is read"
_DOCUMENT_LIMITS = DocumentLimits()
_QUERY_LIMITS = QueryLimits()


@implementer(IMatcher)
class ReferenceMatcher:
    """The engine that shows what is right.

    `clock` gives seconds, and serves the run-time budget only: `max_run_time` seconds for one
    query on one event.
    """

    def __init__(
        self,
        dtds: IDtdCache,
        clock: Callable[[], float],
        document_limits: DocumentLimits = _DOCUMENT_LIMITS,
        query_limits: QueryLimits = _QUERY_LIMITS,
        max_run_time: float = 0.05,
        names: NameWatch | None = None,
    ) -> None:
        self._dtds = dtds
        self._limits = document_limits
        self._parser = DocumentParser(document_limits)
        self._prologs = PrologReader()
        self._names = names or NameWatch()
        self._budget = Budget(query_limits, clock, max_run_time)
        self._subscriptions = Subscriptions()
        self._suspended: list[tuple[int, QueryTooExpensive]] = []
        self._accepted = 0
        self._counts: Counter[str] = Counter()

    def subscribe(self, pattern: StreamPattern, query: Query) -> int:
        """See `IMatcher`."""
        return self._subscriptions.add(pattern, query)

    def unsubscribe(self, number: int) -> None:
        """See `IMatcher`."""
        self._subscriptions.remove(number)
        self._suspended = [entry for entry in self._suspended if entry[0] != number]

    def match(
        self, documents: Sequence[bytes], undescribed: Set[DtdReference] = frozenset()
    ) -> list[Verdict]:
        """See `IMatcher`."""
        return [self._verdict(document, undescribed) for document in documents]

    def select(
        self,
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        undescribed: Set[DtdReference] = frozenset(),
    ) -> list[bool]:
        """See `IMatcher`."""
        group = self._subscriptions.group(number)
        pattern = group.patterns[number]
        selected = []
        for document in documents:
            subject = self._logged(document, liveness, undescribed)
            wanted = not group.suspended and pattern.matches(subject.header.stream)
            interests = (Interest(group, (number,)),) if wanted else ()
            selected.append(bool(self._evaluate(interests, subject, document)))
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
            "undeclared_names": self._names.count,
            "guarding_names": int(self._names.guarding),
        }

    # ---------------------------------------------------------------- one document

    def _verdict(self, document: bytes, undescribed: Set[DtdReference]) -> Verdict:
        try:
            examined = self._examine(document, undescribed)
        except InvalidEvent as error:
            self._counts[f"refused.{error.code}"] += 1
            return Refused(error)
        if isinstance(examined, TypeMissing):
            self._counts["type_missing"] += 1
            return examined
        self._accepted += 1
        header = examined.header
        interests = self._subscriptions.interests(header.stream)
        if not interests:
            return Accepted(header, ())
        matching = self._evaluate(interests, examined, document)
        if len(matching) == 1:
            return Accepted(header, matching[0].numbers)
        return Accepted(header, tuple(sorted(n for interest in matching for n in interest.numbers)))

    def _examine(self, document: bytes, undescribed: Set[DtdReference]) -> Subject | TypeMissing:
        screen(document, self._limits)
        prolog = self._prologs.read(document)
        reference = prolog.reference
        dtd = None if reference is None else self._dtds.get(reference)
        if self._names.guarding:
            if reference is None:
                raise _without_type()
            if dtd is None:
                return self._unknown_while_guarding(reference, prolog, undescribed)
            self._guard(document, prolog, dtd)
        try:
            root = self._parser.parse(with_runs_unkept(document, prolog.end))
            if reference is None:
                raise _without_type()
            if document.find(b"&", prolog.end) >= 0:
                check_references(document, prolog.end)
            if dtd is not None:
                if (invalid := dtd.check(root)) is not None:
                    raise invalid
                dtd.apply_defaults(root)
            else:
                self._names.note(document[prolog.end :], _NO_NAMES)
                if reference not in undescribed:
                    return TypeMissing(reference, prolog.system_id)
                check_structure(root)
                apply_envelope_defaults(root)
        except InvalidEvent:
            declared = _NO_NAMES if dtd is None else dtd.names
            self._names.note(prolog.extras + document[prolog.end :], declared)
            raise
        return Subject(root, self._read(root, document, prolog, reference, dtd))

    def _read(
        self,
        root: etree._Element,
        document: bytes,
        prolog: Prolog,
        reference: DtdReference,
        dtd: IDtd | None,
    ) -> EnvelopeParts:
        instructions = _occurs(document, b"<?", prolog.end)
        if dtd is not None and (instructions or prolog.extras):
            # The targets of processing instructions are names too, and no DTD declares them.
            self._names.note(prolog.extras + document[prolog.end :], dtd.names)
        plain = not instructions and not _occurs(document, b"<!--", prolog.end)
        return read_envelope(root, reference, plain=plain)

    def _guard(self, document: bytes, prolog: Prolog, dtd: IDtd) -> None:
        name = self._names.undeclared(prolog.extras + document[prolog.end :], dtd.names)
        if name is not None:
            raise NotValid(f"{name} is not declared ({_GUARDING})")

    def _unknown_while_guarding(
        self, reference: DtdReference, prolog: Prolog, undescribed: Set[DtdReference]
    ) -> TypeMissing:
        if reference in undescribed:
            raise UnknownType(f"no DTD describes {reference} ({_GUARDING})")
        return TypeMissing(reference, prolog.system_id)

    def _logged(
        self, document: bytes, liveness: Liveness, undescribed: Set[DtdReference]
    ) -> Subject:
        prolog = self._prologs.read(document)
        reference = prolog.reference
        if reference is None:
            raise _without_type()
        dtd = self._dtds.get(reference)
        if dtd is None and reference not in undescribed:
            raise DtdNeeded(TypeMissing(reference, prolog.system_id))
        root = self._parser.parse(with_runs_unkept(document, prolog.end))
        if dtd is not None:
            dtd.apply_defaults(root)
        else:
            check_structure(root)
            apply_envelope_defaults(root)
        plain = not any(_occurs(document, sign, prolog.end) for sign in (b"<?", b"<!--"))
        return Subject(root, read_envelope(root, reference, plain=plain), liveness)

    # ---------------------------------------------------------------- queries

    def _evaluate(
        self, interests: tuple[Interest, ...], subject: Subject, document: bytes
    ) -> list[Interest]:
        matching, broken = self._budget.evaluate(interests, subject, document)
        for group, error in broken:
            self._counts["suspended_queries"] += 1
            self._suspended.extend((n, error) for n in self._subscriptions.suspend(group))
        return matching


def _without_type() -> BadEnvelope:
    return BadEnvelope("the document has no DOCTYPE, which would name its type", line=1, column=1)


def _occurs(document: bytes, sign: bytes, start: int) -> bool:
    # Its second character is rare, and a single one is looked for much faster.
    return document.find(sign[1:2], start) >= 0 and document.find(sign, start) >= 0
