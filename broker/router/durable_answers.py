"""Answers questions about durable subscriptions, and changes them on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred

from broker.identity import Identity
from broker.router.durables import Durables
from broker.session.messages import Ask
from broker.store.event_log import EventLog


class DurableAnswers:
    """Of one node."""

    def __init__(self, durables: Durables, log: EventLog) -> None:
        self._durables = durables
        self._log = log

    def by_name(self) -> Mapping[str, Any]:
        """Who answers which question."""
        return {"durable-positions": self.positions}

    def positions(self, identity: Identity, _: Ask) -> Deferred[dict[str, Any]]:
        """The position of each durable subscription of the client, when all are committed.

        While the log can not be written there is no answer.
        """
        stored = {
            name: durable.position.to_wire()
            for name, durable in self._durables.of(identity.client_id).items()
            if not durable.moved_to
        }
        return self._log.state_committed().addCallback(lambda _: stored)
