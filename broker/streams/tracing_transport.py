"""Stream transports that remember the paths of events (`xmlbroker explain --mesh`)."""

from __future__ import annotations

from typing import TypedDict

from zope.interface import Interface

from broker.event.place import Mark


class TracedCopy(TypedDict):
    """A copy of the event, from one parent."""

    parent: str
    late_ms: float
    """Behind the first copy, which comes first in the list."""
    is_repeated: bool
    """True for a retransmission."""


class TracedParent(TypedDict):
    """A present parent that brought no copy."""

    name: str
    has_passed: bool
    """True if it has sent later events: it lacked the event, had filtered it, or its copy was
    lost."""


class TracedChild(TypedDict):
    name: str
    outcome: str
    """`forwarded`, `filtered`; `waiting`: it gets no events yet; `unknown`: this is not remembered
    any more."""
    queries: list[str]
    """Some of its interest, if the event was filtered."""


class NodePart(TypedDict):
    """Memory of one node about an event."""

    name: str
    is_root: bool
    level: int
    has_passed: bool
    """True if the node has passed on the event's place in its flow."""
    copies: list[TracedCopy]
    parents: list[TracedParent]
    children: list[TracedChild]


class ITracingTransport(Interface):
    def trace(flow: str, mark: Mark) -> NodePart | None:
        """Return this node's part of the paths of an event; None for an unknown flow."""
