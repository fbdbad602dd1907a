"""The old node's part of a handover (`docs/protocols/recovery.md`, P11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from twisted.logger import Logger

from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.traffic.frame import MAX_HOPS
from broker.errors import BrokerError, NotOwner, SubscriptionHeld
from broker.event.place import Position
from broker.rate_limited_log import RateLimitedLog
from broker.recovery.messages import HandedOver, Release, Released, TakeOver
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.transport.clock import IClock
from broker.wire.claim import ClaimedState
from broker.wire.messages import NO_ERROR

#: Ends the session of a client (ClientId, incarnation, token). Raises `IncarnationRefused` if a
#: later process is here.
SupersedeSession: TypeAlias = Callable[[str, int, bytes], object]


class HandoverResponder:
    log = Logger()

    def __init__(
        self,
        messenger: NodeMessenger,
        durables: DurableSubscriptions,
        supersede: SupersedeSession,
        clock: IClock,
    ) -> None:
        self._messenger = messenger
        self._durables = durables
        self._supersede = supersede
        self.handed_over = 0
        self.refused = 0
        """Requests of other nodes without the client's proof."""
        self._warnings = RateLimitedLog(
            lambda text: self.log.warn("{text}", text=text), clock.seconds
        )
        messenger.add_listener(TakeOver, self._hand_over)
        messenger.add_listener(Release, self._receive_release)

    def _hand_over(self, message: TakeOver) -> None:
        client_id, name = message.client_id, message.name
        durable = self._durables.get(client_id, name)
        if durable is None:
            self._send_answer(message)
            return
        try:
            self._check_owner(message)
        except NotOwner as error:
            self._refuse(message, error)
            return
        if durable.moved_to and durable.moved_to != str(message.source):
            self._send_answer(message, durable.position, durable.moved_to)
            return
        if durable.is_paused:
            held = f"{name!r} is paused at {self._messenger.own_address}: resume it there first"
            self._send_answer(message, error=SubscriptionHeld(held))
            return
        try:
            self._supersede(client_id, message.incarnation, message.token)
        except BrokerError as error:
            self._send_answer(message, error=error)
            return
        # Ending the session may have stored the last acknowledgements.
        durable = self._durables.get(client_id, name)
        assert durable is not None
        position = durable.position

        def stored() -> None:
            self.handed_over += 1
            self._send_answer(message, position)

        self._durables.mark_moved(client_id, name, str(message.source), stored)

    def _check_owner(self, message: TakeOver) -> None:
        """Raise `NotOwner` unless the client itself lets the sender have the subscription."""
        client_id, claim = message.client_id, message.claim
        owner = self._durables.owner_of(client_id)
        owner.check_other_node(
            *(client_id, message.account, claim), requires_key=self._durables.requires_key
        )
        if claim is None or not owner.key:
            return
        process = (client_id, message.incarnation, message.token)
        ClaimedState(*process, message.name, str(message.source)).check(claim)
        if owner.signed and (message.incarnation, claim.number) < owner.signed.order:
            raise NotOwner(f"the proof is older than the last one of {client_id} here")

    def _refuse(self, message: TakeOver, error: NotOwner) -> None:
        self._record_refused(
            str(message.source), f"take over {message.name!r} of {message.client_id}: {error}"
        )
        self._send_answer(message, error=error)

    def _record_refused(self, source: str, action: str) -> None:
        self.refused += 1
        self._warnings.report(source, NotOwner.code, f"{source} may not {action}")

    def _send_answer(
        self,
        message: TakeOver,
        position: Position | None = None,
        moved_to: str = "",
        error: BrokerError | None = None,
    ) -> None:
        own, client_id = self._messenger.own_address, message.client_id
        if own is None:
            return
        self._messenger.send(
            HandedOver(
                *(message.source, own, MAX_HOPS, message.request),
                error=NO_ERROR if error is None else error.to_wire(),
                position=None if position is None else position.to_wire(),
                moved_to=moved_to,
                signed=None if position is None else self._durables.owner_of(client_id).signed,
            )
        )

    def _receive_release(self, message: Release) -> None:
        client_id, source = message.client_id, str(message.source)
        durable = self._durables.get(client_id, message.name)
        if durable is not None and durable.moved_to == source:
            key = self._durables.owner_of(client_id).key
            # Any member could name the sender's address as its own.
            if key and not (message.signed and message.signed.proves(client_id, source, key)):
                self._record_refused(source, f"delete {message.name!r} of {client_id}")
                return
            self._durables.delete(client_id, message.name)
        own = self._messenger.own_address
        if own is not None:
            self._messenger.send(
                Released(message.source, own, MAX_HOPS, message.client_id, message.name)
            )
