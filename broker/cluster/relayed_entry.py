"""Log entries for relayed events: accepted, undecided, or refused with their code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from broker.cluster.ingest_job import IngestJob
from broker.cluster.traffic.frame_range import Range
from broker.errors import BadName, ProtocolError
from broker.event.envelope import Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder
from broker.event.record import (
    MAX_ANNOTATION_BYTES,
    MAX_PROOF_BYTES,
    proof_of,
    replace_header,
    with_proof,
)
from broker.event.stream import check_client_id, check_stream_name
from broker.log.deduplication import Deduplication, Freshness
from broker.log.logged_event import encode_header, header_from_fields, may_state_more, state_of
from broker.matching.contract import Accepted, Verdict
from broker.streams.contract import CarriedEvent
from broker.wire.codec import Offset, Schema

Entry: TypeAlias = tuple[Mark, bytes, int, bytes]

_LEVELS = {level.rank: level for level in SecurityLevel}
_Short: TypeAlias = Annotated[str, Meta(max_length=64)]


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """As `header_from_fields` takes its elements."""

    client_id: str
    timestamp: Offset
    number: Offset
    incarnation: Offset
    stream: str
    type: _Short
    version: _Short
    level: str
    liveness: str
    annotation: Annotated[bytes, Meta(max_length=MAX_ANNOTATION_BYTES)] = b""
    proof: Annotated[bytes, Meta(max_length=MAX_PROOF_BYTES + 2)] = b""


_RECORD: Final = Schema[_Record](_Record, "record")


@attrs.define
class RelayedEntries:
    entries: list[Entry] = attrs.field(factory=list)
    matches: list[tuple[int, ...]] = attrs.field(factory=list)
    """None for undecided and refused events."""
    refused: Counter[str] = attrs.field(factory=Counter)
    unwanted: int = 0
    duplicate: int = 0
    undecided: list[Mark] = attrs.field(factory=list)
    streams: set[str] = attrs.field(factory=set)
    """Of undecided and refused events; an empty name: unknown stream."""


def build_entries(
    job: IngestJob,
    range_: Range,
    deduplication: Deduplication | None,
    now_ms: int,
    has_local_match: Callable[[tuple[int, ...]], bool],
    refusal_code: Callable[[CarriedEvent, Verdict], str],
) -> RelayedEntries:
    """`refusal_code` returns the code of a refused event. Copies are not de-duplicated (None)."""
    result = RelayedEntries()
    entries, matches = result.entries, result.matches
    for index, (each, verdict) in enumerate(zip(job.events, job.verdicts, strict=True)):
        if not isinstance(verdict, Accepted):
            code = refusal_code(each, verdict)
            result.refused[code] += 1
            header = claimed_header(each)
            record = with_proof(encode_header(header), proof_of(each.record))
            entries.append((each.mark, record, each.level, make_placeholder(code, each.document)))
            matches.append(())
            result.streams.add(header.stream)
            continue
        is_undecided = index in job.undecided
        if range_.is_unfiltered and not is_undecided and not has_local_match(verdict.subscriptions):
            result.unwanted += 1
            continue
        header = verdict.header
        event_id = header.event_id
        key = (event_id.client_id, event_id.incarnation)
        if deduplication is not None:
            freshness = deduplication.record(key, event_id.sequence_number, now_ms)
            if freshness is Freshness.DUPLICATE:
                result.duplicate += 1
                continue
        rank = header.security_level.rank
        record = encode_verified(header, each.record)
        entries.append((each.mark, record, rank, each.document))
        matches.append(() if is_undecided else verdict.subscriptions)
        if is_undecided:
            result.streams.add(header.stream)
            result.undecided.append(each.mark)
    return result


def encode_verified(header: Header, received: bytes) -> bytes:
    """Return the record of a document's header, with annotation and proof of the received one.

    Its validation is that by the origin: here the DTD may be unknown yet. The document does not
    have its time.
    """
    if header.validation is not Validation.DESCRIBED or may_state_more(received):
        validation, time = state_of(received)
        header = header._replace(validation=validation, time=time)
    return replace_header(received, encode_header(header))


def claimed_header(event: CarriedEvent) -> Header:
    """Without a stream if the claim is malformed."""
    level = _LEVELS.get(event.level, SecurityLevel.HIGH)
    try:
        claimed = header_from_fields(msgspec.structs.astuple(_RECORD.decode(event.record)))
        check_client_id(claimed.event_id.client_id)
        return claimed._replace(stream=check_stream_name(claimed.stream), security_level=level)
    except (ProtocolError, KeyError, BadName):
        return Header(EventId("refused", 0, 1, 0), "", "", "", level, Liveness.LIVE)
