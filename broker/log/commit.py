"""Contents and result of one transaction of the log, and retention settings."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from broker.event.flow import FlowInterval
from broker.event.place import Mark, NamedHistory
from broker.event.site_notice import MovedMessage
from broker.log.deduplication import Publisher
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent

#: Stack, site, incarnation and number of a message.
MovedKey: TypeAlias = tuple[str, str, int, int]


@attrs.frozen
class Retention:
    """Bounds of the stored past; the first one that is reached applies."""

    max_bytes: int = 1 << 30
    max_age_ms: int = 7 * 86_400_000
    marks_age_ms: int = 30 * 86_400_000
    durables_age_ms: int = 30 * 86_400_000
    unarchived_bytes: int = 0
    """Own events that are not in the archive are kept up to this size; 0: there is no archive."""

    @property
    def map_bytes(self) -> int:
        """Size of the map: freed pages are used again two transactions later, and other tables must
        fit too."""
        return 2 * max(self.max_bytes, self.unarchived_bytes) + (256 << 20)


@attrs.frozen
class Bounds:
    """Serials `first` to `last`; `last` is `first - 1` in an empty log."""

    epoch: int
    first: int
    last: int
    used_bytes: int
    offset: int = 0
    """The last offset that this node has given, in any epoch; 0 before the first."""


@attrs.frozen
class ReplicaBatch:
    """Copies of all events of an origin in (after, upto]."""

    origin: str
    after: Mark
    upto: Mark
    events: list[LoggedEvent]
    owner: str = ""
    """Address of that node."""


@attrs.define
class Commit:
    events: list[LoggedEvent] = attrs.field(factory=list)
    marks: list[tuple[Publisher, bytes]] = attrs.field(factory=list)
    durables: list[tuple[bytes, bytes | None]] = attrs.field(factory=list)
    """Key and value of durable subscriptions; None deletes."""
    clients: list[tuple[str, bytes | None]] = attrs.field(factory=list)
    """ClientId and its newest incarnation, in the session layer's encoding; None deletes."""
    covered: dict[str, Mark] = attrs.field(factory=dict)
    """By origin: the log is complete up to this mark, as far as this node needs the origin."""
    begins_after: dict[str, Mark] = attrs.field(factory=dict)
    """By origin that is new to the log: the mark after which the log begins."""
    replicas: list[ReplicaBatch] = attrs.field(factory=list)
    histories: dict[str, tuple[NamedHistory, ...]] = attrs.field(factory=dict)
    """The newest histories of other origins."""
    flows: dict[str, tuple[FlowInterval, ...]] = attrs.field(factory=dict)
    """Intervals of other origins' flows."""
    statements: dict[tuple[bytes, str], bytes | None] = attrs.field(factory=dict)
    """Signed statements by kind and origin; None deletes."""
    losses: list[BranchLoss] = attrs.field(factory=list)
    """Own events of another branch that can not be recovered."""
    moved: dict[MovedKey, MovedMessage] = attrs.field(factory=dict)
    """Logged events, or events of this commit, with other places in their group's order."""
