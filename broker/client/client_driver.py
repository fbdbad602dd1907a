"""Driver of the client's core: carries out its effects."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from zope.interface import implementer

from broker.client.cleartext_guard import CleartextGuard
from broker.client.connection import FATAL, Connection, make_connection_machine
from broker.client.core import ClientCore
from broker.client.effects import (
    Effect,
    ItemArrived,
    MessagesConsumed,
    PublicationSettled,
    PublishingBlocked,
    RequestAnswered,
    SavePositions,
    Send,
    SessionEnded,
)
from broker.client.loop import Loop, Promise
from broker.client.mesh_feeds import MeshFeeds
from broker.client.outbox import Outbox
from broker.client.position_writer import PositionWriter
from broker.client.settings import ClientSettings
from broker.client.subscription import Subscription
from broker.client.subscription_request import SubscriptionRequest
from broker.client.waiters import Waiters
from broker.errors import BrokerError, Closed
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.message import Peer
from broker.transport.socket import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.view import LinkState, View
from broker.wire.messages import Welcome
from broker.wire.stack import session_layers

#: Takes the content of an answer, or an error.
OnAnswer: TypeAlias = Callable[[object, BrokerError | None], object]


@implementer(IStackReceiver)
class ClientDriver:
    """One client's sessions, one after another."""

    def __init__(self, loop: Loop, endpoints: Sequence[str], settings: ClientSettings) -> None:
        self._loop = loop
        self._settings = settings
        outbox = Outbox(settings.outbox_events, settings.outbox_bytes)
        self._core = ClientCore(outbox, settings.window_bytes, settings.resume_points)
        self._owner_key = settings.make_owner_key()
        self._core.make_claim = self._owner_key.make_claim
        self._cleartext = CleartextGuard(outbox, self._core.requests)
        self._position_writer = (
            None
            if settings.positions is None
            else PositionWriter(settings.positions, loop.run_in_thread)
        )
        self._link = StackDriver(
            session_layers(settings.incarnation, settings.window_bytes, settings.outbox_bytes),
            loop.clock,
            self,
        ).join("node")
        self._backoff = settings.make_backoff()
        self._resumed = False
        self._connection = make_connection_machine(
            Connection(
                loop=loop,
                endpoints=endpoints,
                find_refusal=self._find_refusal,
                make_hello=settings.make_hello,
                credentials=settings.credentials,
                attach=self._attach,
                on_down=self._connection_down,
                on_stopped=self._connection_stopped,
                backoff=self._backoff,
            )
        )
        self._waiters = Waiters(loop, ", ".join(endpoints), lambda: self.last_error)
        self._timer = DeadlineTimer(loop.clock, self._handle_timeout)
        self._close_deadline = DeadlineTimer(loop.clock, self._abandon_closing)
        self._subscriptions: dict[int, Subscription] = {}
        self._answer_calls: dict[int, OnAnswer] = {}
        self._flush_scheduled = False
        self._error: BrokerError | None = None
        self._closed: Promise | None = None
        self._is_stopped = False
        self.last_error: BrokerError | None = None
        """Error of the newest attempt or connection; None while connected."""
        self.welcome: Welcome | None = None
        self.on_state: Callable[[bool, BrokerError | None], None] | None = None
        """Called with True when connected, else with False and the reason."""
        self.trouble: BrokerError | None = None
        """Error while the node takes no publications (its disk is full)."""
        self.on_trouble: Callable[[BrokerError | None], None] | None = None

    # ------------------------------------------------------------------ for subscriptions

    def mark_processed(self, number: int, item: Any) -> None:
        self._apply_effects(self._core.mark_processed(number, item, self._loop.clock.seconds()))

    def discard(self, item: Any) -> None:
        self._apply_effects(self._core.discard(item))

    def end_subscription(self, number: int, forget: bool) -> None:
        self._apply_effects(self._core.unsubscribe(number, forget=forget))

    def position_of(self, number: int) -> Any:
        return self._core.position_of(number)

    def duplicates_of(self, number: int) -> int:
        return self._core.duplicates_of(number)

    # ------------------------------------------------------------------ for meshes

    @property
    def meshes(self) -> MeshFeeds:
        return self._core.meshes

    def apply_effects(self, effects: Sequence[Effect]) -> None:
        self._apply_effects(effects)

    def ask_with(self, what: str, arguments: Mapping[str, str], on_answer: OnAnswer) -> None:
        """Ask the node, also a later one; `on_answer` gets its answer or error, unless the client
        is closed before."""
        request, effects = self._core.ask(what, arguments)
        self._answer_calls[request] = on_answer
        self._apply_effects(effects)

    # ------------------------------------------------------------------ from the stack

    def messages_received(self, peer: Peer, batch: Sequence[bytes]) -> None:
        now = self._loop.clock.seconds()
        for index, data in enumerate(batch):
            try:
                effects = self._core.receive_message(data, now)
            except BrokerError as error:
                # Only a new session, from the subscriptions' positions, repairs this.
                self.last_error = error
                self._link.consumed(len(batch) - index)
                self._apply_effects(self._core.positions.end_session())
                self._link.close()
                return
            self._apply_effects(effects)
        if self._resumed:
            # A new session could repeat the failure of the one before.
            self._backoff.report_progress()
        if self._core.outbox.has_unsent:
            self._flush_soon()

    def view_changed(self, peer: Peer, view: View) -> None:
        if view.state is LinkState.CONNECTED:
            self.last_error = None
            self._backoff.report_up(self._loop.clock.seconds())
            self._resumed = view.resumed
            welcome = self.welcome
            assert welcome is not None
            limits = (welcome.max_event_bytes, welcome.max_frame_bytes)
            node, version = welcome.address, welcome.version
            self._apply_effects(self._core.session_up(view.resumed, node, limits, version))
            self._waiters.settle_session()
            self._flush()
            if self.on_state is not None:
                self.on_state(True, None)
        elif view.state is LinkState.DISCONNECTED:
            self._core.session_down()
            self._cleartext.end_connection()
            if self._closed is not None and self._core.positions.is_finished:
                self._connection.stop()
            elif self._link.failure is not None:
                self._connection.rejected(self._link.failure)
            else:
                self._connection.lost(view.error or self.last_error)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        if writable:
            self._flush()

    # ------------------------------------------------------------------ inside

    def _request_subscription(self, request: SubscriptionRequest) -> tuple[int, list[Effect]]:
        if request.durable and not self._owner_key.is_ready:
            # The login, which takes as long, needs no key yet.
            self._loop.run_in_thread(self._owner_key.prepare)
        return self._core.subscribe(request)

    def _find_refusal(self, channel: ISocketChannel) -> BrokerError | None:
        try:
            self._apply_effects(
                self._cleartext.prepare_connection(confidential=channel.confidential)
            )
        except BrokerError as error:
            return error
        return self._settings.find_refusal(channel)

    def _attach(self, channel: ISocketChannel, welcome: Welcome) -> None:
        self.welcome = welcome
        # A node's message may exceed the limit for ours.
        channel.max_frame = max(welcome.max_frame_bytes, DEFAULT_MAX_FRAME)
        self._link.attach(channel)

    def _flush_soon(self) -> None:
        if not self._flush_scheduled:
            # Events published in one turn of the loop leave as one batch.
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        while not self._is_stopped and self._link.is_writable:
            effects = self._core.flush()
            if not effects:
                break
            self._apply_effects(effects)

    def _apply_effects(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(data):
                    self._link.send([data])
                case PublicationSettled(promise, result):
                    if isinstance(result, BrokerError):
                        promise.fail(result)
                    else:
                        promise.fulfil(result)
                case ItemArrived(number, item):
                    subscription = self._subscriptions.get(number)
                    if subscription is not None:
                        subscription.receive_item(item)
                        if subscription.over:
                            del self._subscriptions[number]
                case RequestAnswered(request, content, error) if request in self._answer_calls:
                    self._answer_calls.pop(request)(content, error)
                case RequestAnswered(request, content, error):
                    self._waiters.settle_answer(request, content, error)
                case MessagesConsumed(count):
                    self._link.consumed(count)
                case SavePositions(durables):
                    if self._position_writer is not None:
                        self._position_writer.write_soon(durables)
                case PublishingBlocked(error):
                    self.trouble = error
                    if self.on_trouble is not None:
                        notify = functools.partial(self.on_trouble, error)
                        self._loop.call_soon(notify)
                case SessionEnded(error):
                    self._end_session(error)
        if self._core.outbox.events == 0:
            self._waiters.settle_drained()
        self._timer.arm(None if self._is_stopped else self._core.next_timeout())

    def _end_session(self, error: BrokerError) -> None:
        self.last_error = error
        if isinstance(error, FATAL):
            self._connection.rejected(error)
        self._link.abort(error)

    def _connection_down(self, error: BrokerError | None) -> None:
        self.last_error = error or self.last_error
        self._cleartext.end_connection()
        if self.on_state is not None:
            self.on_state(False, self.last_error)

    def _abandon_closing(self) -> None:
        self._core.positions.abandon_closing()
        self._end_connection()

    def _end_connection(self) -> None:
        if self._link.is_attached:
            # It ends within a limited time, when the last bytes have left.
            self._link.close()
        else:
            self._connection.stop()

    def _fulfilled(self, value: Any) -> Awaitable[Any]:
        promise = self._loop.make_promise()
        promise.fulfil(value)
        return promise.awaitable

    def _failed(self, error: BrokerError) -> Awaitable[Any]:
        promise = self._loop.make_promise()
        promise.fail(error)
        return promise.awaitable

    def _handle_timeout(self) -> None:
        self._apply_effects(self._core.handle_timeout(self._loop.clock.seconds()))
        self._flush()

    def _connection_stopped(self, error: BrokerError | None) -> None:
        self._is_stopped = True
        self._error = error
        self._core.session_down()
        reason = error or Closed("the client is closed")
        self._waiters.fail_all(reason)
        for promise in self._core.outbox.fail_all():
            promise.fail(reason)
        for subscription in list(self._subscriptions.values()):
            subscription.mark_ended(error)
        self._subscriptions.clear()
        self._answer_calls.clear()
        self._timer.arm(None)
        self._close_deadline.arm(None)
        if self._closed is not None:
            self._closed.fulfil(self._core.positions.is_confirmed)
        elif error is not None and self.on_state is not None:
            self.on_state(False, error)
