"""Parts of a range that was selected by an older query."""

from __future__ import annotations

from typing import TypeVar

from plugins.dcp.epoch_steps import EpochSteps
from plugins.dcp.event_range import IRange

RangeT = TypeVar("RangeT", bound=IRange)


def trusted_parts(range_: RangeT, epochs: EpochSteps, required: EpochSteps) -> list[RangeT]:
    """Return the parts of a parent's range that have all events of the required query, and its
    other events alone.

    `epochs` are those of the parent.
    """
    begins = {
        *epochs.begins_between(range_.previous, range_.upto),
        *required.begins_between(range_.previous, range_.upto),
    }
    parts: list[RangeT] = []
    rest = range_
    for upto in (*sorted(begins), range_.upto):
        part = rest.until(upto)
        rest = rest.after(upto)
        is_trusted = epochs.epoch_at(upto) >= required.epoch_at(upto)
        parts += [part] if is_trusted else part.single_events()
    return parts
