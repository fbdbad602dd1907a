"""The input component: from a publisher's batches to the log (DCP D19, DESIGN 4, 2-3).

A batch is matched once; each of its events is refused with a reason, recognised as a duplicate, or
given a place. Nothing is answered or delivered before the commit. Events of one publisher keep
their order whatever happens: while one batch waits for a DTD, those behind it wait too, and after
a commit that failed nothing is taken until the failed batch comes again.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure

from broker.content.contract import IMatcher, TypeMissing
from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, LogUnavailable, OurError, UnknownType
from broker.router.judging import Judged, judge
from broker.router.outcomes import PublishOutcomes
from broker.router.publisher import Publisher
from broker.router.quarantine import Quarantine
from broker.session.batches import Batch
from broker.session.messages import NotPublished, Published
from broker.store.event_log import RETRY_AFTER, EventLog
from broker.store.records import LoggedEvent

#: Told of events that became durable, with the subscriptions that match each.
Committed: TypeAlias = Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None]

#: Documents matched at one go, unless a single batch has more.
_DOCUMENTS_A_TURN = 1_000


class Input:
    """Takes batches from all publishers of a node."""

    def __init__(
        self,
        *,
        matcher: IMatcher,
        dtds: IDtdCache,
        log: EventLog,
        quarantine: Quarantine,
        committed: Committed,
        wall_clock: Callable[[], int],
        accept_undescribed: bool = False,
    ) -> None:
        """With `accept_undescribed`, events whose DTD can not be had are taken if well-formed."""
        self._accept_undescribed = accept_undescribed
        self._matcher = matcher
        self._dtds = dtds
        self._log = log
        self._quarantine = quarantine
        self._committed = committed
        self._wall_clock = wall_clock
        self.outcomes = PublishOutcomes()

    def publish(self, publisher: Publisher, batches: Sequence[Batch]) -> None:
        """Take batches in their order; each is answered once, perhaps at once, perhaps later."""
        publisher.waiting.extend(batches)
        self._take_waiting(publisher)

    def leave(self, publisher: Publisher) -> None:
        """The session is over: what waits is not taken, for the client will send it again.

        Taken later, it could come behind what the client sends in its next session.
        """
        publisher.waiting.clear()

    def _take_waiting(self, publisher: Publisher) -> None:
        if publisher.taking:
            return
        publisher.taking = True
        while publisher.waiting and not publisher.held:
            self._take(publisher, _portion(publisher.waiting))
        publisher.taking = False
        if not publisher.waiting:
            publisher.missing.clear()

    def _take(self, publisher: Publisher, batches: list[Batch]) -> None:
        batches = [batch for batch in batches if not self._must_wait_its_turn(publisher, batch)]
        try:
            self._log.check_available()
        except LogUnavailable as error:
            for batch in batches:
                self._send_back(publisher, batch, error)
            return
        documents = [document for batch in batches for document in batch.documents]
        undescribed = publisher.missing.keys() if self._accept_undescribed else ()
        verdicts = self._matcher.match(documents, frozenset(undescribed))
        unknown = {
            verdict.reference: verdict.system_id
            for verdict in (verdicts if TypeMissing in set(map(type, verdicts)) else ())
            if isinstance(verdict, TypeMissing) and verdict.reference not in publisher.missing
        }
        if unknown:
            publisher.waiting.extendleft(reversed(batches))
            self._fetch(publisher, unknown)
            return
        busy = next((e for e in publisher.missing.values() if isinstance(e, OurError)), None)
        if busy is not None:
            # Not the event's fault: it may come again when there is room for its question.
            publisher.missing.clear()
            for batch in batches:
                self._send_back(publisher, batch, busy)
            return
        remaining = iter(verdicts)
        now = self._wall_clock()
        judged = []
        for batch in batches:
            mine = list(itertools.islice(remaining, len(batch.documents)))
            one = judge(publisher, batch, mine, self._log.deduplication, now)
            for index, reason in one.refused:
                document = batch.documents[index]
                self._quarantine.keep(document, reason, publisher.identity.client_id)
            judged.append(one)
        if judged:
            self._append(publisher, judged)

    def _must_wait_its_turn(self, publisher: Publisher, batch: Batch) -> bool:
        if publisher.resend_from is not None:
            if batch.number > publisher.resend_from:
                self._send_back(
                    publisher, batch, LogUnavailable("an earlier batch has to come again first")
                )
                return True
            publisher.resend_from = None
        return False

    def _send_back(self, publisher: Publisher, batch: Batch, error: BrokerError) -> None:
        if publisher.resend_from is None or batch.number < publisher.resend_from:
            publisher.resend_from = batch.number
        count = len(batch.documents)
        self.outcomes.received += count
        self.outcomes.not_taken += count
        publisher.answer(NotPublished(batch.number, int(RETRY_AFTER * 1000), error.to_wire()))

    # ------------------------------------------------------------------ types that are not cached

    def _fetch(self, publisher: Publisher, unknown: Mapping[DtdReference, str]) -> None:
        """Look types up; what waits goes on, in its order, when each is there or known missing."""
        publisher.held = True

        def missing(failure: Failure, reference: DtdReference) -> None:
            error = failure.value
            if not isinstance(error, BrokerError):
                error = UnknownType(f"{reference.type} {reference.version}: {error}")
            publisher.missing[reference] = error

        def release(_: object) -> None:
            publisher.held = False
            self._take_waiting(publisher)

        DeferredList(
            [
                self._dtds.lookup(reference, FetchHint(system_id)).addErrback(missing, reference)
                for reference, system_id in unknown.items()
            ]
        ).addCallback(release)

    # ------------------------------------------------------------------ the commit

    def _append(self, publisher: Publisher, judged: list[Judged]) -> None:
        entries = [entry for one in judged for entry in one.entries]
        matches = [match for one in judged for match in one.matches]

        def done(events: list[LoggedEvent] | BrokerError) -> None:
            if isinstance(events, BrokerError):
                for one in judged:
                    self._send_back(publisher, one.batch, events)
                return
            place = 0
            for one in judged:
                first = events[place] if one.entries else None
                place += len(one.entries)
                self._answer(publisher, one, first)
            if events:
                self._committed(events, matches)

        self._log.append(entries, done)

    def _answer(self, publisher: Publisher, judged: Judged, first: LoggedEvent | None) -> None:
        accepted = len(judged.entries)
        outcomes = self.outcomes
        outcomes.received += len(judged.batch.documents)
        outcomes.accepted += accepted
        outcomes.duplicate += len(judged.duplicates)
        outcomes.refused.update(error.code for _, error in judged.refused)
        where = () if first is None else ((self._log.origin, first.epoch, first.offset),)
        publisher.answer(
            Published(
                batch=judged.batch.number,
                first=where,
                accepted=accepted,
                duplicates=judged.duplicates,
                refused=[(index, error.to_wire()) for index, error in judged.refused],
            )
        )


def _portion(waiting: deque[Batch]) -> list[Batch]:
    """Batches from the left of `waiting`: at least one, and few enough to be matched in a turn."""
    portion: list[Batch] = []
    room = _DOCUMENTS_A_TURN
    while waiting and (not portion or len(waiting[0].documents) <= room):
        room -= len(waiting[0].documents)
        portion.append(waiting.popleft())
    return portion
