"""Text and JSON forms of received events, gaps, changes of types and notices about sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

import attrs
from lxml import etree

from broker.cli.order_format import order_as_content, order_as_text
from broker.cli.terminal import json_line, one_line, print_note
from broker.client.merged import MergedEvent
from broker.client.received import Gap, ReceivedEvent, TypeChanged
from broker.event.envelope import Validation
from broker.event.gap_reason import RETENTION, UNREACHABLE
from broker.event.json_payload import NotMapped, xml_to_json
from broker.event.merging.held_event import MissingNumbers
from broker.event.site_notice import MissingMessages, MovedMessages, SiteStatus
from broker.printable import printable

Form = Callable[[ReceivedEvent], bytes]
PrintedNotice: TypeAlias = SiteStatus | MissingMessages | MovedMessages


def as_payload(event: ReceivedEvent) -> bytes:
    """Without a payload the line is empty."""
    return (event.payload or b"") + b"\n"


def as_json_payload(event: ReceivedEvent) -> bytes:
    """Return a line of JSON; nothing, and a note, for a payload that is not mapped from JSON."""
    try:
        return (xml_to_json(_parse_payload(event.payload or b"")) + "\n").encode()
    except NotMapped as error:
        print_note(f"{event.event_id} of {event.stream} is not JSON: {error}")
        return b""


def _parse_payload(payload: bytes) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(payload, parser)
    except etree.XMLSyntaxError as error:
        raise NotMapped(f"not well-formed: {error.msg}") from None


def as_printable(form: Form) -> Form:
    """Return a form for a terminal, which the bytes of an event could command."""
    return lambda event: printable(form(event).decode("utf-8", "replace")).encode()


def as_document(event: ReceivedEvent) -> bytes:
    return event.document + b"\n"


def as_json(event: ReceivedEvent) -> bytes:
    """`xmlbroker pub` reads this."""
    header = event.header
    payload = event.payload
    content: dict[str, object] = {
        "place": str(event.place),
        "id": str(event.event_id),
        "stream": event.stream,
        "type": header.type_name,
        "version": header.version,
        "level": header.security_level.value,
        "liveness": event.liveness.value,
        "payload": None if payload is None else payload.decode("utf-8", "replace"),
    }
    if event.validation is not Validation.DESCRIBED:
        content["validation"] = event.validation.value
    if event.time is not None:
        content["time"] = event.time
    if isinstance(event, MergedEvent) and event.late:
        content["late"] = True
    if event.order is not None:
        content["order"] = order_as_content(event.order)
    return (json_line(content) + "\n").encode()


def as_text(event: ReceivedEvent) -> bytes:
    header = event.header
    words = [
        clock_time(event.event_id.timestamp),
        event.stream,
        f"{header.type_name} {header.version}",
        header.security_level.value,
        event.liveness.value,
        f"{event.event_id.client_id}#{event.event_id.sequence_number}",
        str(event.place),
    ]
    if event.validation is not Validation.DESCRIBED:
        words.append(event.validation.value)
    if event.time is not None:
        words.append(f"time {clock_time(event.time)}")
    if isinstance(event, MergedEvent) and event.late:
        words.append("late")
    if event.order is not None:
        words.append(one_line(order_as_text(event.order)))
    payload = event.payload
    body = "" if payload is None else printable(payload.decode("utf-8", "replace")) + "\n"
    return f"{'  '.join(words)}\n{body}".encode()


def clock_time(timestamp: int) -> str:
    """Return a time in UTC; the number if no calendar has it."""
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_REASONS: Final = {
    "slow": "dropped, because this subscriber or its node was too slow",
    "coalesced": "replaced by newer ones, because this subscriber or its node was too slow",
    RETENTION: "no longer in the node's log",
    UNREACHABLE: "at a node that can not be reached",
}


def gap_as_text(gap: Gap) -> str:
    what = "events" if gap.reason in ("slow", "coalesced") else "places"
    reason = _REASONS.get(gap.reason, gap.reason)
    return f"gap: {gap.count} {what} from {gap.first} to {gap.last} are {reason}"


def gap_as_json(gap: Gap) -> bytes:
    content = {
        "first": str(gap.first),
        "last": str(gap.last),
        "count": gap.count,
        "reason": gap.reason,
    }
    return (json_line({"gap": content}) + "\n").encode()


def missing_as_text(missing: MissingNumbers) -> str:
    which = str(missing.first)
    if missing.last > missing.first:
        which = f"{which} to {missing.last}"
    return f"bundle: {missing.bundle_id!r} of {missing.stream} is missing {which}"


def missing_as_json(missing: MissingNumbers) -> bytes:
    return (json_line({"missing": attrs.asdict(missing)}) + "\n").encode()


def notice_as_text(notice: PrintedNotice) -> str:
    if isinstance(notice, MovedMessages):
        places = (
            f"{each.number} of {each.site}/{each.incarnation} to {each.stamp} {each.tie}"
            for each in notice.moves
        )
        return f"moved: of {notice.stack}, {', '.join(places)}"
    reason = f": {notice.reason}" if notice.reason else ""
    if isinstance(notice, SiteStatus):
        until = "" if notice.until is None else f", until {clock_time(notice.until)}"
        since = clock_time(notice.at)
        return f"site: {notice.site} of {notice.stack} {notice.state} {since}{until}{reason}"
    which = str(notice.first)
    if notice.last > notice.first:
        which = f"{which} to {notice.last}"
    site = f"{notice.site}/{notice.incarnation}"
    return f"missing: {which} of {site} of {notice.stack} do not come{reason}"


_NOTICE_KEYS: Final[dict[type[PrintedNotice], str]] = {
    SiteStatus: "status",
    MissingMessages: "missing",
    MovedMessages: "moved",
}


def notice_as_json(notice: PrintedNotice) -> bytes:
    key = _NOTICE_KEYS[type(notice)]
    return (json_line({key: attrs.asdict(notice)}) + "\n").encode()


_EFFECTS: Final = {
    "can-not-match-any-more": "the query matches no event of the new version",
    "can-match-now": "the query matches events of the new version only",
    "reads-what-changed": "the query reads changed paths",
}


def change_as_text(change: TypeChanged) -> str:
    effect = _EFFECTS.get(change.effect, change.effect)
    reason = f" ({change.reason})" if change.reason else ""
    parts = [f"type: {change.type} {change.new} is newer than {change.old}: {effect}{reason}"]
    for word, paths in (
        ("query reads", change.paths),
        ("came", change.came),
        ("went", change.went),
        ("changed", change.changed),
    ):
        if paths:
            parts.append(f"{word}: {', '.join(paths)}")
    if change.left_out:
        parts.append(f"and {change.left_out} more")
    return "; ".join(parts)


def change_as_json(change: TypeChanged) -> bytes:
    return (json_line({"type-changed": attrs.asdict(change)}) + "\n").encode()


#: By the option that names it; `text` is the default on a terminal.
FORMS: Final[Mapping[str, Form]] = {
    "payload": as_payload,
    "json-payload": as_json_payload,
    "document": as_document,
    "json": as_json,
    "text": as_text,
}
