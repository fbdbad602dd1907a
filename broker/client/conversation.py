"""What a client does between its users and its connections: it carries the core's effects out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from zope.interface import implementer

from broker.client.connection import FATAL, Connection, connecting
from broker.client.core import ClientCore
from broker.client.effects import (
    Answered,
    Arrived,
    Consumed,
    Effect,
    HeldUp,
    Keep,
    Send,
    SessionOver,
    Settled,
)
from broker.client.keeping import Keeping
from broker.client.loop import Loop, Promise
from broker.client.outbox import Outbox
from broker.client.settings import ClientSettings
from broker.client.subscription import Subscription
from broker.client.waiting import Waiting
from broker.errors import BrokerError, Closed
from broker.transport.alarm import Alarm
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.view import LinkState, View
from broker.wire.messages import Welcome
from broker.wire.stack import session_layers


@implementer(IStackReceiver)
class Conversation:
    """One client's part of all its sessions, one after another. `Client` is what users see."""

    def __init__(self, loop: Loop, endpoints: Sequence[str], settings: ClientSettings) -> None:
        self._loop = loop
        self._settings = settings
        outbox = Outbox(settings.outbox_events, settings.outbox_bytes)
        self._core = ClientCore(outbox, settings.window_bytes, settings.left)
        self._keeping = (
            None if settings.positions is None else Keeping(settings.positions, loop.aside)
        )
        self._driver = StackDriver(
            session_layers(settings.incarnation, settings.window_bytes, settings.outbox_bytes),
            loop.clock,
            self,
        )
        self._backoff = settings.backoff()
        self._resumed = False
        self._connection = connecting(
            Connection(
                loop=loop,
                endpoints=endpoints,
                hello=settings.hello,
                attach=self._attach,
                down=self._down,
                stopped=self._stopped,
                backoff=self._backoff,
            )
        )
        self._waiting = Waiting(loop, ", ".join(endpoints), lambda: self.last_error)
        self._alarm = Alarm(loop.clock, self._timeout)
        self._farewell = Alarm(loop.clock, self._give_up)
        self._subscriptions: dict[int, Subscription] = {}
        self._flushing = False
        self._error: BrokerError | None = None
        self._closed: Promise | None = None
        self._over = False
        self.last_error: BrokerError | None = None
        """Why the newest attempt or connection failed; None while all is well."""
        self.welcome: Welcome | None = None
        """What the node said of itself at the newest greeting."""
        self.on_state: Callable[[bool, BrokerError | None], None] | None = None
        """Told True when connected, False with the reason when not."""
        self.trouble: BrokerError | None = None
        """Why the node takes no publications for now (its disk is full); None while it does.
        They wait in the outbox and are sent again by themselves."""
        self.on_trouble: Callable[[BrokerError | None], None] | None = None
        """Told when `trouble` comes, and None when it is over."""

    # ------------------------------------------------------------------ for subscriptions

    def taken(self, number: int, item: Any) -> None:
        """A subscription's user has processed something."""
        self._apply(self._core.taken(number, item, self._loop.clock.seconds()))

    def discarded(self, item: Any) -> None:
        """A subscription's user will not look at something that arrived."""
        self._apply(self._core.discarded(item))

    def unsubscribe(self, number: int, forget: bool) -> None:
        """A subscription's user wants no more."""
        self._apply(self._core.unsubscribe(number, forget=forget))

    def position_of(self, number: int) -> Any:
        """How far a subscription was processed."""
        return self._core.position(number)

    def duplicates_of(self, number: int) -> int:
        """How many events came again for a subscription, and were dropped."""
        return self._core.duplicates_of(number)

    # ------------------------------------------------------------------ from the stack

    def messages_received(self, batch: Sequence[bytes]) -> None:
        """Messages of the node, in order."""
        now = self._loop.clock.seconds()
        for index, data in enumerate(batch):
            try:
                effects = self._core.message_received(data, now)
            except BrokerError as error:
                # What the stack has delivered it will not deliver again: only a new session, which
                # begins where this one has got to, can mend that.
                self.last_error = error
                self._driver.consumed(len(batch) - index)
                self._apply(self._core.positions.goodbye())
                self._driver.close()
                return
            self._apply(effects)
        if self._resumed:
            # A link that breaks often may still carry a session on. A session that begins anew
            # could repeat what ended the one before.
            self._backoff.progressed()
        if self._core.outbox.unsent:
            self._flush_soon()

    def view_changed(self, view: View) -> None:
        """The connection came or went."""
        if view.state is LinkState.CONNECTED:
            self.last_error = None
            self._backoff.up(self._loop.clock.seconds())
            self._resumed = view.resumed
            welcome = self.welcome
            assert welcome is not None
            limits = (welcome.max_event_bytes, welcome.max_frame_bytes)
            node, version = welcome.address, welcome.version
            self._apply(self._core.session_up(view.resumed, node, limits, version))
            self._waiting.session_up()
            self._flush()
            if self.on_state is not None:
                self.on_state(True, None)
        elif view.state is LinkState.DISCONNECTED:
            self._core.session_down()
            if self._closed is not None and self._core.positions.finished:
                self._connection.stop()
            elif self._driver.failure is not None:
                self._connection.forbidden(self._driver.failure)
            else:
                self._connection.lost(view.error or self.last_error)

    def writable_changed(self, writable: bool) -> None:
        """The session takes more, or no more for now."""
        if writable:
            self._flush()

    # ------------------------------------------------------------------ inside

    def _attach(self, channel: ISocketChannel, welcome: Welcome) -> None:
        self.welcome = welcome
        # What a node sends may be longer than what it takes: an answer to many events.
        channel.max_frame = max(welcome.max_frame_bytes, DEFAULT_MAX_FRAME)
        self._driver.attach(channel)

    def _flush_soon(self) -> None:
        if not self._flushing:
            # Whatever is published in this turn goes out as one batch.
            self._flushing = True
            self._loop.soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while not self._over and self._driver.writable:
            effects = self._core.flush()
            if not effects:
                break
            self._apply(effects)

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(data):
                    self._driver.send([data])
                case Settled(promise, result):
                    if isinstance(result, BrokerError):
                        promise.fail(result)
                    else:
                        promise.fulfil(result)
                case Arrived(number, item):
                    subscription = self._subscriptions.get(number)
                    if subscription is not None:
                        subscription.arrived(item)
                        if subscription.over:
                            del self._subscriptions[number]
                case Answered(request, content, error):
                    self._waiting.answered(request, content, error)
                case Consumed(count):
                    self._driver.consumed(count)
                case Keep(durables):
                    if self._keeping is not None:
                        self._keeping.keep(durables)
                case HeldUp(error):
                    self.trouble = error
                    if self.on_trouble is not None:
                        told = functools.partial(self.on_trouble, error)
                        self._loop.soon(told)
                case SessionOver(error):
                    self._session_over(error)
        if self._core.outbox.events == 0:
            self._waiting.drained()
        self._alarm.set(None if self._over else self._core.next_timeout())

    def _session_over(self, error: BrokerError) -> None:
        self.last_error = error
        if isinstance(error, FATAL):
            self._connection.forbidden(error)
        self._driver.abort(error)

    def _down(self, error: BrokerError | None) -> None:
        self.last_error = error or self.last_error
        if self.on_state is not None:
            self.on_state(False, self.last_error)

    def _give_up(self) -> None:
        """The time to close in good order is over."""
        self._core.positions.give_up()
        self._end_connection()

    def _end_connection(self) -> None:
        if self._driver.attached:
            # Over when the last bytes have left, which takes the driver limited time.
            self._driver.close()
        else:
            self._connection.stop()

    def _timeout(self) -> None:
        self._apply(self._core.handle_timeout(self._loop.clock.seconds()))
        self._flush()

    def _stopped(self, error: BrokerError | None) -> None:
        """The end, wanted or not: whoever still waits for something is told."""
        self._over = True
        self._error = error
        self._core.session_down()
        reason = error or Closed("the client is closed")
        self._waiting.fail(reason)
        for promise in self._core.outbox.fail_all():
            promise.fail(reason)
        for subscription in list(self._subscriptions.values()):
            subscription.closed(error)
        self._subscriptions.clear()
        self._alarm.set(None)
        self._farewell.set(None)
        if self._closed is not None:
            self._closed.fulfil(self._core.positions.is_settled)
        elif error is not None and self.on_state is not None:
            self.on_state(False, error)
