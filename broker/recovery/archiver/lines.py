"""What a node and its archiver say to each other: a JSON object a line, over pipes.

node:     {"flush": number}                        archive what is new now, and say so
          {"end": true}                            archive it once more, then end
              {"dead": [origin...]}                    of these archive what is kept here
          {"dtd": [type, version, text or null]}
archiver: {"dtds": [[type, version]...]}           tell these
          {"reached": {origin: [epoch, offset]}, "flushed": [number...], "problem": text,
           "figures": {"events", "files", "bytes", "flushes", "lost": since it began}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from broker.dtd.reference import DtdReference
from broker.event.place import Mark


@attrs.frozen
class Flush:
    """Archive what is new now; a report names the number."""

    number: int


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


Said: TypeAlias = Flush | End | Dead | TellDtd


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
    """See `broker.recovery.archiver.archiving.Figures`."""


@attrs.frozen
class AskDtds:
    """The archiver lacks these."""

    references: tuple[DtdReference, ...]


def encode(said: Said) -> bytes:
    """The line of the node."""
    match said:
        case Flush(number):
            return _line({"flush": number})
        case End():
            return _line({"end": True})
        case Dead(origins):
            return _line({"dead": list(origins)})
        case TellDtd(reference, text):
            shown = None if text is None else text.decode()
            return _line({"dtd": [reference.type, reference.version, shown]})


def decode(line: bytes) -> Said:
    """What the node's line says; ValueError if nothing."""
    match json.loads(line):
        case {"flush": int(number)}:
            return Flush(number)
        case {"end": True}:
            return End()
        case {"dead": list(origins)}:
            return Dead(tuple(origins))
        case {"dtd": [str(name), str(version), text]}:
            return TellDtd(DtdReference(name, version), None if text is None else text.encode())
    raise ValueError(f"a line that says nothing: {line[:80]!r}")


def ask_dtds(wanted: Sequence[DtdReference]) -> bytes:
    """The archiver's question."""
    return _line({"dtds": [[each.type, each.version] for each in wanted]})


def report(report: Report) -> bytes:
    """The archiver's report."""
    return _line(attrs.asdict(report))


def understood(line: bytes) -> Report | AskDtds:
    """What the archiver's line says; ValueError if nothing."""
    match json.loads(line):
        case {"dtds": list(wanted)}:
            return AskDtds(tuple(DtdReference(*each) for each in wanted))
        case {"reached": reached, "flushed": flushed, "problem": str(problem), "figures": figures}:
            marks = {origin: (epoch, offset) for origin, (epoch, offset) in reached.items()}
            return Report(marks, tuple(flushed), problem, figures)
    raise ValueError(f"a line that says nothing: {line[:80]!r}")


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"
