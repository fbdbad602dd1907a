"""The client as its users see it, the same under every loop.

    async with connect("tcp:127.0.0.1:8765") as client:
        subscription = await client.subscribe("/flight[flightleg/altitude > 300]")
        async for event in subscription:
            print(event.stream, event.payload)

Methods that can fail raise the typed errors of `broker.errors`. Results of awaiting are tied to
connections as little as possible: what is published while there is none waits in the outbox, and a
subscription goes on after a broken connection without gap or duplicate.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from broker.channel.alarm import Alarm
from broker.channel.driver import IStackReceiver, StackDriver
from broker.channel.socket import ISocketChannel
from broker.channel.view import LinkState, View
from broker.client.connection import FATAL, Connection, connecting
from broker.client.core import ClientCore
from broker.client.effects import (
    Answered,
    Arrived,
    Consumed,
    Effect,
    HeldUp,
    Send,
    SessionOver,
    Settled,
)
from broker.client.loop import Loop, Promise
from broker.client.merged import Merging, subscription_as
from broker.client.outbox import Outbox
from broker.client.received import NEW, Receipt, Start
from broker.client.settings import ClientSettings
from broker.client.subscription import Subscription
from broker.client.waiting import Waiting
from broker.errors import BrokerError, Closed, TooLarge
from broker.event.envelope import EventLinkage, EventType
from broker.event.identity import EventId, Mint
from broker.event.writing import payload_element, write_event
from broker.session.messages import Welcome
from broker.session.stack import session_layers


@implementer(IStackReceiver)
class Client:
    """One client: one ClientId, one incarnation, any number of connections one after another."""

    def __init__(self, loop: Loop, endpoints: Sequence[str], settings: ClientSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._mint = Mint(settings.client_id, settings.incarnation)
        outbox = Outbox(settings.outbox_events, settings.outbox_bytes)
        self._core = ClientCore(outbox, settings.window_bytes)
        self._driver = StackDriver(
            session_layers(settings.incarnation, settings.window_bytes, settings.outbox_bytes),
            loop.clock,
            self,
        )
        self._connection = connecting(
            Connection(
                loop=loop,
                endpoints=endpoints,
                hello=settings.hello,
                attach=self._attach,
                down=self._down,
                stopped=self._stopped,
                backoff=settings.backoff(),
            )
        )
        self._waiting = Waiting(loop, ", ".join(endpoints), lambda: self.last_error)
        self._alarm = Alarm(loop.clock, self._timeout)
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
        """Why the node takes no publications for now; None while it does. The outbox keeps them."""
        self.on_trouble: Callable[[BrokerError | None], None] | None = None
        """Told when `trouble` comes, and None when it is over."""

    # ------------------------------------------------------------------ life

    @property
    def client_id(self) -> str:
        """Under which name this client publishes."""
        return self._settings.client_id

    @property
    def incarnation(self) -> int:
        """Which process of that name this is."""
        return self._settings.incarnation

    @property
    def connected(self) -> bool:
        """Whether there is a session with a node at this moment."""
        return self._core.connected

    @property
    def unacknowledged(self) -> int:
        """Events in the outbox."""
        return self._core.outbox.events

    def start(self) -> None:
        """Begin to connect, and keep at it until `close`."""
        self._connection.start()

    def when_connected(self, timeout: float | None = None) -> Awaitable[None]:
        """Fires when there is a session; `GaveUp` after `timeout` seconds, or a fatal error."""
        if self._core.connected and not self._over:
            return self._at_once(None)
        return self._failed() if self._over else self._waiting.for_session(timeout)

    def drained(self) -> Awaitable[None]:
        """Fires when everything published so far is acknowledged."""
        if self._over:
            return self._failed()
        empty = self._core.outbox.events == 0
        return self._at_once(None) if empty else self._waiting.for_drained()

    def close(self) -> Awaitable[None]:
        """End the session in good order: positions are acknowledged, the outbox is not awaited."""
        if self._closed is None:
            self._closed = self._loop.promise()
            if self._over:
                # It ended by itself, and has said why.
                self._closed.fulfil(None)
                return self._closed.awaitable
            self._apply(self._core.goodbye())
            if self._driver.attached:
                # Over when the last bytes have left, which takes the driver limited time.
                self._driver.close()
            else:
                self._connection.stop()
        return self._closed.awaitable

    # ------------------------------------------------------------------ what it is for

    def publish(
        self,
        stream: str,
        payload: bytes | None,
        event_type: EventType,
        *,
        linkage: EventLinkage = EventLinkage(),
        application_types: tuple[str, ...] = (),
        summary: str | None = None,
        system_id: str | None = None,
    ) -> Awaitable[Receipt]:
        """Publish an event: mints its EventId, writes the envelope, resolves when it is durable.

        `payload` is one XML element in UTF-8 (a declaration before it is dropped). Raises at once
        `BadName`, `BadEnvelope` or `Overloaded`; the awaited result may be an `InvalidEvent`,
        `NotAllowed` or `ClearanceTooLow` that the node found.
        """
        self._check_open()
        element = None if payload is None else payload_element(payload)
        event_id = self._mint.next(self._settings.wall_clock())
        try:
            document = write_event(
                event_id,
                stream,
                event_type,
                element,
                linkage=linkage,
                application_types=application_types,
                summary=summary,
                system_id=system_id,
            )
            return self._enqueue(document, event_id)
        except BrokerError:
            # Numbers count without holes over the events that leave.
            self._mint.take_back(event_id)
            raise

    def publish_document(self, document: bytes, event_id: EventId) -> Awaitable[Receipt]:
        """Publish an event that was written already, under this client's name and incarnation."""
        return self._enqueue(document, event_id)

    def subscribe(
        self,
        query: str = "true()",
        streams: str = ">",
        *,
        namespaces: Mapping[str, str] | None = None,
        durable: str = "",
        start: Start | None = None,
        on_gap: Callable[..., None] | None = None,
        on_change: Callable[..., None] | None = None,
        merge: Merging | None = None,
    ) -> Awaitable[Subscription]:
        """Subscribe; resolves when the node has accepted the query and the flow has begun.

        `start` is `NEW` for a transient and `STORED` for a durable subscription unless given.
        `on_gap` is told each `Gap`, `on_change` each `TypeChanged`, in order with the events.
        With `merge` it is a `MergedSubscription`. Raises `BadQuery`, `QueryTooExpensive`,
        `BadName`, `NotAllowed`, `BadPosition` or `TooManySubscriptions` as the node says.
        """
        self._check_open()
        begin = start if start is not None else (Start("stored") if durable else NEW)
        number, effects = self._core.subscribe(
            query, streams, namespaces=namespaces or {}, durable=durable, start=begin
        )
        made = subscription_as(merge)
        subscription = made(self, self._loop, number, query, streams, on_gap, on_change)
        self._subscriptions[number] = subscription
        self._apply(effects)
        return subscription.flowing

    def ask(self, what: str, document: bytes = b"", /, **arguments: str) -> Awaitable[Any]:
        """Ask the node something (`status`, `dtd-list`, `dtd-show`, `explain`), maybe about an
        event; resolves to its answer. Raises `TooLarge` for an event over the node's limit."""
        self._check_open(document)
        request, effects = self._core.ask(what, arguments, document)
        answer = self._waiting.for_answer(request)
        self._apply(effects)
        return answer

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

    # ------------------------------------------------------------------ from the stack

    def messages_received(self, batch: Sequence[bytes]) -> None:
        """Messages of the node, in order."""
        now = self._loop.clock.seconds()
        for index, data in enumerate(batch):
            try:
                effects = self._core.message_received(data, now)
            except BrokerError as error:
                # The stack delivers nothing twice: a new session goes on from what has arrived.
                self.last_error = error
                self._driver.consumed(len(batch) - index)
                self._apply(self._core.goodbye())
                self._driver.close()
                return
            self._apply(effects)
        if self._core.outbox.unsent:
            self._flush_soon()

    def view_changed(self, view: View) -> None:
        """The connection came or went."""
        if view.state is LinkState.CONNECTED:
            self.last_error = None
            self._apply(self._core.session_up(view.resumed))
            self._waiting.session_up()
            self._flush()
            if self.on_state is not None:
                self.on_state(True, None)
        elif view.state is LinkState.DISCONNECTED:
            self._core.session_down()
            if self._closed is not None:
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
        channel.max_frame = welcome.max_frame_bytes
        self._driver.attach(channel)

    def _enqueue(self, document: bytes, event_id: EventId) -> Awaitable[Receipt]:
        self._check_open(document)
        promise = self._loop.promise()
        self._core.publish(document, event_id, promise)
        self._flush_soon()
        return promise.awaitable

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
                case HeldUp(error):
                    self.trouble = error
                    if self.on_trouble is not None:
                        self._loop.soon(functools.partial(self.on_trouble, error))
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
        if self._closed is not None:
            self._closed.fulfil(None)
        elif error is not None and self.on_state is not None:
            self.on_state(False, error)

    def _at_once(self, value: Any) -> Awaitable[Any]:
        promise = self._loop.promise()
        promise.fulfil(value)
        return promise.awaitable

    def _failed(self) -> Awaitable[Any]:
        promise = self._loop.promise()
        promise.fail(self._error or Closed("the client is closed"))
        return promise.awaitable

    def _check_open(self, document: bytes = b"") -> None:
        """And that the node takes such an event, as far as it has said."""
        if self._over or self._closed is not None:
            raise self._error or Closed("the client is closed")
        if self.welcome is not None and len(document) > self.welcome.max_event_bytes:
            most = self.welcome.max_event_bytes
            raise TooLarge(f"the event has {len(document)} bytes, the node takes {most}")
