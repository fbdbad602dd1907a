"""A replay as the replay process keeps it, and the bounds of all of them."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from broker.replay.engine.contract import Report
from broker.replay.request import ReplayRequest

#: Seconds: requests that come so close to each other are one job.
GATHER_SECONDS: Final = 0.1
#: Seconds after which a job begins though more requests keep coming.
MAX_GATHER_SECONDS: Final = 1.0
#: Seconds that a replay stays when the connection is gone that it was for.
LEASE_SECONDS: Final = 600.0


@attrs.frozen
class ReplayerLimits:
    """Bounds of the process; what is beyond is refused with `Overloaded`."""

    replays: int = 50_000
    """That are not forgotten."""
    requests: int = 10_000
    """Of one job; others wait for the next one."""
    spool_bytes: int = 32 << 30
    """Of the spools of all jobs, each request's counted by itself: no further request is taken."""
    pages: int = 1_024
    """That may be asked for in advance."""


class ReplayState(enum.Enum):
    """How far a replay is."""

    WAITING = enum.auto()
    IN_JOB = enum.auto()
    READY = enum.auto()
    SENT = enum.auto()


@attrs.define(eq=False)
class ReplayEntry:
    """One request, from when it is accepted until it is forgotten."""

    id: int
    request: ReplayRequest
    connection: int | None
    """The connection that it is for; None: that is gone."""
    state: ReplayState = ReplayState.WAITING
    job: int = 0
    number: int = 0
    report: Report = attrs.field(factory=Report)
    next_event: int = 0
    """The number of the first event that was not sent."""
    credit: int = 0
    generation: int = 0
    """Rises when what is being read is of no use any more."""
    is_reading: bool = False

    @property
    def has_result(self) -> bool:
        """Whether its events can be sent: they are ready, or were sent already."""
        return self.state in (ReplayState.READY, ReplayState.SENT)
