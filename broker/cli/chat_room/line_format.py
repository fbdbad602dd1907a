"""Lines of text for a room: each is one line, and no text of others can control the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.cli.chat_room.message import NOT_IN_NAMES, Presence, cut
from broker.cli.chat_room.own_lines import Arrivals
from broker.cli.chat_room.room import Member, Room
from broker.cli.chat_room.transcript import ChatLine, Line
from broker.cli.event_format import clock_time
from broker.cli.order_format import stamp_as_text
from broker.cli.terminal import one_line
from broker.event.site_notice import MissingMessages, SiteStatus
from broker.printable import printable

#: Characters of a neighbour of a late line.
MOST_QUOTED: Final = 60


def line_as_text(line: Line) -> str:
    if isinstance(line, MissingMessages):
        return missing_as_text(line)
    return f"{'late ' if line.is_late else ''}{_time_of(line)}{_site_of(line)} {_body_of(line)}"


def line_with_arrivals(line: Line, room: Room) -> str:
    """Return a line; an own message has the sites at which it has arrived."""
    arrivals = None if isinstance(line, MissingMessages) else room.arrivals_of(line)
    suffix = "" if arrivals is None else f" {arrivals_as_text(arrivals)}"
    return line_as_text(line) + suffix


def arrivals_as_text(arrivals: Arrivals) -> str:
    others = [
        f"{what} {', '.join(sites)}"
        for what, sites in (
            ("waits for", arrivals.expected),
            ("missing at", arrivals.missing),
            ("not known at", arrivals.unknown),
        )
        if sites
    ]
    return one_line(f"[{' '.join(arrivals.delivered)}] {', '.join(others)}")


def late_as_text(line: ChatLine, before: ChatLine | None, after: ChatLine | None) -> str:
    """Return a late line with the lines between which it belongs."""
    return line_as_text(line) + _describe_place(before, after)


def missing_as_text(missing: MissingMessages) -> str:
    if missing.first == missing.last:
        which = f"message {missing.first}"
    else:
        which = f"messages {missing.first} to {missing.last}"
    reason = f" ({missing.reason})" if missing.reason else ""
    return one_line(f"missing: {which} of site {missing.site}{reason}")


def placed_missing_as_text(
    missing: MissingMessages, before: ChatLine | None, after: ChatLine | None
) -> str:
    return missing_as_text(missing) + _describe_place(before, after)


def status_as_text(status: SiteStatus) -> str:
    text = f"site {status.site}: {status.state} since {_time_of_day(status.at)}"
    if status.reason:
        text += f", {status.reason}"
    if status.until is not None:
        text += f", until {_time_of_day(status.until)} at most"
    return one_line(text)


def member_as_text(member: Member) -> str:
    return name_of(member.author, member.newest.client_id)


def members_as_text(room: Room, now: int) -> str:
    """Return who is where."""
    by_site: dict[str, list[str]] = {}
    for member in room.members(now):
        by_site.setdefault(member.site, []).append(member_as_text(member))
    parts = []
    for site, names in by_site.items():
        state = room.status_of(site)
        where = f" at {site}" if site else ""
        suffix = f" ({state})" if state not in ("", "connected") else ""
        parts.append(", ".join(names) + printable(where + suffix))
    return "here: " + ("; ".join(parts) or "nobody")


def name_of(author: str, client_id: str) -> str:
    """Return the name that an author gives, with the ClientId unless it is equal or random."""
    name = NOT_IN_NAMES.sub("?", one_line(author))
    if client_id == author or client_id.startswith("anonymous-"):
        return name
    return f"{name} <{client_id}>"


def _describe_place(before: ChatLine | None, after: ChatLine | None) -> str:
    parts: Sequence[str] = [
        f"{word} [{cut(line_as_text(line), MOST_QUOTED)}]"
        for word, line in (("after", before), ("before", after))
        if line is not None
    ]
    return f" -- {', '.join(parts)}" if parts else ""


def _time_of(line: ChatLine) -> str:
    if line.order is not None and line.order.stamp is not None and line.order.bound:
        return stamp_as_text(line.order)
    return _time_of_day(line.event_id.timestamp)


def _time_of_day(timestamp: int) -> str:
    return clock_time(timestamp).partition("T")[2].removesuffix("Z") or str(timestamp)


def _site_of(line: ChatLine) -> str:
    return f" {one_line(line.site)}" if line.site else ""


def _body_of(line: ChatLine) -> str:
    name = name_of(line.message.author, line.event_id.client_id)
    if line.message.presence is Presence.JOINED:
        return f"{name} joins"
    if line.message.presence is Presence.LEFT:
        return f"{name} leaves"
    return f"{name}: {one_line(line.message.text)}"
