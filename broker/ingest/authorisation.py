"""Authorisation and de-duplication of published events (DESIGN 4, 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from broker.errors import BadEnvelope, ForgedIdentity, OutsideWindow, PeerError
from broker.event.envelope import Header, SecurityLevel, event_time_problem
from broker.ingest.publisher import Publisher
from broker.ingest.submission import AuthorisedPart, Part
from broker.log.deduplication import Deduplication, Freshness
from broker.log.logged_event import encode_header
from broker.matching.contract import Accepted, Refused, Verdict

#: Raises `PeerError` for an event that no transport may carry.
CheckCarriage: TypeAlias = Callable[[str, SecurityLevel], object]


class Carriage:
    """The transports of streams; this one carries everything."""

    @property
    def version(self) -> object:
        """Return a value that changes when other streams are refused than before."""
        return None

    def check_carriage(self, stream: str, level: SecurityLevel) -> None:
        """Raises `PeerError` for an event that no transport may carry."""


#: Streams per publisher.
_MAX_CACHED_STREAMS = 1_000


def authorise_part(
    publisher: Publisher,
    part: Part,
    verdicts: Sequence[Verdict],
    deduplication: Deduplication,
    now_ms: int,
    check_carriage: CheckCarriage = lambda *_: None,
) -> AuthorisedPart:
    """Sort a part's events, and record the new sequence numbers.

    Usually they continue the last part, in one stream. Then each event costs one comparison, and
    one record covers them all.
    """
    authorised = AuthorisedPart(part)
    documents, times = part.submission.batch.documents, part.submission.batch.times
    identity, incarnation = publisher.identity, publisher.incarnation
    client_id = identity.client_id
    key = (client_id, incarnation)
    stream: str | None = None
    level: SecurityLevel | None = None
    rank = 0
    allowed, entries, matches = publisher.allowed_streams, authorised.entries, authorised.matches
    recorded = following = deduplication.next_number(key)
    for index, verdict in enumerate(verdicts, part.start):
        if not isinstance(verdict, Accepted):
            error = (
                verdict.error
                if isinstance(verdict, Refused)
                else publisher.missing_types[verdict.reference]
            )
            authorised.refused.append((index, error))
            continue
        header = verdict.header
        event_id = header.event_id
        refusal: PeerError | None = None
        if event_id.client_id != client_id or event_id.incarnation != incarnation:
            refusal = ForgedIdentity(
                f"the event is of {event_id.client_id}/{event_id.incarnation}, "
                f"the session is {client_id}/{incarnation}"
            )
        elif header.stream != stream or header.security_level is not level:
            known_rank = allowed.get((header.stream, header.security_level))
            if known_rank is None:
                refusal = _check_stream(publisher, header, check_carriage)
            if refusal is None:
                stream, level = header.stream, header.security_level
                rank = level.rank if known_rank is None else known_rank
                authorised.streams.add(stream)
        if times and (time := times[index]) is not None and refusal is None:
            if problem := event_time_problem(time):
                refusal = BadEnvelope(problem)
            header = header._replace(time=time)
        if refusal is None:
            number = event_id.sequence_number
            if number == following:
                following += 1
            else:
                if following != recorded:
                    deduplication.record_run(key, following - 1, now_ms)
                freshness = deduplication.record(key, number, now_ms)
                recorded = following = deduplication.next_number(key)
                if freshness is Freshness.DUPLICATE:
                    authorised.duplicates.append(index)
                    continue
                if freshness is Freshness.OUTSIDE:
                    refusal = OutsideWindow(
                        f"sequence number {number} lies below the window in which duplicates "
                        "are known"
                    )
        if refusal is not None:
            authorised.refused.append((index, refusal))
            continue
        entries.append((encode_header(header), rank, documents[index]))
        matches.append(verdict.subscriptions)
    if following != recorded:
        deduplication.record_run(key, following - 1, now_ms)
    return authorised


def _check_stream(
    publisher: Publisher, header: Header, check_carriage: CheckCarriage
) -> PeerError | None:
    stream, level = header.stream, header.security_level
    try:
        publisher.identity.check_publish(stream, level)
        check_carriage(stream, level)
    except PeerError as error:
        return error
    if len(publisher.allowed_streams) >= _MAX_CACHED_STREAMS:
        publisher.allowed_streams.clear()
    publisher.allowed_streams[stream, level] = level.rank
    return None
