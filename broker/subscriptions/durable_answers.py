"""Answers questions about durable subscriptions, and changes them (`xmlbroker durable`).

A client sees and changes the subscriptions of its account; an administrator those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import attrs
import msgpack
from twisted.internet.defer import Deferred

from broker.delivery.lag import UNKNOWN, Lags
from broker.errors import BadName, BadPosition, NotAllowed, SubscriptionHeld, UnknownSubscription
from broker.event.place import Mark, Position
from broker.identity import Identity
from broker.ingest.outcomes import hide_denied
from broker.log.event_log import EventLog
from broker.sessions.session import Session
from broker.subscriptions.beginning import check_position
from broker.subscriptions.durables import Durable, Durables
from broker.tracing.event_fate import Others
from broker.wire import fields
from broker.wire.messages import Ask

#: Rows of one answer; those left out are counted.
MOST_ROWS: Final = 1000

#: The kind of question by which other nodes delete a subscription.
DELETE: Final = "durable-delete"
_NOWHERE: Mark = (0, 0)
_HAD: Final = b"had"


class OtherNodes(Others, Protocol):
    """All other nodes of the network: see `broker.cluster.network_question.NetworkQuestions`."""

    def register_answerer(self, what: str, answerer: Callable[[bytes], Any]) -> None:
        """Answer questions of this kind, for other nodes."""


class DurableAnswers:
    """Of one node."""

    def __init__(
        self,
        *,
        durables: Durables,
        log: EventLog,
        sessions: Callable[[], Iterable[Session]],
        others: OtherNodes | None,
    ) -> None:
        """`others` are those of the network."""
        self._durables = durables
        self._log = log
        self._sessions = sessions
        self._others = others
        if others is not None:
            others.register_answerer(
                DELETE, lambda asked: Deferred.fromCoroutine(self._deleted(asked))
            )

    def by_name(self) -> Mapping[str, Any]:
        """Who answers which question."""
        return {
            "durable-positions": self.positions,
            "durable-list": self.list_all,
            "durable-show": self.show,
            "durable-pause": lambda identity, ask: self._pause(identity, ask, True),
            "durable-resume": lambda identity, ask: self._pause(identity, ask, False),
            "durable-reset": self.reset,
            "durable-delete": lambda *asked: Deferred.fromCoroutine(self._delete(*asked)),
        }

    def positions(self, identity: Identity, _: Ask) -> Deferred[dict[str, Any]]:
        """The position of each durable subscription of the client, when all are committed.

        While the log can not be written there is no answer.
        """
        stored = {
            name: durable.position.to_wire()
            for name, durable in self._durables.of(identity.client_id).items()
            if not durable.moved_to
        }
        return self._log.when_state_committed().addCallback(lambda _: stored)

    # ------------------------------------------------------------------ looking

    def list_all(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        """All that the client may see, or those of one `client`."""
        client = ask.arguments.get("client", "")
        if client:
            _check_may(identity, client)
        lags = self._durables.lags()
        found = [
            each
            for each in self._durables.all()
            if (
                each[0] == client
                if client
                else identity.administer or identity.owns_client_id(each[0])
            )
        ]
        found.sort(key=lambda each: each[:2])
        return {
            "subscriptions": [self._row(*each, lags) for each in found[:MOST_ROWS]],
            "left_out": max(0, len(found) - MOST_ROWS),
        }

    def show(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        """One subscription, with what became of its events where a session has it."""
        client, name, durable = self._asked(identity, ask)
        row = self._row(client, name, durable, self._durables.lags())
        found = self._in_session(client, name)
        if found is None:
            return {**row, "session": None}
        session, number = found
        session.link.settle()
        feed = session.link.get(number)
        assert feed is not None
        told: dict[str, Any] = {
            "pace": feed.pace.value,
            "peer": session.peer,
            "state": session.state.value,
        }
        told |= attrs.asdict(feed.outcomes)
        if not identity.administer:
            hide_denied(told)
        return {**row, "session": told}

    def _row(self, client: str, name: str, durable: Durable, lags: Lags) -> dict[str, Any]:
        return {
            "client": client,
            "name": name,
            "state": self._durables.state(client, name),
            "paused": durable.paused,
            "pattern": durable.pattern,
            "query": durable.query,
            "namespaces": dict(durable.namespaces),
            "position": str(durable.position),
            "used_ms": durable.used,
            "moved_to": durable.moved_to,
            "former": durable.former,
            **_lag(durable, lags),
        }

    # ------------------------------------------------------------------ changing

    def _pause(self, identity: Identity, ask: Ask, paused: bool) -> Deferred[dict[str, Any]]:
        client, name, _ = self._asked(identity, ask, here=True)
        self._durables.pause(client, name, paused)
        found = self._in_session(client, name)
        if found is not None:
            session, number = found
            session.link.pause(number, paused)
        return self._changed(client, name)

    def reset(self, identity: Identity, ask: Ask) -> Deferred[dict[str, Any]]:
        """Move the position `to` the log's `start`, its `end`, a time in ms, or a position.

        The answer tells how many places are skipped, and how many come again.
        """
        client, name, durable = self._asked(identity, ask, here=True)
        if self._durables.in_use(client, name):
            raise SubscriptionHeld(f"{name!r} is in use: close its client first")
        before, position = durable.position.marks, self._target(ask.arguments.get("to", ""))
        lags = self._durables.lags()
        again, skipped = _moved(position, before), _moved(before, position)
        self._durables.reset(client, name, Position(position))
        told = {
            "from": str(durable.position),
            "to": str(Position(position)),
            "skipped": skipped,
            "again": again,
            "lag_before": _lag(durable, lags),
        }
        return self._changed(client, name).addCallback(lambda row: {**row, "reset": told})

    def _target(self, to: str) -> Mapping[str, Mark]:
        log = self._log
        if to == "start":
            # What retention has taken is passed over, and not recovered.
            return {origin: log.begins_after.get(origin, _NOWHERE) for origin in log.coverage}
        if to == "end":
            return log.coverage.marks
        if to.isdigit() and len(to) <= 15:
            before = log.position_before(log.first_at(int(to)))
            return {o: before.get(o, log.begins_after.get(o, _NOWHERE)) for o in log.coverage}
        try:
            position = Position.parse(to)
        except (ValueError, TypeError):
            raise BadPosition(f"{to[:80]!r} is none of start, end, a time, a position") from None
        check_position(log, position)
        if position.marks.get(log.origin, _NOWHERE)[1] > log.own_end[1]:
            # Of an earlier epoch: no event has that place, or it was lost with its branch.
            raise BadPosition(f"{log.origin} has got to offset {log.own_end[1]}, not to {position}")
        return position.marks

    async def _delete(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        client, name = self._named(identity, ask)
        durable = self._durables.get(client, name)
        if durable is not None:
            self.forget(client, name)
            await self._log.when_state_committed()
        elsewhere, silent = await self._delete_elsewhere(client, name)
        if durable is None and not elsewhere and not silent:
            known = f"a durable subscription {name[:80]!r} of {client!r}"
            raise UnknownSubscription(f"no node that can be reached knows {known}")
        return {
            "client": client,
            "name": name,
            "here": durable is not None,
            "elsewhere": elsewhere,
            "silent": silent,
        }

    async def _delete_elsewhere(self, client: str, name: str) -> tuple[list[str], list[str]]:
        """The addresses of other nodes that had it, and of those that did not answer."""
        if self._others is None:
            return [], []
        found = await self._others.ask_all_nodes(DELETE, msgpack.packb([client, name]))
        had = [node for node, answer in found.answers.items() if answer == _HAD]
        return sorted(had), sorted(found.silent)

    async def _deleted(self, asked: bytes) -> tuple[bytes, int] | None:
        """Delete it here, as another node asks."""
        try:
            client, name = map(fields.text, msgpack.unpackb(asked))
        except (ValueError, TypeError, msgpack.UnpackException):
            return None
        had = self.forget(client, name)
        await self._log.when_state_committed()
        return (_HAD if had else b"", 0)

    def forget(self, client: str, name: str) -> bool:
        """End a subscription at this node; a session that has it is told. Whether there was one."""
        if self._durables.get(client, name) is None:
            return False
        found = self._in_session(client, name)
        if found is not None:
            session, number = found
            session.cancel(number, UnknownSubscription(f"{name!r} was deleted"))
        self._durables.forget(client, name)
        return True

    def _changed(self, client: str, name: str) -> Deferred[dict[str, Any]]:
        durable = self._durables.get(client, name)
        assert durable is not None
        row = self._row(client, name, durable, self._durables.lags())
        return self._log.when_state_committed().addCallback(lambda _: row)

    # ------------------------------------------------------------------ inside

    def _named(self, identity: Identity, ask: Ask) -> tuple[str, str]:
        client = ask.arguments.get("client", "") or identity.client_id
        name = ask.arguments.get("name", "")
        if not name:
            raise BadName("the name of a durable subscription is missing")
        _check_may(identity, client)
        return client, name

    def _asked(
        self, identity: Identity, ask: Ask, *, here: bool = False
    ) -> tuple[str, str, Durable]:
        client, name = self._named(identity, ask)
        durable = self._durables.get(client, name)
        if durable is None:
            raise UnknownSubscription(
                f"this node knows no durable subscription {name[:80]!r} of client {client!r}"
            )
        if here and durable.moved_to:
            raise SubscriptionHeld(f"{name!r} has moved to {durable.moved_to}: ask that node")
        return client, name, durable

    def _in_session(self, client: str, name: str) -> tuple[Session, int] | None:
        for session in self._sessions():
            if session.identity.client_id == client:
                number = session.durable_number(name)
                if number is not None and session.link.get(number) is not None:
                    return session, number
        return None


def _lag(durable: Durable, lags: Lags) -> Mapping[str, Any]:
    if durable.moved_to:
        return UNKNOWN
    return attrs.asdict(lags.of(durable.position.marks, durable.complete))


def _check_may(identity: Identity, client: str) -> None:
    if not (identity.administer or identity.owns_client_id(client)):
        raise NotAllowed(
            f"account {identity.account!r} may not see or change what client {client!r} has"
        )


def _moved(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> int:
    """Places from `one` forward to `other`, over all origins."""
    return sum(max(0, mark[1] - one.get(o, _NOWHERE)[1]) for o, mark in other.items())
