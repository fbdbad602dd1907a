"""Notices of a stream transport to subscriptions: statuses of sites, and missing messages."""

from __future__ import annotations

from typing import TypeAlias

import attrs


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


SiteNotice: TypeAlias = SiteStatus | MissingMessages
