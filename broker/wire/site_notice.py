"""Messages of the notices of `broker.event.site_notice`, each for one subscription."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import attrs
import msgspec

from broker.event.site_notice import MissingMessages, SiteNotice, SiteStatus
from broker.wire.codec import Count, Message, Offset, Schema

#: Characters of a reason.
MAX_REASON = 500

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_REASON)]


class StatusChanged(Message, frozen=True):
    """Node: a site's state, for a client of version 4."""

    kind = 0x2B

    number: Count
    stack: _Name
    site: _Name
    state: _Name
    """`connected`, `suspected` or `disconnected`."""
    reason: _Reason
    at: Offset
    """ms since 1970."""
    until: Offset | None
    """Time of the next change by a timer."""


class MessagesMissing(Message, frozen=True):
    """Node: messages of a site that do not come, for a client of version 4."""

    kind = 0x2C

    number: Count
    stack: _Name
    site: _Name
    incarnation: Offset
    first: Offset
    last: Offset
    reason: _Reason


NoticeMessage: TypeAlias = StatusChanged | MessagesMissing


_SCHEMAS = {
    kind: Schema[NoticeMessage](message, "notice")
    for kind, message in ((SiteStatus, StatusChanged), (MissingMessages, MessagesMissing))
}


def check_notice(notice: SiteNotice) -> None:
    """Raises `ProtocolError` for values that a message can not have."""
    _SCHEMAS[type(notice)].convert((0, *attrs.astuple(notice)))


def notice_to_message(number: int, notice: SiteNotice) -> NoticeMessage:
    kind = StatusChanged if isinstance(notice, SiteStatus) else MessagesMissing
    return kind(number, *attrs.astuple(notice))


def notice_from_message(message: NoticeMessage) -> SiteNotice:
    _, *fields = msgspec.structs.astuple(message)
    kind = SiteStatus if isinstance(message, StatusChanged) else MissingMessages
    return kind(*fields)
