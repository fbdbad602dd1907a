"""Text and JSON forms of order entries."""

from __future__ import annotations

from datetime import UTC, datetime

from broker.event.order_entry import MessageId, OrderEntry


def stamp_as_text(entry: OrderEntry) -> str:
    """Return the time of day in UTC with its bound, as `12:03:05.120 ± 8 ms`; else the number."""
    if entry.stamp is None:
        return "no number"
    if not entry.bound:
        return str(entry.stamp)
    try:
        moment = datetime.fromtimestamp(entry.stamp / 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(entry.stamp)
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03} ± {-(-entry.bound // 1000)} ms"


def order_as_content(entry: OrderEntry) -> dict[str, object]:
    """Return values for JSON."""
    content: dict[str, object] = {
        "stack": entry.stack,
        "site": entry.site,
        "incarnation": entry.incarnation,
        "number": entry.number,
        "stamp": entry.stamp,
        "variant": entry.variant,
    }
    if entry.stamp is not None and entry.bound:
        content["time"] = stamp_as_text(entry)
    content["late"] = entry.is_late
    if entry.is_late:
        content["before"] = _id_or_none(entry.before)
        content["after"] = _id_or_none(entry.after)
    content["recovered"] = entry.is_recovered
    return content


def order_as_text(entry: OrderEntry) -> str:
    text = f"{entry.site} {stamp_as_text(entry)}"
    if entry.is_late:
        text += " late"
        if entry.before is not None:
            text += f" after {id_as_text(entry.before)}"
        if entry.after is not None:
            text += f" before {id_as_text(entry.after)}"
    return f"{text} recovered" if entry.is_recovered else text


def id_as_text(message: MessageId) -> str:
    """Return `SITE/INCARNATION/NUMBER`, as of an EventId."""
    return "/".join(map(str, message))


def _id_or_none(message: MessageId | None) -> str | None:
    return None if message is None else id_as_text(message)
