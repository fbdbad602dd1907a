"""Notices of a stream transport to subscriptions: statuses of sites, and fates of messages."""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from broker.event.order_entry import MessageId
from broker.event.site_coverage import CoveredMessages


@attrs.frozen
class SiteStatus:
    """State of a site of a group, as the site of the subscription's node sees it."""

    stack: str
    """Name of the stack instance, which is the name of the group."""
    site: str
    state: str
    """`connected`, `suspected` or `disconnected`."""
    reason: str
    at: int
    """Time of the change, in ms since 1970."""
    until: int | None = None
    """Time of the next change that a timer makes, in ms since 1970; None without one."""


@attrs.frozen
class MissingMessages:
    """Messages of a site, from `first` to `last`, that subscriptions do not get (RCM L6)."""

    stack: str
    site: str
    incarnation: int
    first: int
    last: int
    reason: str


@attrs.frozen
class MovedMessage:
    """A delivered message, and its stamp from now on."""

    site: str
    incarnation: int
    number: int
    stamp: int
    tie: str
    """Name that orders equal stamps."""
    is_late: bool = False
    """True if events with higher stamps were delivered. This and the next two are for the log."""
    before: MessageId | None = None
    """The delivered message before its place, if it is late."""
    after: MessageId | None = None
    """The delivered message after its place, if it is late."""


@attrs.frozen
class MovedMessages:
    """Delivered messages that have other places than in the entries that subscriptions have got:
    two sequencers had numbered them (`broker.transport.order.Move`)."""

    stack: str
    moves: tuple[MovedMessage, ...]
    """At most `MOST_MOVES`."""


@attrs.frozen
class SiteCoverage:
    """Messages that a site has logged and delivered, as far as they have changed.

    The first notice of a group names the node's own site, without messages: its subscriptions get
    what it has.
    """

    stack: str
    site: str
    """The one that has them."""
    covered: tuple[CoveredMessages, ...]
    """One for each incarnation of each site."""


#: Of one notice.
MOST_MOVES: Final = 1_000

SiteNotice: TypeAlias = SiteStatus | MissingMessages | MovedMessages | SiteCoverage
