"""The input component: from a publisher's batches to the log (DCP D19, DESIGN 4, 2-3).

A large batch is split over time slices. A part is matched and gets its places in one turn of the
reactor. So a subscription made between two parts gets exactly the events of later parts. A batch is
answered once, after the commit of its last part; no event is delivered before its commit.

A publisher's events keep their order. Batches behind one that waits for a DTD wait too. After a
failed commit no batch is accepted until the failed one is sent again from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from math import inf
from typing import TypeAlias

from twisted.internet.defer import DeferredList

from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, ForgedIdentity, InvalidEvent, LogUnavailable
from broker.ingest.acknowledgement_policy import LOCAL_ACKNOWLEDGEMENT, AcknowledgementPolicy
from broker.ingest.authorisation import Carriage, authorise_part
from broker.ingest.event_source import find_retry_error
from broker.ingest.head_check import check_heads
from broker.ingest.latest_versions import LatestVersions
from broker.ingest.outcomes import PublishOutcomes
from broker.ingest.publisher import Publisher
from broker.ingest.publisher_validation import PublisherValidation
from broker.ingest.quarantine import Quarantine
from broker.ingest.submission import AuthorisedPart, Entry, Part, Submission, limit_parts
from broker.ingest.type_lookups import TypeLookups
from broker.ingest.undescribed_types import UndescribedTypes
from broker.ingest.unsaved_dtds import NO_UNSAVED_DTDS, UnsavedDtds
from broker.ingest.validation_policy import ValidationPolicy
from broker.log.event_log import RETRY_AFTER, EventLog
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import (
    Accepted,
    AcceptedWithLatestVersion,
    IMatcher,
    Refused,
    TypeMissing,
    Variants,
    Verdict,
)
from broker.wire.messages import NotPublished

#: Called with durable events, and the matching subscriptions of each.
OnCommitted: TypeAlias = Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None]

#: Types cached as announced.
_MAX_CACHED_TYPES = 10_000


class Input:
    """Ingests the batches of all publishers of a node."""

    def __init__(
        self,
        *,
        matcher: IMatcher,
        dtds: IDtdCache,
        log: EventLog,
        quarantine: Quarantine,
        on_committed: OnCommitted,
        wall_clock: Callable[[], int],
        policy: ValidationPolicy,
        acknowledgement_policy: AcknowledgementPolicy = LOCAL_ACKNOWLEDGEMENT,
        on_new_type: Callable[[str, str], object] = lambda *_: None,
        unsaved_dtds: UnsavedDtds = NO_UNSAVED_DTDS,
        annotate: Callable[[list[Entry]], list[Entry]] | None = None,
        carriage: Carriage | None = None,
    ) -> None:
        """`policy` accepts events without a DTD, and invalid ones. `on_new_type` is called at each
        type's first accepted event. No event is accepted while its DTD is in
        `unsaved_dtds`. `annotate` changes the records of entries just before they are appended.
        `carriage` refuses streams and levels of events."""
        self._carriage = carriage or Carriage()
        self._annotate = annotate
        self._acknowledgement_policy = acknowledgement_policy
        self._matcher = matcher
        self._undescribed_types = UndescribedTypes(dtds, policy)
        self._validation = PublisherValidation(matcher, policy)
        self._lookups = TypeLookups(dtds)
        self._log = log
        self._quarantine = quarantine
        self._on_committed = on_committed
        self._wall_clock = wall_clock
        self._on_new_type = on_new_type
        self._unsaved_dtds = unsaved_dtds
        self._latest_versions = LatestVersions(dtds)
        self._announced_types: set[tuple[str, str]] = set()
        self.outcomes = PublishOutcomes()

    def ingest_waiting(
        self, publisher: Publisher, max_documents: int, seconds: float = inf
    ) -> None:
        """Ingest up to `max_documents`, for up to `seconds`. The publisher must be `is_ready`."""
        parts = publisher.next_parts(max_documents)
        if publisher.resend_from is not None:
            parts = [p for p in parts if not self._is_out_of_order(publisher, p.submission)]
            if not parts:
                return
        try:
            self._log.check_available()
        except LogUnavailable as error:
            self._request_resends(publisher, parts, error)
            return
        documents = parts[0].documents
        for part in parts[1:]:
            documents = documents + part.documents
        missing = publisher.missing_types
        variants = self._undescribed_types.find_variants(publisher, self._wall_clock())
        verdicts = self._match_permitted(publisher, documents, variants, seconds)
        kinds = set(map(type, verdicts))
        if TypeMissing in kinds and self._lookups.start(publisher, verdicts):
            pass  # The publisher continues when the look-ups have ended.
        elif self._unsaved_dtds and (unsaved := self._unsaved_types(verdicts)):
            self._wait_for_dtd_writes(publisher, parts, unsaved)
        elif missing and (retry_error := find_retry_error(missing, verdicts)):
            missing.clear()
            self._request_resends(publisher, parts, retry_error)
        else:
            if len(verdicts) < len(documents):
                parts = limit_parts(parts, len(verdicts))
            if AcceptedWithLatestVersion in kinds:
                self._look_up_latest(documents, verdicts)
            self._append_parts(publisher, self._authorise_parts(publisher, parts, verdicts))

    def _match_permitted(
        self,
        publisher: Publisher,
        documents: list[bytes],
        variants: Variants,
        seconds: float,
    ) -> list[Verdict]:
        """Refuse documents that the account may not publish; match the others."""
        errors = check_heads(publisher, documents)
        if not errors:
            return self._validation.match(publisher, documents, variants, seconds)
        permitted = [each for index, each in enumerate(documents) if index not in errors]
        matched = iter(
            self._validation.match(publisher, permitted, variants, seconds) if permitted else ()
        )
        verdicts: list[Verdict] = []
        for index in range(len(documents)):
            error = errors.get(index)
            verdict = next(matched, None) if error is None else Refused(error)
            if verdict is None:
                break
            verdicts.append(verdict)
        return verdicts

    def discard_waiting(self, publisher: Publisher) -> None:
        """Discard batches of an ended session; the client sends them again.

        Later they could follow batches of the client's next session.
        """
        publisher.waiting.clear()

    def _authorise_parts(
        self, publisher: Publisher, parts: list[Part], verdicts: list[Verdict]
    ) -> list[AuthorisedPart]:
        now = self._wall_clock()
        if publisher.carriage_version != self._carriage.version:
            publisher.carriage_version = self._carriage.version
            publisher.allowed_streams.clear()
        authorised = []
        done = 0
        for part in parts:
            part_verdicts = verdicts if len(parts) == 1 else verdicts[done : done + part.count]
            done += part.count
            checked = authorise_part(
                *(publisher, part, part_verdicts, self._log.deduplication, now),
                self._carriage.check_carriage,
            )
            for index, reason in checked.refused:
                if isinstance(reason, InvalidEvent) and not isinstance(reason, ForgedIdentity):
                    document = part.submission.batch.documents[index]
                    self._quarantine.add_document(document, reason, publisher.identity.client_id)
            if not part.submission.requires_replica:
                part.submission.requires_replica = self._acknowledgement_policy.requires_replica(
                    checked.streams
                )
            authorised.append(checked)
        known = self._announced_types
        for verdict in verdicts:
            if isinstance(verdict, Accepted):
                header = verdict.header
                if (header.type_name, header.version) not in known:
                    self._announce_type(header.type_name, header.version)
        return authorised

    def _announce_type(self, name: str, version: str) -> None:
        if len(self._announced_types) >= _MAX_CACHED_TYPES:
            self._announced_types.clear()
        self._announced_types.add((name, version))
        self._on_new_type(name, version)

    def _look_up_latest(self, documents: list[bytes], verdicts: list[Verdict]) -> None:
        """Look up newer type versions that events name (Mspaces M29)."""
        for document, verdict in zip(documents, verdicts, strict=False):
            if isinstance(verdict, AcceptedWithLatestVersion):
                self._latest_versions.look_up_named(document, verdict.header)

    # ------------------------------------------------------------------ batches to send again

    def _is_out_of_order(self, publisher: Publisher, submission: Submission) -> bool:
        if publisher.resend_from is None:
            return False
        if submission.batch.number > publisher.resend_from:
            error = LogUnavailable("an earlier batch must be sent again first")
            self._request_resend(publisher, submission, error)
            return True
        publisher.resend_from = None
        return False

    def _request_resends(
        self, publisher: Publisher, parts: Iterable[Part], error: BrokerError
    ) -> None:
        for part in parts:
            self._request_resend(publisher, part.submission, error)

    def _request_resend(
        self, publisher: Publisher, submission: Submission, error: BrokerError
    ) -> None:
        """Request the whole batch again. Its durable events are then duplicates."""
        if submission.is_answered:
            return
        submission.is_answered = True
        publisher.remove_submission(submission)
        number = submission.batch.number
        if publisher.resend_from is None or number < publisher.resend_from:
            publisher.resend_from = number
        self._count_not_taken(submission.remaining)
        publisher.send_answer(NotPublished(number, int(RETRY_AFTER * 1000), error.to_wire()))

    def _count_not_taken(self, documents: int) -> None:
        self.outcomes.received += documents
        self.outcomes.not_taken += documents

    # ------------------------------------------------------------------ types that are no

    def _unsaved_types(self, verdicts: list[Verdict]) -> list[DtdReference]:
        named = {
            (v.header.type_name, v.header.version) for v in verdicts if isinstance(v, Accepted)
        }
        return list(filter(self._unsaved_dtds.is_unsaved, starmap(DtdReference, sorted(named))))

    def _wait_for_dtd_writes(
        self, publisher: Publisher, parts: list[Part], unsaved: list[DtdReference]
    ) -> None:
        """Wait until the DTDs are on disk; request the batches again if they can not be written."""
        waits = [self._unsaved_dtds.when_write_settled(each) for each in unsaved]
        if all(each.called for each in waits):
            error = LogUnavailable(f"the DTD of {unsaved[0]} can not be written at the moment")
            self._request_resends(publisher, parts, error)
            return
        publisher.pause()
        DeferredList(waits).addCallback(publisher.resume)

    # ------------------------------------------------------------------ the commit

    def _append_parts(self, publisher: Publisher, authorised: list[AuthorisedPart]) -> None:
        entries, matches = authorised[0].entries, authorised[0].matches
        for checked in authorised[1:]:
            entries = entries + checked.entries
            matches = matches + checked.matches
        for checked in authorised:
            submission = checked.part.submission
            submission.record_appended(checked)
            if submission.appended == len(submission.batch.documents):
                publisher.remove_submission(submission)

        def done(events: list[LoggedEvent] | BrokerError) -> None:
            if isinstance(events, BrokerError):
                for checked in authorised:
                    self._count_not_taken(checked.part.count)
                    self._request_resend(publisher, checked.part.submission, events)
                return
            # The subscribers first: they wait for the event, the publisher only for its receipt.
            try:
                if events:
                    self._on_committed(events, matches)
            finally:
                place = 0
                for checked in authorised:
                    first = events[place] if checked.entries else None
                    place += len(checked.entries)
                    self._record_durable(publisher, checked, first)

        if self._annotate is not None:
            entries = self._annotate(entries)
        self._log.append(entries, done)

    def _record_durable(
        self, publisher: Publisher, authorised: AuthorisedPart, first: LoggedEvent | None
    ) -> None:
        """Answer the batch after its last part, in order, and after replication if a stream
        requires it."""
        outcomes = self.outcomes
        outcomes.received += authorised.part.count
        outcomes.accepted += len(authorised.entries)
        outcomes.duplicate += len(authorised.duplicates)
        for _, error in authorised.refused:
            outcomes.refused[error.code] += 1
        submission = authorised.part.submission
        submission.record_durable(authorised, first)
        if not submission.is_durable or submission.is_answered:
            return
        submission.is_answered = True
        answer = submission.build_answer(self._log.origin)
        if not submission.requires_replica and not publisher.unreplicated_answers:
            publisher.send_answer(answer)
            return
        publisher.unreplicated_answers.append(answer)
        self._acknowledgement_policy.call_when_replicated(
            lambda: publisher.send_answer(publisher.unreplicated_answers.popleft())
        )
