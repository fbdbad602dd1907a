"""The contents of the next commit, and the callbacks for its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.commit import Commit
from broker.log.logged_event import LoggedEvent

#: Called with the durable events, or the error.
OnCommitted: TypeAlias = Callable[[list[LoggedEvent] | BrokerError], None]


@attrs.frozen
class RelayedEvents:
    """Events with places of another node, in their order.

    They are all events of `origin` in (after, covered_upto] that this node needs. The log's
    coverage of it ends at `after` or later, or it has none.
    """

    origin: str
    after: Mark
    covered_upto: Mark
    entries: list[tuple[Mark, bytes, int, bytes]]
    """(mark, record, rank of the security level, document)."""
    lost_upto: Mark | None = None
    """Events after `after` and up to this mark can not be recovered."""


@attrs.define
class PendingCommit:
    commit: Commit = attrs.field(factory=Commit)
    callbacks: list[tuple[OnCommitted, list[LoggedEvent]]] = attrs.field(factory=list)
    state_callbacks: list[Callable[[], object]] = attrs.field(factory=list)
    """Called when the durable subscriptions of this commit are stored."""
    document_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        commit = self.commit
        state = commit.durables or commit.clients or commit.losses or commit.moved
        named = commit.histories or commit.flows or commit.statements
        return not (commit.events or state or named or commit.covered or commit.replicas)

    def take_state(self, failed: PendingCommit) -> None:
        """Keep everything but the events of a failed commit."""
        self.commit.durables += failed.commit.durables
        self.commit.clients += failed.commit.clients
        self.commit.histories |= failed.commit.histories
        self.commit.flows |= failed.commit.flows
        self.commit.statements |= failed.commit.statements
        self.commit.moved |= failed.commit.moved
        self.state_callbacks += failed.state_callbacks

    def add_events(
        self, events: list[LoggedEvent], covers: tuple[str, Mark] | None, done: OnCommitted
    ) -> None:
        """Append events, which cover their origin up to a mark."""
        self.commit.events += events
        for event in events:
            self.document_bytes += len(event.document)
        if covers is not None:
            self.commit.covered[covers[0]] = covers[1]
        self.callbacks.append((done, events))
