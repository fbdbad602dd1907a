"""Entries of the log for relayed events: taken, undecided, or refused with their code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import attrs
import msgpack

from broker.cluster.ingest_job import Job
from broker.cluster.traffic.frame import Carried, Range
from broker.errors import BadName
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.placeholder import placeholder
from broker.event.stream import check_client_id, check_stream_name
from broker.log.deduplication import Deduplication, Freshness
from broker.log.records import encode_header, header_from_fields
from broker.matching.contract import Accepted, Verdict

#: Mark, record, rank of the security level, document.
Entry: TypeAlias = tuple[Mark, bytes, int, bytes]

_LEVELS = {level.rank: level for level in SecurityLevel}


@attrs.define
class Gathered:
    """What becomes of the events of one range."""

    entries: list[Entry] = attrs.field(factory=list)
    matches: list[tuple[int, ...]] = attrs.field(factory=list)
    """For each entry, the subscriptions that match it; none for undecided and refused events."""
    refused: Counter[str] = attrs.field(factory=Counter)
    unwanted: int = 0
    duplicate: int = 0
    waiting: list[Mark] = attrs.field(factory=list)
    """Places of undecided events."""
    streams: set[str] = attrs.field(factory=set)
    """Of undecided and refused events; an empty name stands for any."""


def gather(
    job: Job,
    told: Range,
    deduplication: Deduplication,
    now_ms: int,
    wanted_here: Callable[[tuple[int, ...]], bool],
    refusal: Callable[[Carried, Verdict], str],
) -> Gathered:
    """Sort the events of a job that is matched. `refusal` gives the code of a refused one."""
    gathered = Gathered()
    entries, matches = gathered.entries, gathered.matches
    for index, (each, verdict) in enumerate(zip(job.carried, job.verdicts, strict=True)):
        if not isinstance(verdict, Accepted):
            code = refusal(each, verdict)
            gathered.refused[code] += 1
            header = claimed_header(each)
            entries.append((each.mark, encode_header(header), each.level, placeholder(code)))
            matches.append(())
            gathered.streams.add(header.stream)
            continue
        waits = index in job.undecided
        if told.all and not waits and not wanted_here(verdict.subscriptions):
            gathered.unwanted += 1
            continue
        header = verdict.header
        event_id = header.event_id
        key = (event_id.client_id, event_id.incarnation)
        freshness = deduplication.record(key, event_id.sequence_number, now_ms)
        if freshness is Freshness.DUPLICATE:
            gathered.duplicate += 1
            continue
        rank = header.security_level.rank
        entries.append((each.mark, encode_header(header), rank, each.document))
        matches.append(() if waits else verdict.subscriptions)
        if waits:
            gathered.streams.add(header.stream)
            gathered.waiting.append(each.mark)
    return gathered


def claimed_header(carried: Carried) -> Header:
    """The header that the sender claims; a header without a stream if there is none."""
    level = _LEVELS.get(carried.level, SecurityLevel.HIGH)
    try:
        said = header_from_fields(msgpack.unpackb(carried.record, use_list=False))
        check_client_id(said.event_id.client_id)
        stream = check_stream_name(said.stream)
        names = (said.type_name, said.version)
        numbers = said.event_id[1:]
        if all(type(name) is str and len(name) <= 64 for name in names) and all(
            type(number) is int and 0 <= number < 1 << 63 for number in numbers
        ):
            return said._replace(stream=stream, security_level=level)
    except (ValueError, TypeError, KeyError, AttributeError, BadName, msgpack.UnpackException):
        pass
    return Header(EventId("refused", 0, 1, 0), "", "", "", level, Liveness.LIVE)
