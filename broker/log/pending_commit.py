"""What waits for the next commit of the log, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.commit import Commit
from broker.log.logged_event import LoggedEvent

#: Told the events once they are durable, or why they are not.
OnCommitted: TypeAlias = Callable[[list[LoggedEvent] | BrokerError], None]


@attrs.frozen
class RelayedEvents:
    """Events that another node has given places, in the order of these.

    They are all that this node wants of `origin` behind `after` and up to `covers`. What the log
    has of this origin ends there, or later; or there is nothing yet.
    """

    origin: str
    after: Mark
    covered_upto: Mark
    entries: list[tuple[Mark, bytes, int, bytes]]
    """(mark, record, rank of the security level, document)."""
    lost_upto: Mark | None = None
    """Of what lies behind `after`, what lies up to here can be had of nobody any more."""


@attrs.define
class PendingCommit:
    """The events and the state that make one commit."""

    commit: Commit = attrs.field(factory=Commit)
    callbacks: list[tuple[OnCommitted, list[LoggedEvent]]] = attrs.field(factory=list)
    state_callbacks: list[Callable[[], object]] = attrs.field(factory=list)
    """Told when the durable subscriptions of this commit are."""
    document_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        commit = self.commit
        state = commit.durables or commit.clients or commit.losses or commit.histories
        return not (commit.events or state or commit.covered or commit.replicas)

    def take_state(self, failed: PendingCommit) -> None:
        """Take over what is no event from a commit that failed."""
        self.commit.durables += failed.commit.durables
        self.commit.clients += failed.commit.clients
        self.commit.histories |= failed.commit.histories
        self.state_callbacks += failed.state_callbacks

    def add_events(
        self, events: list[LoggedEvent], covers: tuple[str, Mark] | None, done: OnCommitted
    ) -> None:
        """Further events, of one origin, which is covered up to a mark by them."""
        self.commit.events += events
        for event in events:
            self.document_bytes += len(event.document)
        if covers is not None:
            self.commit.covered[covers[0]] = covers[1]
        self.callbacks.append((done, events))
