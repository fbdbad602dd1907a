"""A sequence for the child of a connection, or for the members of a group."""

from __future__ import annotations

import attrs

from plugins.dcp.event_range import Description, EventRange
from plugins.dcp.sender import SequenceSender


@attrs.define(eq=False)
class OutgoingSequence:
    """A sequence for the child of a connection."""

    index: int
    description: Description
    sender: SequenceSender[EventRange]
    opening: bytes
    """Description in each packet, until the child has acknowledged one."""
    is_known: bool = False
