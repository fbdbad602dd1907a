"""What one transaction of the log brings, what the log holds after it, and how much it keeps."""

from __future__ import annotations

import attrs

from broker.event.place import Mark, NamedHistory
from broker.log.deduplication import Publisher
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent


@attrs.frozen
class Retention:
    """How much of the past is kept: whichever bound is reached first."""

    max_bytes: int = 1 << 30
    max_age_ms: int = 7 * 86_400_000
    marks_age_ms: int = 30 * 86_400_000
    durables_age_ms: int = 30 * 86_400_000
    unarchived_bytes: int = 0
    """Up to so many bytes own events are kept that the archive lacks; 0: there is no archive."""

    @property
    def map_bytes(self) -> int:
        """Room for the log and all beside it: pages freed by one transaction are used from the next
        but one on, and the other tables have to fit in too."""
        return 2 * max(self.max_bytes, self.unarchived_bytes) + (256 << 20)


@attrs.frozen
class Bounds:
    """What the log holds: serials `first` to `last`; `last` is `first - 1` in an empty log."""

    epoch: int
    first: int
    last: int
    used_bytes: int
    offset: int = 0
    """The newest of the places that this node itself has given, in any epoch; 0 before that."""


@attrs.frozen
class ReplicaBatch:
    """Copies of all events of an origin in (after, upto], for its node."""

    origin: str
    after: Mark
    upto: Mark
    events: list[LoggedEvent]
    owner: str = ""
    """The address of that node."""


@attrs.define
class Commit:
    """What one transaction brings."""

    events: list[LoggedEvent] = attrs.field(factory=list)
    marks: list[tuple[Publisher, bytes]] = attrs.field(factory=list)
    durables: list[tuple[bytes, bytes | None]] = attrs.field(factory=list)
    """Key and stored value of durable subscriptions; None deletes."""
    clients: list[tuple[str, bytes]] = attrs.field(factory=list)
    """ClientId and its newest incarnation, as the session layer encodes it."""
    covered: dict[str, Mark] = attrs.field(factory=dict)
    """Up to where the log has all that it wants of these origins."""
    begins_after: dict[str, Mark] = attrs.field(factory=dict)
    """Behind which marks it begins with these origins, which are new to it."""
    replicas: list[ReplicaBatch] = attrs.field(factory=list)
    histories: dict[str, tuple[NamedHistory, ...]] = attrs.field(factory=dict)
    """The newest histories of other origins."""
    losses: list[BranchLoss] = attrs.field(factory=list)
    """Own events of another branch that nobody has."""
