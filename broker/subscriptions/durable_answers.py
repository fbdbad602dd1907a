"""Questions about durable subscriptions, and their changes (`xmlbroker durable`).

A client reads and changes the subscriptions of its account, an administrator those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from broker.delivery.lag import UNKNOWN_LAG, LagSnapshot
from broker.errors import (
    BadName,
    BadPosition,
    NotAllowed,
    ProtocolError,
    SubscriptionHeld,
    UnknownSubscription,
)
from broker.event.place import Mark, Position
from broker.identity import Identity
from broker.ingest.outcomes import drop_operators_figures
from broker.log.event_log import EventLog
from broker.sessions.session import Session
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions
from broker.subscriptions.start_position import check_position
from broker.tracing.event_fate import OtherNodes
from broker.wire.codec import Schema, pack
from broker.wire.messages import Ask

#: In one answer; further ones are counted.
MAX_ROWS: Final = 1000

DELETE_QUESTION: Final = "durable-delete"
_DELETION: Final = Schema[tuple[str, str]](tuple[str, str], "deletion of a subscription")
_BEFORE_ALL: Mark = (0, 0)
_DELETED: Final = b"had"
_KEPT: Final = b"kept"


class AnsweringNodes(OtherNodes, Protocol):
    """`broker.cluster.network_question.NetworkQuestions`."""

    def register_answerer(self, what: str, answerer: Callable[[bytes], Any]) -> None:
        """Register the answerer of a kind of question."""


class DurableAnswers:
    """Answers of one node."""

    def __init__(
        self,
        *,
        durables: DurableSubscriptions,
        log: EventLog,
        sessions: Callable[[], Iterable[Session]],
        others: AnsweringNodes | None,
    ) -> None:
        self._durables = durables
        self._log = log
        self._sessions = sessions
        self._others = others
        if others is not None:
            others.register_answerer(
                DELETE_QUESTION, lambda asked: Deferred.fromCoroutine(self._delete_for_node(asked))
            )

    def answerers(self) -> Mapping[str, Any]:
        return {
            "durable-positions": self.answer_positions,
            "durable-list": self.answer_list,
            "durable-show": self.answer_show,
            "durable-pause": lambda identity, ask: self._answer_pause(identity, ask, True),
            "durable-resume": lambda identity, ask: self._answer_pause(identity, ask, False),
            "durable-reset": self.answer_reset,
            "durable-delete": lambda *asked: Deferred.fromCoroutine(self._answer_delete(*asked)),
        }

    def answer_positions(self, identity: Identity, _: Ask) -> Deferred[dict[str, Any]]:
        """Answer after the positions are committed."""
        stored = {
            name: durable.position.to_wire()
            for name, durable in self._durables.of_client(identity.client_id).items()
            if not durable.moved_to
        }
        return self._log.when_state_committed().addCallback(lambda _: stored)

    # ------------------------------------------------------------------ looking

    def answer_list(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        """List subscriptions of all clients that may be seen, or of one `client`."""
        client = ask.arguments.get("client", "")
        if client:
            self._check_access(identity, client)
        clients = [client] if client else self._find_accessible(identity)
        lags = self._durables.lag_snapshot()
        rows: list[dict[str, Any]] = []
        left_out = 0
        for each in clients:
            room = MAX_ROWS - len(rows)
            found = sorted(self._durables.of_client(each).items()) if room else ()
            rows += [self._build_row(identity, each, *one, lags) for one in found[:room]]
            left_out += max(0, self._durables.count_of_client(each) - room)
        return {"subscriptions": rows, "left_out": left_out}

    def _find_accessible(self, identity: Identity) -> list[str]:
        return sorted(each for each in self._durables.clients() if self._may_access(identity, each))

    def answer_show(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        """Return a subscription, with outcomes if a session uses it."""
        client, name, durable = self._find_durable(identity, ask)
        row = self._build_row(identity, client, name, durable, self._durables.lag_snapshot())
        found = self._find_session(client, name)
        if found is None:
            return {**row, "session": None}
        session, number = found
        session.delivery.update_outcomes()
        feed = session.delivery.find_feed(number)
        assert feed is not None
        result: dict[str, Any] = {
            "pace": feed.state.value,
            "peer": session.peer,
            "state": session.state.value,
        }
        result |= attrs.asdict(feed.outcomes)
        if not identity.administer:
            drop_operators_figures(result)
        return {**row, "session": result}

    def _build_row(
        self,
        identity: Identity,
        client: str,
        name: str,
        durable: DurableSubscription,
        lags: LagSnapshot,
    ) -> dict[str, Any]:
        return {
            "client": client,
            "name": name,
            "state": self._durables.state(client, name),
            "paused": durable.is_paused,
            "pattern": durable.pattern,
            "query": durable.query,
            "namespaces": dict(durable.namespaces),
            "position": str(durable.position),
            "used_ms": durable.used_ms,
            "moved_to": durable.moved_to,
            "former": durable.previous_address,
            **_lag_row(identity, durable, lags),
        }

    # ------------------------------------------------------------------ changing

    def _answer_pause(self, identity: Identity, ask: Ask, paused: bool) -> Deferred[dict[str, Any]]:
        client, name, _ = self._find_durable(identity, ask, here=True)
        self._durables.set_paused(client, name, paused)
        found = self._find_session(client, name)
        if found is not None:
            session, number = found
            session.delivery.set_paused(number, paused)
        return self._answer_changed(identity, client, name)

    def answer_reset(self, identity: Identity, ask: Ask) -> Deferred[dict[str, Any]]:
        """Move the position `to` the log's `start`, its `end`, a time in ms, or a position.

        The answer has the numbers of skipped and repeated places.
        """
        client, name, durable = self._find_durable(identity, ask, here=True)
        if self._durables.is_in_use(client, name):
            raise SubscriptionHeld(f"{name!r} is in use: close its client first")
        before, position = durable.position.marks, self._parse_target(ask.arguments.get("to", ""))
        lags = self._durables.lag_snapshot()
        again, skipped = _count_places(position, before), _count_places(before, position)
        self._durables.reset_position(client, name, Position(position))
        result = {
            "from": str(durable.position),
            "to": str(Position(position)),
            "skipped": skipped,
            "again": again,
            "lag_before": _lag_row(identity, durable, lags),
        }
        return self._answer_changed(identity, client, name).addCallback(
            lambda row: {**row, "reset": result}
        )

    def _parse_target(self, to: str) -> Mapping[str, Mark]:
        log = self._log
        if to == "start":
            # Trimmed places are skipped, and not recovered.
            return {origin: log.begins_after.get(origin, _BEFORE_ALL) for origin in log.coverage}
        if to == "end":
            return log.coverage.marks
        if to.isdigit() and len(to) <= 15:
            before = log.position_before(log.first_at(int(to)))
            return {o: before.get(o, log.begins_after.get(o, _BEFORE_ALL)) for o in log.coverage}
        try:
            position = Position.parse(to)
        except (ValueError, TypeError):
            raise BadPosition(f"{to[:80]!r} is none of start, end, a time, a position") from None
        check_position(log, position)
        own = [mark[1] for flow, mark in position.marks.items() if log.flows.is_own(flow)]
        if max(own, default=0) > log.own_end[1]:
            # Of an earlier epoch: no event has this place, or it was lost with its branch.
            raise BadPosition(f"{log.origin} ends at offset {log.own_end[1]}, before {position}")
        return log.flows.complete_marks(position.marks)

    async def _answer_delete(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        client, name = self._parse_name(identity, ask)
        durable = self._durables.get(client, name)
        if durable is not None:
            self.delete_here(client, name)
            await self._log.when_state_committed()
        elsewhere, kept, silent = await self._delete_elsewhere(client, name)
        if durable is None and not elsewhere and not silent:
            if kept:
                raise SubscriptionHeld(f"{name!r} is at {', '.join(kept)}: delete it there")
            missing = f"a durable subscription {name[:80]!r} of {client!r}"
            raise UnknownSubscription(f"no reachable node has {missing}")
        return {
            "client": client,
            "name": name,
            "here": durable is not None,
            "elsewhere": elsewhere,
            "kept": kept,
            "silent": silent,
        }

    async def _delete_elsewhere(
        self, client: str, name: str
    ) -> tuple[list[str], list[str], list[str]]:
        """Return the nodes that deleted it, those that keep it, and those that did not answer."""
        if self._others is None:
            return [], [], []
        found = await self._others.ask_all_nodes(DELETE_QUESTION, pack((client, name)))
        had, kept = (
            sorted(node for node, answer in found.answers.items() if answer == each)
            for each in (_DELETED, _KEPT)
        )
        return had, kept, sorted(found.silent)

    async def _delete_for_node(self, asked: bytes) -> tuple[bytes, int] | None:
        try:
            client, name = _DELETION.decode(asked)
        except ProtocolError:
            return None
        durable = self._durables.get(client, name)
        if durable and not durable.moved_to and self._durables.owner_of(client).key:
            # Any member can ask, without the client's proof.
            return _KEPT, 0
        had = self.delete_here(client, name)
        await self._log.when_state_committed()
        return (_DELETED if had else b"", 0)

    def delete_here(self, client: str, name: str) -> bool:
        """Return whether the subscription existed."""
        if self._durables.get(client, name) is None:
            return False
        found = self._find_session(client, name)
        if found is not None:
            session, number = found
            session.end_subscription(number, UnknownSubscription(f"{name!r} was deleted"))
        self._durables.delete(client, name)
        return True

    def _answer_changed(
        self, identity: Identity, client: str, name: str
    ) -> Deferred[dict[str, Any]]:
        durable = self._durables.get(client, name)
        assert durable is not None
        row = self._build_row(identity, client, name, durable, self._durables.lag_snapshot())
        return self._log.when_state_committed().addCallback(lambda _: row)

    # ------------------------------------------------------------------ inside

    def _parse_name(self, identity: Identity, ask: Ask) -> tuple[str, str]:
        client = ask.arguments.get("client", "") or identity.client_id
        name = ask.arguments.get("name", "")
        if not name:
            raise BadName("the name of a durable subscription is missing")
        self._check_access(identity, client)
        return client, name

    def _may_access(self, identity: Identity, client: str) -> bool:
        if identity.administer:
            return True
        owner, account = self._durables.owner_of(client), self._durables.account_of(identity)
        # That most clients belong to other accounts is found fast.
        return owner.has_account(account) and identity.owns_client_id(client)

    def _check_access(self, identity: Identity, client: str) -> None:
        if not self._may_access(identity, client):
            raise NotAllowed(
                f"account {identity.account!r} may not see or change subscriptions of {client!r}"
            )

    def _find_durable(
        self, identity: Identity, ask: Ask, *, here: bool = False
    ) -> tuple[str, str, DurableSubscription]:
        client, name = self._parse_name(identity, ask)
        durable = self._durables.get(client, name)
        if durable is None:
            raise UnknownSubscription(
                f"this node has no durable subscription {name[:80]!r} of client {client!r}"
            )
        if here and durable.moved_to:
            raise SubscriptionHeld(f"{name!r} has moved to {durable.moved_to}: ask that node")
        return client, name, durable

    def _find_session(self, client: str, name: str) -> tuple[Session, int] | None:
        for session in self._sessions():
            if session.identity.client_id == client:
                number = session.find_durable_number(name)
                if number is not None and session.delivery.find_feed(number) is not None:
                    return session, number
        return None


def _lag_row(
    identity: Identity, durable: DurableSubscription, lags: LagSnapshot
) -> Mapping[str, Any]:
    if durable.moved_to:
        return UNKNOWN_LAG
    position, complete = durable.position.marks, durable.complete_after
    if identity.administer:
        return attrs.asdict(lags.compute_lag(position, complete))
    # The events of the log depend on queries and contents, the places do not.
    before, events = lags.count_places(position, complete)
    return {**UNKNOWN_LAG, "events": events, "before_log": before}


def _count_places(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> int:
    return sum(max(0, mark[1] - one.get(o, _BEFORE_ALL)[1]) for o, mark in other.items())
