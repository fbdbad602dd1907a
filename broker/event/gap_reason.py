"""Reasons of gaps that a node finds by itself, as in `broker.wire.messages.Gap`."""

from __future__ import annotations

from typing import Final

RETENTION: Final = "retention"
"""The log of the origin, or this node's log, has removed the events."""
LOST: Final = "lost"
"""The events are in no log any more."""
UNREACHABLE: Final = "unreachable"
"""This node has waited for the origin long enough. Another node may still get the events."""
LEFT_OUT: Final = "left-out"
"""Another node has stated that there is no such event, and this node has believed it."""
