"""Messages between a node and its archiver: one JSON object per line, over pipes.

node:     {"flush": number}                   archive new events now; a report names the number
          {"covered": true}                   ask for the coverage of all origins
          {"durable": number, "of": [client, name]}   ask for a stored durable subscription
          {"text": number, "of": [type, version, variant]}   ask for a DTD in the archive
          {"dead": [origin...]}               archive the replicas of these origins
          {"dtd": [type, version, base64 or null], "of": origin}   answer to "dtds"
          {"end": true}                       archive new events once more, then end
archiver: {"dtds": [[type, version]...], "of": origin}   ask for DTDs of an origin's events
          {"coverage": {origin: [[after, upto]...]}, "healing": [origin...],
           "lost_ends": {origin: mark}, "known": was the archive readable?}
          {"found": number, "origin": text, "stored": base64 or null}   answer to "durable"
          {"archived": number, "text": base64 or null}   answer to "text"
          {"reached": {origin: mark}, "flushed": [number...], "problem": text,
           "figures": {"events", "files", "bytes", "flushes", "lost", "merged", "removed",
                       "deleted": since it began}}

A mark is [epoch, offset].
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs

from broker.dtd.reference import DtdReference
from broker.errors import BadName
from broker.event.place import Mark
from broker.recovery.archive_access import Coverage


@attrs.frozen
class Flush:
    """Archive new events now; a report names the number."""

    number: int


@attrs.frozen
class AskCoverage:
    """Ask for the coverage of all origins."""


ASK_COVERAGE = AskCoverage()


@attrs.frozen
class AskDurable:
    """Ask for a stored durable subscription."""

    number: int
    client_id: str
    name: str


@attrs.frozen
class AskDtd:
    """Ask for a DTD in the archive."""

    number: int
    reference: DtdReference


@attrs.frozen
class End:
    """Archive new events once more, and end."""


@attrs.frozen
class DeadOrigins:
    """The nodes of these origins are gone: archive their replicas."""

    origins: tuple[str, ...]


@attrs.frozen
class DtdAnswer:
    """Answer to `AskDtds`; the text is None if the node has none."""

    reference: DtdReference
    text: bytes | None
    origin: str
    """Origin of the validated events."""


NodeMessage: TypeAlias = Flush | AskCoverage | AskDurable | AskDtd | End | DeadOrigins | DtdAnswer


@attrs.frozen
class Report:
    reached: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin, the end of its archived events."""
    flushed: Sequence[int] = ()
    """Numbers of the `Flush` messages that are done."""
    problem: str = ""
    """Reason why nothing can be archived now."""
    figures: Mapping[str, int] = attrs.field(factory=dict)
    """Counters of `ArchiverCounters` and `MaintenanceProcess`."""


@attrs.frozen
class AskDtds:
    references: tuple[DtdReference, ...]
    origin: str


@attrs.frozen
class FoundDurable:
    """Answer to `AskDurable`; `stored` is None if there is none."""

    number: int
    origin: str
    stored: bytes | None


@attrs.frozen
class FoundDtd:
    """Answer to `AskDtd`; None if there is none, or the archive is not readable."""

    number: int
    text: bytes | None


#: Messages of the archiver.
ArchiverMessage: TypeAlias = Report | AskDtds | Coverage | FoundDurable | FoundDtd


def encode_node_message(message: NodeMessage) -> bytes:
    match message:
        case Flush(number):
            return _encode_line({"flush": number})
        case AskCoverage():
            return _encode_line({"covered": True})
        case AskDurable(number, client_id, name):
            return _encode_line({"durable": number, "of": [client_id, name]})
        case AskDtd(number, reference):
            named = [reference.type, reference.version, reference.variant]
            return _encode_line({"text": number, "of": named})
        case End():
            return _encode_line({"end": True})
        case DeadOrigins(origins):
            return _encode_line({"dead": list(origins)})
        case DtdAnswer(reference, text, origin):
            named = [reference.type, reference.version]
            return _encode_line({"dtd": [*named, _encode_base64(text)], "of": origin})


def decode_node_message(line: bytes) -> NodeMessage:
    """Decode a line of the node. Raises `ValueError`."""
    with _malformed_as_value_error(line):
        return _parse_node_message(json.loads(line))


def _parse_node_message(message: Any) -> NodeMessage:
    match message:
        case {"flush": int(number)}:
            return Flush(number)
        case {"covered": True}:
            return ASK_COVERAGE
        case {"durable": int(number), "of": [str(client_id), str(name)]}:
            return AskDurable(number, client_id, name)
        case {"text": int(number), "of": [str(name), str(version), str(variant)]}:
            return AskDtd(number, DtdReference(name, version, variant))
        case {"end": True}:
            return End()
        case {"dead": list(origins)}:
            return DeadOrigins(tuple(map(str, origins)))
        case {"dtd": [str(name), str(version), text], "of": str(origin)}:
            return DtdAnswer(DtdReference(name, version), _decode_base64(text), origin)
    raise ValueError


def encode_dtd_request(references: Sequence[DtdReference], origin: str) -> bytes:
    return _encode_line({"dtds": [[each.type, each.version] for each in references], "of": origin})


def encode_report(report: Report) -> bytes:
    return _encode_line(attrs.asdict(report))


def encode_coverage(covered: Coverage) -> bytes:
    """Encode the answer to `AskCoverage`."""
    content = {"coverage": dict(covered.intervals), "healing": sorted(covered.repairable)}
    return _encode_line(
        {**content, "lost_ends": dict(covered.lost_ends), "known": covered.is_known}
    )


def encode_durable(number: int, origin: str, stored: bytes | None) -> bytes:
    return _encode_line({"found": number, "origin": origin, "stored": _encode_base64(stored)})


def encode_dtd(number: int, text: bytes | None) -> bytes:
    return _encode_line({"archived": number, "text": _encode_base64(text)})


def decode_archiver_message(line: bytes) -> ArchiverMessage:
    """Decode a line of the archiver. Raises `ValueError`."""
    with _malformed_as_value_error(line):
        return _parse_archiver_message(json.loads(line))


def _parse_archiver_message(message: Any) -> ArchiverMessage:
    match message:
        case {
            "coverage": dict(intervals),
            "healing": list(healing),
            "lost_ends": dict(ends),
            "known": bool(known),
        }:
            return Coverage(
                {
                    o: [(_parse_mark(a), _parse_mark(u)) for a, u in each]
                    for o, each in intervals.items()
                },
                frozenset(map(str, healing)),
                lost_ends={origin: _parse_mark(mark) for origin, mark in ends.items()},
                is_known=known,
            )
        case {"found": int(number), "origin": str(origin), "stored": stored}:
            return FoundDurable(number, origin, _decode_base64(stored))
        case {"archived": int(number), "text": text}:
            return FoundDtd(number, _decode_base64(text))
        case {"dtds": list(references), "of": str(origin)}:
            return AskDtds(tuple(DtdReference(str(name), str(v)) for name, v in references), origin)
        case {
            "reached": dict(reached),
            "flushed": list(flushed),
            "problem": str(problem),
            "figures": dict(figures),
        }:
            return Report(
                {origin: _parse_mark(mark) for origin, mark in reached.items()},
                tuple(map(int, flushed)),
                problem,
                {str(name): int(figure) for name, figure in figures.items()},
            )
    raise ValueError


@contextmanager
def _malformed_as_value_error(line: bytes) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError, BadName):
        raise ValueError(f"malformed line: {line[:80]!r}") from None


def _parse_mark(message: Sequence[int]) -> Mark:
    epoch, offset = message
    return int(epoch), int(offset)


def _encode_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decode_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _encode_line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
