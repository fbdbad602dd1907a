"""Splice of one subscription's session and its mesh, sans-I/O (DCP D5).

Both bring each flow in order, and without a gap behind their own begins. So the first copy of each
event counts, and a range of the mesh that begins behind the complete position waits for the
session.

| state | event | next | effect |
|---|---|---|---|
| session | the mesh has all flows up to the complete position | holding | `Hold` to the node |
| holding | `HeldBack` | held | |
| held | a range is missing, the mesh is lost, or has no room | restarting | `Unsubscribe` |
| held | what the node has held back is missing for `PATIENCE` | restarting | `Unsubscribe` |
| restarting | `Ended` | session | `Subscribe` at the complete position |
| any | a new session | session | `Subscribe` at the complete position |

In the states held and restarting, messages of the session about flows of the mesh are ignored:
they are no longer without a gap.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from broker.client.received import ReceivedEvent
from broker.event.flow import pattern_of
from broker.event.place import Mark

#: Seconds for which events that the node has held back may be on their way through the mesh.
PATIENCE: Final = 2.5
#: Seconds between a restart and the next hold, doubled by each restart within a minute.
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0
_BEFORE_FIRST: Mark = (0, 0)


class SpliceState(enum.Enum):
    SESSION = "session"
    HOLDING = "holding"
    HELD = "held"
    RESTARTING = "restarting"


_ALONE: Final = frozenset({SpliceState.HELD, SpliceState.RESTARTING})


class SpliceStep(enum.Enum):
    HOLD = "hold"
    RESTART = "restart"


@attrs.frozen
class MeshRange:
    """All matching events of a flow in (after, upto]."""

    flow: str
    after: Mark
    upto: Mark
    events: Sequence[ReceivedEvent] = ()
    size: int = 0
    """Bytes."""

    def behind(self, mark: Mark) -> MeshRange:
        """Return the part behind a mark within the range."""
        if mark <= self.after:
            return self
        left = [each for each in self.events if each.place.mark > mark]
        return MeshRange(self.flow, mark, self.upto, left, self.size if left else 0)


class MeshSplice:
    def __init__(self, patterns: Iterable[str], max_bytes: int) -> None:
        """`patterns` are the carrying patterns of the mesh. `max_bytes` bounds waiting ranges."""
        self.patterns = frozenset(patterns)
        self.state = SpliceState.SESSION
        self.holds = self.restarts = 0
        self.events = 0
        """Events that the mesh brought first."""
        self._max_bytes = max_bytes
        self._is_joined = False
        self._marks: Mapping[str, Mark] = {}
        """Behind them the mesh brings all events of each flow."""
        self._waiting: dict[str, deque[MeshRange]] = {}
        self._waiting_bytes = 0
        self._is_broken = False
        """True if a range of the mesh was dropped."""
        self._held_back: dict[str, Mark] = {}
        """Newest marks that the node has held back."""
        self._behind: dict[str, tuple[Mark, float]] = {}
        """Marks that the mesh has not reached, each with the time at which that was noticed."""
        self._hold_at = 0.0
        self._wait = _FIRST_WAIT
        self._restarted_at = 0.0

    # ------------------------------------------------------------------ the mesh

    def mesh_joined(self, marks: Mapping[str, Mark]) -> None:
        self._is_joined = True
        self._marks = dict(marks)

    def mesh_lost(self) -> None:
        self._is_joined = False

    def add_range(self, range_: MeshRange, *, has_room: bool = True) -> None:
        """Take a range of the mesh. Without room it is dropped: the session brings its events."""
        if not has_room or self._waiting_bytes + range_.size > self._max_bytes:
            self._drop_waiting()
            self._is_broken = True
            return
        self._waiting.setdefault(range_.flow, deque()).append(range_)
        self._waiting_bytes += range_.size

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0

    def take_contiguous(self, position: Mapping[str, Mark]) -> list[MeshRange]:
        """Return ranges that continue a complete position, without the events up to it."""
        found: list[MeshRange] = []
        for flow, waiting in list(self._waiting.items()):
            mark = position.get(flow, _BEFORE_FIRST)
            while waiting and waiting[0].after <= mark:
                range_ = waiting.popleft()
                self._waiting_bytes -= range_.size
                if range_.upto > mark:
                    found.append(range_.behind(mark))
                    self.events += len(found[-1].events)
                    mark = range_.upto
            if not waiting:
                del self._waiting[flow]
        return found

    # ------------------------------------------------------------------ the session

    def session_begun(self) -> None:
        """The session brings all events behind the complete position."""
        self.state = SpliceState.SESSION
        self._held_back.clear()
        self._behind.clear()

    def ignores(self, flow: str) -> bool:
        """Return whether messages of the session about a flow have no meaning now."""
        return self.state in _ALONE and pattern_of(flow) in self.patterns

    def note_held_back(self, newest: Mapping[str, Mark]) -> None:
        """Note marks that the node has held back. The first message confirms `Hold`: until then the
        session has brought all."""
        if self.state is SpliceState.HOLDING:
            self.state = SpliceState.HELD
        if self.state is SpliceState.HELD:
            self._held_back.update(newest)

    # ------------------------------------------------------------------ steps

    def take_step(
        self, position: Mapping[str, Mark], now: float, *, can_hold: bool
    ) -> SpliceStep | None:
        """Return the step that is due; the caller carries it out.

        `can_hold` is True if the subscription flows, and the node can hold flows back. All
        contiguous ranges were taken.
        """
        if self.state is SpliceState.SESSION:
            is_even = all(mark <= position.get(f, _BEFORE_FIRST) for f, mark in self._marks.items())
            if can_hold and self._is_joined and is_even and not self._waiting:
                return self._hold(now)
            self._is_broken = False
        elif self.state is SpliceState.HELD:
            self._compare_held_back(position, now)
            is_late = any(now >= since + PATIENCE for _, since in self._behind.values())
            if self._is_broken or not self._is_joined or self._waiting or is_late:
                return self._restart(now)
        return None

    def _hold(self, now: float) -> SpliceStep | None:
        if self._is_broken or now < self._hold_at:
            self._is_broken = False
            return None
        self.state = SpliceState.HOLDING
        self.holds += 1
        return SpliceStep.HOLD

    def _restart(self, now: float) -> SpliceStep:
        self.state = SpliceState.RESTARTING
        self.restarts += 1
        self._is_broken = False
        if now > self._restarted_at + _LONGEST_WAIT:
            self._wait = _FIRST_WAIT
        self._restarted_at = now
        self._hold_at = now + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        return SpliceStep.RESTART

    def _compare_held_back(self, position: Mapping[str, Mark], now: float) -> None:
        for flow, newest in list(self._held_back.items()):
            mark = position.get(flow, _BEFORE_FIRST)
            behind = self._behind.get(flow)
            if behind is not None and mark >= behind[0]:
                del self._behind[flow]
            if mark >= newest:
                del self._held_back[flow]
            else:
                self._behind.setdefault(flow, (newest, now))

    def next_timeout(self) -> float | None:
        if self.state is SpliceState.HELD:
            return min((since + PATIENCE for _, since in self._behind.values()), default=None)
        if self.state is SpliceState.SESSION and self._is_joined and self._hold_at:
            return self._hold_at
        return None
