"""Alarms about the copies of one event, or their lack, at several parents of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from broker.streams.contract import FlowBatch
from plugins.dcp.alarm_reports import AlarmReports
from plugins.dcp.event_range import EventRange
from plugins.dcp.parents import Parents
from plugins.dcp.sequences import SequenceState


class LateRanges(NamedTuple):
    """Events at passed places."""

    found: EventRange
    """All of them. Some may be forged, or unwanted."""
    wanted: EventRange
    """Those with a right signature that a subscription or child wants."""


_NO_EVENTS: Final = LateRanges(EventRange(0, 0), EventRange(0, 0))


class CopyAlarms:
    def __init__(
        self,
        parents: Parents,
        alarms: AlarmReports,
        has_interest: Callable[[FlowBatch], Sequence[bool]],
    ) -> None:
        """`has_interest` is that of `IRouterHost`."""
        self.disagreements = 0
        """Events of which two parents sent different copies."""
        self._parents = parents
        self._alarms = alarms
        self._has_interest = has_interest

    def report_disagreements(self, state: SequenceState, now: float) -> None:
        found = [] if state.receiver is None else state.receiver.copies.disagreements
        if found:
            self.disagreements += len(found)
            an, first, other = found[-1]
            found.clear()
            names = " and ".join(self._parents.name_of(each) for each in (first, other))
            place = state.describe_place(an)
            text = f"roots disagree about {place}: the copies of {names} differ"
            self._alarms.note_event("disagreement", text, now)

    def report_omissions(self, state: SequenceState, range_: EventRange, now: float) -> LateRanges:
        """Count the events of a received range that parents have left out of theirs. Return those
        whose places this node has passed.

        Only wanted ones count: a parent that can not match an event sends it to all children.
        """
        found = [] if state.receiver is None else state.receiver.copies.omissions
        if not found:
            return _NO_EVENTS
        omissions = {each.an: each for each in found}
        found.clear()
        batch = state.make_batch(range_.only(omissions))
        wanted = set()
        for event, is_wanted in zip(batch.events, self._has_interest(batch), strict=True):
            an, bringing, omitting, is_late = omissions[event.mark[1]]
            if is_wanted and is_late:
                wanted.add(an)
            for each in omitting if is_wanted else ():
                path = self._parents.paths.get(each)
                if path is None:
                    continue
                path.left_out += 1
                names = self._parents.name_of(each), self._parents.name_of(bringing)
                text = (
                    f"the parent {names[0]} has left out events of {state.description.flow} that "
                    f"{names[1]} has brought"
                )
                self._alarms.note_event("omission", text, now)
        late = {an for an, each in omissions.items() if each.is_late}
        return LateRanges(range_.only(late), range_.only(wanted))
