"""The record of one replay in the replay process, and the limits of all."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from broker.replay.engine.contract import Report
from broker.replay.request import ReplayRequest

#: Requests within this time share a job.
GATHER_SECONDS: Final = 0.1
#: A job starts after this time in any case.
MAX_GATHER_SECONDS: Final = 1.0


@attrs.frozen
class ReplayerLimits:
    """Requests beyond these limits are rejected with `Overloaded`."""

    replays: int = 50_000
    """Replays in any state."""
    requests: int = 10_000
    """Per job; others wait for the next job."""
    spool_bytes: int = 32 << 30
    """A shared event counts for each request."""
    pages: int = 1_024


class ReplayState(enum.Enum):
    WAITING = enum.auto()
    IN_JOB = enum.auto()
    READY = enum.auto()
    SENT = enum.auto()


@attrs.define(eq=False)
class ReplayEntry:
    """A replay, from acceptance until it is forgotten."""

    id: int
    request: ReplayRequest
    state: ReplayState = ReplayState.WAITING
    job: int = 0
    number: int = 0
    report: Report = attrs.field(factory=Report)
    next_event: int = 0
    credit: int = 0
    is_reading: bool = False

    @property
    def can_read(self) -> bool:
        return self.state is ReplayState.READY and not self.is_reading
