"""What a node and its archiver say to each other: a JSON object a line, over pipes.

node:     {"flush": number}                        archive what is new now, and say so
          {"covered": true}                        what do you have of all origins?
          {"durable": number, "of": [client, name]}      what is stored of it, by whomever?
          {"dead": [origin...]}                    of these archive what is kept here
          {"dtd": [type, version, base64 or null], "of": origin}
          {"end": true}                            archive what is new once more, then end
archiver: {"dtds": [[type, version]...], "of": origin}   tell these, for events of the origin
          {"coverage": {origin: [[after, upto]...]}, "healing": [origin...],
           "lost_ends": {origin: mark}, "known": could it be read?}
          {"found": number, "origin": text, "stored": base64 or null}
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
from broker.recovery.archive_access import Covered


@attrs.frozen
class Flush:
    """Archive what is new now; a report names the number."""

    number: int


@attrs.frozen
class AskCovered:
    """What does the archive have, of all origins?"""


ASK_COVERED = AskCovered()


@attrs.frozen
class AskDurable:
    """What is stored of a durable subscription?"""

    number: int
    client_id: str
    name: str


@attrs.frozen
class AskText:
    """Tell the text of a DTD that the archive has."""

    number: int
    reference: DtdReference


@attrs.frozen
class End:
    """Archive what is new once more, and end."""


@attrs.frozen
class Dead:
    """These origins' nodes are gone: archive what is kept of them."""

    origins: tuple[str, ...]


@attrs.frozen
class TellDtd:
    """A DTD; None: nobody has it."""

    reference: DtdReference
    text: bytes | None
    origin: str
    """Whose events it judges."""


Said: TypeAlias = Flush | AskCovered | AskDurable | AskText | End | Dead | TellDtd


@attrs.frozen
class Report:
    """How far the archiver is."""

    reached: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin, up to where the archive has it."""
    flushed: Sequence[int] = ()
    """The flushes that were asked for and are done."""
    problem: str = ""
    """Why nothing can be archived at the moment."""
    figures: Mapping[str, int] = attrs.field(factory=dict)
    """See `Figures` in `archiving`, and `Caring`."""


@attrs.frozen
class AskDtds:
    """The archiver lacks these."""

    references: tuple[DtdReference, ...]
    origin: str
    """For events of this origin."""


@attrs.frozen
class FoundDurable:
    """What is stored of a durable subscription; None: nothing."""

    number: int
    origin: str
    """Of the log of the node that had it last."""
    stored: bytes | None


@attrs.frozen
class FoundText:
    """The text of a DTD in the archive; None: it has none, or could not tell."""

    number: int
    text: bytes | None


#: What the archiver says.
Told: TypeAlias = Report | AskDtds | Covered | FoundDurable | FoundText


def encode(said: Said) -> bytes:
    """The line of the node."""
    match said:
        case Flush(number):
            return _line({"flush": number})
        case AskCovered():
            return _line({"covered": True})
        case AskDurable(number, client_id, name):
            return _line({"durable": number, "of": [client_id, name]})
        case AskText(number, reference):
            named = [reference.type, reference.version, reference.variant]
            return _line({"text": number, "of": named})
        case End():
            return _line({"end": True})
        case Dead(origins):
            return _line({"dead": list(origins)})
        case TellDtd(reference, text, origin):
            named = [reference.type, reference.version]
            return _line({"dtd": [*named, _shown(text)], "of": origin})


def decode(line: bytes) -> Said:
    """What the node's line says; ValueError if nothing."""
    with _making_sense_of(line):
        return _decoded(json.loads(line))


def _decoded(said: Any) -> Said:
    match said:
        case {"flush": int(number)}:
            return Flush(number)
        case {"covered": True}:
            return ASK_COVERED
        case {"durable": int(number), "of": [str(client_id), str(name)]}:
            return AskDurable(number, client_id, name)
        case {"text": int(number), "of": [str(name), str(version), str(variant)]}:
            return AskText(number, DtdReference(name, version, variant))
        case {"end": True}:
            return End()
        case {"dead": list(origins)}:
            return Dead(tuple(map(str, origins)))
        case {"dtd": [str(name), str(version), text], "of": str(origin)}:
            return TellDtd(DtdReference(name, version), _bytes(text), origin)
    raise ValueError


def ask_dtds(wanted: Sequence[DtdReference], origin: str) -> bytes:
    """The archiver's question."""
    return _line({"dtds": [[each.type, each.version] for each in wanted], "of": origin})


def report(report: Report) -> bytes:
    """The archiver's report."""
    return _line(attrs.asdict(report))


def coverage(covered: Covered) -> bytes:
    """The archiver's answer to `AskCovered`: of all origins."""
    told = {"coverage": dict(covered.intervals), "healing": sorted(covered.healing)}
    return _line({**told, "lost_ends": dict(covered.lost_ends), "known": covered.is_known})


def found(number: int, origin: str, stored: bytes | None) -> bytes:
    """The archiver's answer to `AskDurable`."""
    return _line({"found": number, "origin": origin, "stored": _shown(stored)})


def found_text(number: int, text: bytes | None) -> bytes:
    """The archiver's answer to `AskText`."""
    return _line({"archived": number, "text": _shown(text)})


def understood(line: bytes) -> Told:
    """What the archiver's line says; ValueError if nothing."""
    with _making_sense_of(line):
        return _understood(json.loads(line))


def _understood(said: Any) -> Told:
    match said:
        case {
            "coverage": dict(intervals),
            "healing": list(healing),
            "lost_ends": dict(ends),
            "known": bool(known),
        }:
            return Covered(
                {o: [(_mark(a), _mark(u)) for a, u in each] for o, each in intervals.items()},
                frozenset(map(str, healing)),
                lost_ends={origin: _mark(mark) for origin, mark in ends.items()},
                is_known=known,
            )
        case {"found": int(number), "origin": str(origin), "stored": stored}:
            return FoundDurable(number, origin, _bytes(stored))
        case {"archived": int(number), "text": text}:
            return FoundText(number, _bytes(text))
        case {"dtds": list(wanted), "of": str(origin)}:
            return AskDtds(tuple(DtdReference(str(name), str(v)) for name, v in wanted), origin)
        case {
            "reached": dict(reached),
            "flushed": list(flushed),
            "problem": str(problem),
            "figures": dict(figures),
        }:
            return Report(
                {origin: _mark(mark) for origin, mark in reached.items()},
                tuple(map(int, flushed)),
                problem,
                {str(name): int(figure) for name, figure in figures.items()},
            )
    raise ValueError


@contextmanager
def _making_sense_of(line: bytes) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError, BadName):
        raise ValueError(f"a line that says nothing: {line[:80]!r}") from None


def _mark(said: Sequence[int]) -> Mark:
    epoch, offset = said
    return int(epoch), int(offset)


def _shown(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(shown: str | None) -> bytes | None:
    return None if shown is None else base64.b64decode(shown, validate=True)


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"
