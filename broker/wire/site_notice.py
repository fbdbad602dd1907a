"""Messages of the notices of `broker.event.site_notice`, each for one subscription."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias

import attrs
import msgspec

from broker.errors import ProtocolError
from broker.event.site_coverage import MOST_INCARNATIONS, MOST_RANGES, MOST_SITES, CoveredMessages
from broker.event.site_notice import (
    MOST_MOVES,
    MissingMessages,
    MovedMessage,
    MovedMessages,
    SiteCoverage,
    SiteNotice,
    SiteStatus,
)
from broker.wire.codec import Count, Message, Offset, Schema

#: Characters of a reason.
MAX_REASON = 500

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Stamp: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_REASON)]
#: Fields of `CoveredMessages`, of all rows of a table.
CoveredRows: TypeAlias = Annotated[
    tuple[
        tuple[
            _Name,
            Offset,
            Offset,
            Offset,
            Annotated[tuple[tuple[Offset, Offset], ...], msgspec.Meta(max_length=MOST_RANGES)],
        ],
        ...,
    ],
    msgspec.Meta(max_length=MOST_SITES * MOST_INCARNATIONS),
]


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


class MessagesMoved(Message, frozen=True):
    """Node: delivered messages that have other stamps now, for a client of version 4."""

    kind = 0x2D

    number: Count
    stack: _Name
    moves: Annotated[
        tuple[tuple[_Name, Offset, Offset, _Stamp, _Name], ...],
        msgspec.Meta(max_length=MOST_MOVES),
    ]
    """Site, incarnation and number of a message; stamp, and the name that orders equal ones."""


class MessagesCovered(Message, frozen=True):
    """Node: messages that a site has logged and delivered, for a client of version 5."""

    kind = 0x2E

    number: Count
    stack: _Name
    site: _Name
    """The one that has them."""
    covered: CoveredRows
    """Site, incarnation, first and last number, and the ranges that are missing there."""


NoticeMessage: TypeAlias = StatusChanged | MessagesMissing | MessagesMoved | MessagesCovered

_MESSAGES: Mapping[type[SiteNotice], type[NoticeMessage]] = {
    SiteStatus: StatusChanged,
    MissingMessages: MessagesMissing,
    MovedMessages: MessagesMoved,
    SiteCoverage: MessagesCovered,
}
_NOTICES = {message: notice for notice, message in _MESSAGES.items()}
_SCHEMAS = {
    notice: Schema[NoticeMessage](message, "notice") for notice, message in _MESSAGES.items()
}


def check_notice(notice: SiteNotice) -> None:
    """Raises `ProtocolError` for values that a message can not have."""
    _SCHEMAS[type(notice)].convert((0, *_fields_of(notice)))


def notice_to_message(number: int, notice: SiteNotice) -> NoticeMessage:
    return _MESSAGES[type(notice)](number, *_fields_of(notice))


def notice_from_message(message: NoticeMessage) -> SiteNotice:
    """Raises `ProtocolError` for ranges that are not in order."""
    _, *fields = msgspec.structs.astuple(message)
    if isinstance(message, MessagesMoved):
        return MovedMessages(message.stack, tuple(MovedMessage(*row) for row in message.moves))
    if isinstance(message, MessagesCovered):
        return SiteCoverage(message.stack, message.site, rows_to_covered(message.covered))
    return _NOTICES[type(message)](*fields)


def rows_to_covered(rows: CoveredRows) -> tuple[CoveredMessages, ...]:
    """Raises `ProtocolError` for ranges that are not in order."""
    try:
        return tuple(CoveredMessages(*row) for row in rows)
    except ValueError as error:
        raise ProtocolError(str(error)) from None


def covered_to_rows(covered: Iterable[CoveredMessages]) -> CoveredRows:
    return tuple(attrs.astuple(row, recurse=False) for row in covered)


def _fields_of(notice: SiteNotice) -> tuple[Any, ...]:
    if isinstance(notice, MovedMessages):
        rows = ((one.site, one.incarnation, one.number, one.stamp, one.tie) for one in notice.moves)
        return notice.stack, tuple(rows)
    if isinstance(notice, SiteCoverage):
        return notice.stack, notice.site, covered_to_rows(notice.covered)
    return attrs.astuple(notice)
