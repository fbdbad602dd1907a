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

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from broker.client.attempts_file import Attempts
from broker.client.client_driver import ClientDriver
from broker.client.latest import MAX_KEYS, Key, Latest, by_stream
from broker.client.loop import Loop
from broker.client.merged import Merging, subscription_factory
from broker.client.outbox import too_large_error
from broker.client.received import ALL, NEW, STORED, Gap, Receipt, ReceivedEvent, Start, TypeChanged
from broker.client.received import last as the_last
from broker.client.received import since as since_position
from broker.client.received import since_time as since_moment
from broker.client.resolved import PUBLISHER, replay_factory
from broker.client.settings import ClientSettings
from broker.client.subscription import Subscription
from broker.client.subscription_request import SubscriptionRequest
from broker.client.worker import DEFAULT_WORKING, Worker, Working, WorkResult
from broker.errors import (
    BadEnvelope,
    BadPosition,
    BrokerError,
    Closed,
    InvalidEvent,
    NotWellFormed,
)
from broker.event.envelope import EventLinkage, EventType
from broker.event.event_id import EventId, EventIdGenerator
from broker.event.place import Position
from broker.event.writer import extract_payload_element, write_event

#: Seconds that a node has to commit the positions of a client that closes, and to end its session.
CLOSE_TIMEOUT = 10.0


class Client(ClientDriver):
    """One client: one ClientId, one incarnation, any number of connections one after another."""

    def __init__(self, loop: Loop, endpoints: Sequence[str], settings: ClientSettings) -> None:
        super().__init__(loop, endpoints, settings)
        self._mint = EventIdGenerator(settings.client_id, settings.incarnation)

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
        return self._core.is_connected

    @property
    def unacknowledged(self) -> int:
        """Events in the outbox."""
        return self._core.outbox.events

    @property
    def duplicates_dropped(self) -> int:
        """Events that came again for one of its subscriptions, and were dropped."""
        return self._core.duplicates_dropped

    @property
    def positions_error(self) -> BrokerError | None:
        """Why positions can not be written to the state folder; None while they can."""
        return None if self._position_writer is None else self._position_writer.error

    def start(self) -> None:
        """Begin to connect, and keep at it until `close`."""
        self._connection.start()

    def when_connected(self, timeout: float | None = None) -> Awaitable[None]:
        """Fires when there is a session; `GaveUp` after `timeout` seconds, or a fatal error."""
        if self._core.is_connected and not self._is_stopped:
            return self._fulfilled(None)
        return self._fail_stopped() if self._is_stopped else self._waiters.wait_for_session(timeout)

    def drained(self) -> Awaitable[None]:
        """Fires when everything published so far is acknowledged."""
        if self._is_stopped:
            return self._fail_stopped()
        empty = self._core.outbox.events == 0
        return self._fulfilled(None) if empty else self._waiters.wait_for_drained()

    def close(self, timeout: float = CLOSE_TIMEOUT) -> Awaitable[bool]:
        """End the session in good order: the node commits the positions, the outbox is not awaited.

        Resolves to True when the node has confirmed that it has committed how far each durable
        subscription was processed: then nothing of that comes again. Without a connection the
        client keeps trying to reach a node. After `timeout` seconds it closes in any case, and the
        result is False if a position is not confirmed.
        """
        if self._closed is None:
            self._closed = self._loop.make_promise()
            self._apply_effects(self._core.positions.save_positions())
            if self._position_writer is not None:
                self._position_writer.write_now()
            if self._is_stopped:
                # It ended by itself, and has said why.
                self._closed.fulfil(self._core.positions.is_confirmed)
                return self._closed.awaitable
            self._close_deadline.set(self._loop.clock.seconds() + timeout)
            self._apply_effects(self._core.positions.start_closing())
            if self._core.positions.is_finished and not self._core.is_connected:
                self._end_connection()
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
        element = None if payload is None else extract_payload_element(payload)
        event_id = self._mint.next_id(self._settings.wall_clock())
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
        except Exception:
            # Numbers count without holes over the events that leave.
            self._mint.return_id(event_id)
            raise

    def publish_document(self, document: bytes, event_id: EventId) -> Awaitable[Receipt]:
        """Publish an event that was written already, under this client's name and incarnation.

        A document that can not be an event fails its own receipt: `BadEnvelope` for what is not
        bytes, `NotWellFormed` for nothing at all, `TooLarge` for more than the node takes, and
        what else the node finds. Raises at once `Overloaded` or `Closed`.
        """
        try:
            if not isinstance(document, bytes | bytearray | memoryview):
                raise BadEnvelope(f"the document is {type(document).__name__}, not bytes")
            if not len(document):
                raise NotWellFormed("the document is empty")
            # A copy, as far as the caller could change it later.
            return self._enqueue(bytes(document), event_id)
        except InvalidEvent as error:
            return self._failed(error)

    def subscribe(
        self,
        query: str = "true()",
        streams: str = ">",
        *,
        namespaces: Mapping[str, str] | None = None,
        durable: str = "",
        start: Start | None = None,
        until: Position | None = None,
        until_time: int = 0,
        pace: float = 0.0,
        rate: int = 0,
        on_gap: Callable[..., None] | None = None,
        on_change: Callable[..., None] | None = None,
        merge: Merging | None = None,
    ) -> Awaitable[Subscription]:
        """Subscribe; resolves when the node has accepted the query and the flow has begun.

        `start` is `NEW` for a transient and `STORED` for a durable subscription unless given. It
        ends by itself when everything up to the position `until` has come, or before what arrived
        at its origin at `until_time` (ms since 1970) or later, if one of them is given. What was
        published before is sent at `pace` times the pace at which it arrived, and no more than
        `rate` events a second; 0 is as fast as possible.

        `on_gap` is told each `Gap`, `on_change` each `TypeChanged`, in order with the events.
        With `merge` it is a `MergedSubscription`. Raises `BadQuery`, `QueryTooExpensive`,
        `BadName`, `NotAllowed`, `BadPosition` or `TooManySubscriptions` as the node says.
        """
        begin = start if start is not None else (STORED if durable else NEW)
        end = Position() if until is None else until
        request = SubscriptionRequest(
            query, streams, namespaces or {}, durable, begin, end, until_time, pace, rate
        )
        request = attrs.evolve(request, stream_times=merge is not None)
        return self._start_subscription(
            request, on_gap, on_change, subscription_factory(merge)
        ).flowing

    def replay(
        self,
        query: str = "true()",
        streams: str = ">",
        *,
        namespaces: Mapping[str, str] | None = None,
        since: Position | None = None,
        since_time: int = 0,
        last: int = 0,
        until: Position | None = None,
        until_time: int = 0,
        pace: float = 0.0,
        rate: int = 0,
        on_gap: Callable[[Gap], None] | None = None,
        merge: Merging | None = None,
        order: str = PUBLISHER,
    ) -> Subscription:
        """What was published and matches, as an asynchronous iterator that ends by itself.

        It begins behind the position `since`, at `since_time` (ms since 1970), or with the `last`
        so many; else with the oldest event that there is. With a position and a time the time is
        for origins that the position does not name. It ends where `subscribe` says; without
        an end, with what arrived before now, as this machine's clock says. A broken connection
        does not end it: it goes on where it has got to. `unsubscribe()` ends it early.

        With the order "bundle" it is a `ResolvedReplay`: all is read before the first event comes,
        in the order that the events' linkage asks for, or the rule of `merge`.

        Iterating raises what `subscribe` raises; only `BadPosition` for what no node can be asked
        comes at once.
        """
        begin = the_last(last) if last else since_moment(since_time) if since_time else ALL
        if since is not None:
            begin = attrs.evolve(since_position(since), time_ms=since_time)
        if last and (since is not None or since_time):
            raise BadPosition("a replay begins at a position, at a time, or with the last so many")
        end = Position() if until is None else until
        if not (end.marks or until_time):
            until_time = self._settings.wall_clock()
        request = SubscriptionRequest(
            query, streams, namespaces or {}, "", begin, end, until_time, pace, rate
        )
        return self._start_subscription(request, on_gap, None, replay_factory(order, merge))

    async def latest(
        self,
        key: Key = by_stream,
        query: str = "true()",
        streams: str = ">",
        *,
        most: int = MAX_KEYS,
        **replayed: Any,
    ) -> list[ReceivedEvent]:
        """The newest event of each key among those that a `replay` gives, whose other arguments it
        takes, too: of each stream, or as `by_xpath("/flight/id")` says. As they came.

        All are read here. Raises what iterating over a replay raises, and `Overloaded` for more
        than `most` keys.
        """
        latest = Latest(key, most)
        replay = self.replay(query, streams, **replayed)
        try:
            async for event in replay:
                latest.add(event)
        finally:
            replay.unsubscribe()
        return latest.events

    async def work(
        self,
        handle: Callable[[ReceivedEvent], Awaitable[Any]],
        query: str = "true()",
        streams: str = ">",
        *,
        durable: str,
        namespaces: Mapping[str, str] | None = None,
        working: Working = DEFAULT_WORKING,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> WorkResult:
        """Give `handle` the events of a durable subscription, one at a time; each counts as
        processed when what it returns is done.

        One that fails, or takes longer than `working.ack_timeout`, is given again, and after
        `working.max_deliver` tries published on the stream `working.dead_letters`. Returns when
        the subscription ends; raises what `subscribe` raises, and what the node says to a dead
        letter that it refuses. `Deferred.fromCoroutine` runs it under Twisted.
        """
        attempts = Attempts(self._settings.attempts, durable)
        subscription = await self.subscribe(
            query, streams, namespaces=namespaces, durable=durable, on_gap=on_gap
        )
        worker = Worker(self, self._loop, subscription, durable, handle, working, attempts)
        return await worker.run()

    def ask(self, what: str, document: bytes = b"", /, **arguments: str) -> Awaitable[Any]:
        """Ask the node something (`status`, `dtd-list`, `dtd-show`, `explain`), maybe about an
        event; resolves to its answer. Raises `TooLarge` for an event over the node's limit."""
        self._check_open(document)
        request, effects = self._core.ask(what, arguments, document)
        answer = self._waiters.wait_for_answer(request)
        self._apply_effects(effects)
        return answer

    # ------------------------------------------------------------------ inside

    def _start_subscription(
        self,
        request: SubscriptionRequest,
        on_gap: Callable[[Gap], None] | None,
        on_change: Callable[[TypeChanged], None] | None,
        factory: Callable[..., Subscription],
    ) -> Subscription:
        self._check_open()
        number, effects = self._core.subscribe(request.validate())
        subscription = factory(
            self, self._loop, number, request.query, request.pattern, on_gap, on_change
        )
        self._subscriptions[number] = subscription
        self._apply_effects(effects)
        return subscription

    def _enqueue(self, document: bytes, event_id: EventId) -> Awaitable[Receipt]:
        self._check_open(document)
        promise = self._loop.make_promise()
        self._core.publish(document, event_id, promise)
        self._flush_soon()
        return promise.awaitable

    def _fulfilled(self, value: Any) -> Awaitable[Any]:
        promise = self._loop.make_promise()
        promise.fulfil(value)
        return promise.awaitable

    def _failed(self, error: BrokerError) -> Awaitable[Any]:
        promise = self._loop.make_promise()
        promise.fail(error)
        return promise.awaitable

    def _fail_stopped(self) -> Awaitable[Any]:
        return self._failed(self._error or Closed("the client is closed"))

    def _check_open(self, document: bytes = b"") -> None:
        """And that the node takes such an event, as far as it has said."""
        if self._is_stopped or self._closed is not None:
            raise self._error or Closed("the client is closed")
        if self.welcome is not None and len(document) > self.welcome.max_event_bytes:
            raise too_large_error(document, self.welcome.max_event_bytes)
