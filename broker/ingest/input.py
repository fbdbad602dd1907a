"""The input component: from a publisher's batches to the log (DCP D19, DESIGN 4, 2-3).

Documents are matched once; each event is refused with a reason, recognised as a duplicate, or given
a place. A large batch is taken in parts, each in a turn of its own if need be. A part is matched
and gets its places in one and the same turn: a subscription that is made between two parts gets the
events of the later ones, and none of the earlier. A batch is answered once, when all of it is
durable; no event is delivered before its commit. Events of one publisher keep their order whatever
happens: while one batch waits for a DTD, those behind it wait too, and after a commit that failed
nothing is taken, of this batch or another, until the failed batch comes again from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from math import inf
from typing import TypeAlias

from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.owner import of_account
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, LogUnavailable, OurError, UnknownType
from broker.ingest.judging import judge
from broker.ingest.latest_versions import LatestVersions
from broker.ingest.outcomes import PublishOutcomes
from broker.ingest.publisher import Publisher
from broker.ingest.quarantine import Quarantine
from broker.ingest.safety import AT_ONCE, Safety
from broker.ingest.submission import Judged, Part, Submission, first_of
from broker.ingest.unstored import NOTHING_UNSTORED, Unstored
from broker.log.event_log import RETRY_AFTER, EventLog
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import Accepted, IMatcher, LatestNamed, TypeMissing, Verdict
from broker.wire.messages import NotPublished

#: Told of events that became durable, with the subscriptions that match each.
Committed: TypeAlias = Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None]

#: Types of which it is remembered that events have come.
_REMEMBERED_TYPES = 10_000
_NONE: frozenset[DtdReference] = frozenset()


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
        safety: Safety = AT_ONCE,
        type_came: Callable[[str, str], object] = lambda *_: None,
        unstored: Unstored = NOTHING_UNSTORED,
    ) -> None:
        """With `accept_undescribed`, events whose DTD can not be had are taken if well-formed.
        `safety` says when what is durable here is as safe as its streams ask for. `type_came` is
        told each type of which an event is accepted for the first time. No event is taken while
        its DTD is `unstored`."""
        self._safety = safety
        self._accept_undescribed = accept_undescribed
        self._matcher = matcher
        self._dtds = dtds
        self._log = log
        self._quarantine = quarantine
        self._committed = committed
        self._wall_clock = wall_clock
        self._type_came = type_came
        self._unstored = unstored
        self._latest = LatestVersions(dtds)
        self._types: set[tuple[str, str]] = set()
        self.outcomes = PublishOutcomes()

    def take(self, publisher: Publisher, most: int, seconds: float = inf) -> None:
        """Match, judge and log the next documents that wait: at most so many, or as many as can be
        matched in so long.

        Only for a publisher that is `ready`. Each batch is answered once, now or later.
        """
        parts = publisher.next_parts(most)
        if publisher.resend_from is not None:
            parts = [p for p in parts if not self._must_wait_its_turn(publisher, p.of)]
            if not parts:
                return
        try:
            self._log.check_available()
        except LogUnavailable as error:
            self._send_all_back(publisher, parts, error)
            return
        documents = parts[0].documents
        for part in parts[1:]:
            documents = documents + part.documents
        missing = publisher.missing
        undescribed = frozenset(missing) if self._accept_undescribed else _NONE
        verdicts = self._matcher.match(documents, undescribed, seconds)
        kinds = set(map(type, verdicts))
        if TypeMissing in kinds and (unknown := _unknown(publisher, verdicts)):
            self._fetch(publisher, unknown)
        elif self._unstored and (unstored := self._unstored_types(verdicts)):
            self._wait_for_disk(publisher, parts, unstored)
        elif missing and (busy := _busy(publisher)):
            missing.clear()
            self._send_all_back(publisher, parts, busy)
        else:
            if len(verdicts) < len(documents):
                parts = first_of(parts, len(verdicts))
            if LatestNamed in kinds:
                self._look_for_latest(documents, verdicts)
            self._append(publisher, self._judge(publisher, parts, verdicts))

    def leave(self, publisher: Publisher) -> None:
        """The session is over: what waits is not taken, for the client will send it again.

        Taken later, it could come behind what the client sends in its next session.
        """
        publisher.waiting.clear()

    def _judge(
        self, publisher: Publisher, parts: list[Part], verdicts: list[Verdict]
    ) -> list[Judged]:
        now = self._wall_clock()
        judged = []
        done = 0
        for part in parts:
            mine = verdicts if len(parts) == 1 else verdicts[done : done + part.count]
            done += part.count
            one = judge(publisher, part, mine, self._log.deduplication, now)
            for index, reason in one.refused:
                document = part.of.batch.documents[index]
                self._quarantine.keep(document, reason, publisher.identity.client_id)
            if not part.of.guarded:
                part.of.guarded = self._safety.guards(one.streams)
            judged.append(one)
        known = self._types
        for verdict in verdicts:
            if isinstance(verdict, Accepted):
                header = verdict.header
                if (header.type_name, header.version) not in known:
                    self._announce_type(header.type_name, header.version)
        return judged

    def _announce_type(self, name: str, version: str) -> None:
        if len(self._types) >= _REMEMBERED_TYPES:
            self._types.clear()
        self._types.add((name, version))
        self._type_came(name, version)

    def _look_for_latest(self, documents: list[bytes], verdicts: list[Verdict]) -> None:
        """Look up the newer versions that events name (Mspaces M29)."""
        for document, verdict in zip(documents, verdicts, strict=False):
            if isinstance(verdict, LatestNamed):
                self._latest.note(document, verdict.header)

    # ------------------------------------------------------------------ what is not taken

    def _must_wait_its_turn(self, publisher: Publisher, submission: Submission) -> bool:
        if publisher.resend_from is None:
            return False
        if submission.batch.number > publisher.resend_from:
            error = LogUnavailable("an earlier batch has to come again first")
            self._send_back(publisher, submission, error)
            return True
        publisher.resend_from = None
        return False

    def _send_all_back(
        self, publisher: Publisher, parts: Iterable[Part], error: BrokerError
    ) -> None:
        for part in parts:
            self._send_back(publisher, part.of, error)

    def _send_back(self, publisher: Publisher, submission: Submission, error: BrokerError) -> None:
        """The whole batch has to come again: what of it is durable is known as duplicate then."""
        if submission.answered:
            return
        submission.answered = True
        publisher.drop(submission)
        number = submission.batch.number
        if publisher.resend_from is None or number < publisher.resend_from:
            publisher.resend_from = number
        self._not_taken(submission.left)
        publisher.answer(NotPublished(number, int(RETRY_AFTER * 1000), error.to_wire()))

    def _not_taken(self, documents: int) -> None:
        self.outcomes.received += documents
        self.outcomes.not_taken += documents

    # ------------------------------------------------------------------ types that are not cached

    def _fetch(self, publisher: Publisher, unknown: Mapping[DtdReference, str]) -> None:
        """Look types up; what waits goes on, in its order, when each is there or known missing."""
        publisher.held = True
        owner = of_account(publisher.identity.account)

        def missing(failure: Failure, reference: DtdReference) -> None:
            error = failure.value
            if not isinstance(error, BrokerError):
                error = UnknownType(f"{reference.type} {reference.version}: {error}")
            publisher.missing[reference] = error

        def release(_: object) -> None:
            publisher.held = False
            publisher.released()

        DeferredList(
            [
                self._dtds.lookup(reference, FetchHint(system_id, owner=owner)).addErrback(
                    missing, reference
                )
                for reference, system_id in unknown.items()
            ]
        ).addCallback(release)

    def _unstored_types(self, verdicts: list[Verdict]) -> list[DtdReference]:
        """Types of these events whose DTD is not on disk yet."""
        named = {
            (v.header.type_name, v.header.version) for v in verdicts if isinstance(v, Accepted)
        }
        return list(filter(self._unstored.is_unsaved, starmap(DtdReference, sorted(named))))

    def _wait_for_disk(
        self, publisher: Publisher, parts: list[Part], unstored: list[DtdReference]
    ) -> None:
        """Take events when their DTDs are on disk; send them back if the disk takes no DTD."""
        waits = [self._unstored.when_write_settled(each) for each in unstored]
        if all(each.called for each in waits):
            error = LogUnavailable(f"the DTD of {unstored[0]} can not be written at the moment")
            self._send_all_back(publisher, parts, error)
            return
        publisher.held = True

        def release(_: object) -> None:
            publisher.held = False
            publisher.released()

        DeferredList(waits).addCallback(release)

    # ------------------------------------------------------------------ the commit

    def _append(self, publisher: Publisher, judged: list[Judged]) -> None:
        entries, matches = judged[0].entries, judged[0].matches
        for one in judged[1:]:
            entries = entries + one.entries
            matches = matches + one.matches
        for one in judged:
            submission = one.part.of
            submission.take(one)
            if submission.taken == len(submission.batch.documents):
                publisher.drop(submission)

        def done(events: list[LoggedEvent] | BrokerError) -> None:
            if isinstance(events, BrokerError):
                for one in judged:
                    self._not_taken(one.part.count)
                    self._send_back(publisher, one.part.of, events)
                return
            place = 0
            for one in judged:
                first = events[place] if one.entries else None
                place += len(one.entries)
                self._settle(publisher, one, first)
            if events:
                self._committed(events, matches)

        self._log.append(entries, done)

    def _settle(self, publisher: Publisher, judged: Judged, first: LoggedEvent | None) -> None:
        """Count a durable part. Answer its batch if it was the last part, when the batch is safe
        and the batches before it are answered."""
        outcomes = self.outcomes
        outcomes.received += judged.part.count
        outcomes.accepted += len(judged.entries)
        outcomes.duplicate += len(judged.duplicates)
        for _, error in judged.refused:
            outcomes.refused[error.code] += 1
        submission = judged.part.of
        submission.settle(judged, first)
        if not submission.is_durable or submission.answered:
            return
        submission.answered = True
        answer = submission.answer(self._log.origin)
        if not submission.guarded and not publisher.unsafe:
            publisher.answer(answer)
            return
        publisher.unsafe.append(answer)
        self._safety.when_safe(lambda: publisher.answer(publisher.unsafe.popleft()))


def _unknown(publisher: Publisher, verdicts: list[Verdict]) -> dict[DtdReference, str]:
    """The types to be looked up, each with the pointer of one event."""
    return {
        verdict.reference: verdict.system_id
        for verdict in verdicts
        if isinstance(verdict, TypeMissing) and verdict.reference not in publisher.missing
    }


def _busy(publisher: Publisher) -> OurError | None:
    """Why a type could not be looked up that an event may have: it may come again later."""
    return next((e for e in publisher.missing.values() if isinstance(e, OurError)), None)
