"""The client that users see, the same under every loop.

    async with connect("tcp:127.0.0.1:8765") as client:
        subscription = await client.subscribe("/flight[flightleg/altitude > 300]")
        async for event in subscription:
            print(event.stream, event.payload)

Without a connection publications wait in the outbox. A subscription continues after a broken
connection without gap or duplicate.
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
    ClearanceTooLow,
    Closed,
    InvalidEvent,
    NotWellFormed,
)
from broker.event.envelope import EventLinkage, EventType
from broker.event.event_id import EventId, EventIdGenerator
from broker.event.event_time import ANY_TIME, EventTimes
from broker.event.place import Position
from broker.event.site_notice import SiteNotice
from broker.event.writer import extract_payload_element, write_event

#: Seconds until a closing client ends unconfirmed.
CLOSE_TIMEOUT = 10.0


class Client(ClientDriver):
    def __init__(self, loop: Loop, endpoints: Sequence[str], settings: ClientSettings) -> None:
        super().__init__(loop, endpoints, settings)
        self._mint = EventIdGenerator(settings.client_id, settings.incarnation)

    # ------------------------------------------------------------------ lifecycle

    @property
    def client_id(self) -> str:
        return self._settings.client_id

    @property
    def incarnation(self) -> int:
        return self._settings.incarnation

    @property
    def connected(self) -> bool:
        return self._core.is_connected

    @property
    def unacknowledged(self) -> int:
        return self._core.outbox.events

    @property
    def duplicates_dropped(self) -> int:
        return self._core.duplicates_dropped

    @property
    def positions_error(self) -> BrokerError | None:
        """Error of the newest write to the state folder; None while writes succeed."""
        return None if self._position_writer is None else self._position_writer.error

    keeping_error = positions_error  # The old name, kept for one version.

    def start(self) -> None:
        """Connect, and retry until `close`."""
        self._connection.start()

    def when_connected(self, timeout: float | None = None) -> Awaitable[None]:
        """Fire when there is a session; fail with `GaveUp` after `timeout` s, or a fatal error."""
        if self._core.is_connected and not self._is_stopped:
            return self._fulfilled(None)
        return self._fail_stopped() if self._is_stopped else self._waiters.wait_for_session(timeout)

    def drained(self) -> Awaitable[None]:
        """Fire when everything published so far is acknowledged."""
        if self._is_stopped:
            return self._fail_stopped()
        empty = self._core.outbox.events == 0
        return self._fulfilled(None) if empty else self._waiters.wait_for_drained()

    def close(self, timeout: float = CLOSE_TIMEOUT) -> Awaitable[bool]:
        """End the session when the node has committed the positions; the outbox is not awaited.

        Resolves after at most `timeout` seconds: True if the node has confirmed each durable
        position, so that no processed event comes again.
        """
        if self._closed is None:
            self._closed = self._loop.make_promise()
            self._apply_effects(self._core.positions.save_positions())
            if self._position_writer is not None:
                self._position_writer.write_now()
            if self._is_stopped:
                self._closed.fulfil(self._core.positions.is_confirmed)
                return self._closed.awaitable
            self._close_deadline.arm(self._loop.clock.seconds() + timeout)
            self._apply_effects(self._core.positions.start_closing())
            if self._core.positions.is_finished and not self._core.is_connected:
                self._end_connection()
        return self._closed.awaitable

    # ------------------------------------------------------------------ publish, subscribe, ask

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
        time: int | None = None,
    ) -> Awaitable[Receipt]:
        """Resolve when the event is durable. Older nodes drop `time`, its own in ms since 1970.

        `payload` is one XML element in UTF-8; a declaration before it is dropped. Raises `BadName`,
        `BadEnvelope`, `Overloaded`, or over clear text `ClearanceTooLow` at once. The result may
        fail with `InvalidEvent`, `NotAllowed` or `ClearanceTooLow`.
        """
        self._check_open()
        element = None if payload is None else extract_payload_element(payload)
        event_id = self._mint.next_id(self._settings.wall_clock())
        try:
            document = write_event(
                *(event_id, stream, event_type, element),
                linkage=linkage,
                application_types=application_types,
                summary=summary,
                system_id=system_id,
            )
            return self._enqueue(document, event_id, time)
        except Exception:
            # Sequence numbers of sent events must be consecutive.
            self._mint.return_id(event_id)
            raise

    def publish_document(
        self, document: bytes, event_id: EventId, time: int | None = None
    ) -> Awaitable[Receipt]:
        """Publish a complete document of this client's name and incarnation.

        A document or time of another kind (`BadEnvelope`), an empty one (`NotWellFormed`) or one
        that is `TooLarge` fails its receipt. Raises `Overloaded` or `Closed` at once.
        """
        try:
            if not isinstance(document, bytes | bytearray | memoryview):
                raise BadEnvelope(f"the document is {type(document).__name__}, not bytes")
            if not len(document):
                raise NotWellFormed("the document is empty")
            # The caller could change its buffer later.
            return self._enqueue(bytes(document), event_id, time)
        except (ClearanceTooLow, InvalidEvent) as error:
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
        queue: str = "",
        on_gap: Callable[..., None] | None = None,
        on_change: Callable[..., None] | None = None,
        on_notice: Callable[..., None] | None = None,
        merge: Merging | None = None,
    ) -> Awaitable[Subscription]:
        """Resolve when the node has accepted the query and events flow.

        `namespaces` maps prefixes to URIs; "" stands for element names without prefix. `start`
        defaults to `NEW`, for a durable one to `STORED`. It ends at the position `until`, or before
        events that reached their origin at `until_time` (ms since 1970). Earlier events are
        replayed at `pace` times their arrival pace, at most `rate` a second; 0 is unlimited.

        `queue` names the rule while this client takes events too slowly: `drop-oldest` (the
        default), `drop-newest`, `coalesce` (by stream), `coalesce:/flight/@id`, `block` (the
        default of a durable one) or `fail`. A durable one takes only `block` and `fail`.

        `on_gap`, `on_change` and `on_notice` (statuses of the sites of an ordered stream, and
        missing messages) are called in order with the events. `merge` makes a
        `MergedSubscription`. Raises `BadQuery`, `QueryTooExpensive`, `BadName`, `NotAllowed`,
        `BadPosition`, `BadQueuePolicy`, `VersionMismatch` or `TooManySubscriptions`.
        """
        begin = start if start is not None else (STORED if durable else NEW)
        end = Position() if until is None else until
        request = SubscriptionRequest(
            query, streams, namespaces or {}, durable, begin, end, until_time, pace, rate
        )
        request = attrs.evolve(request, stream_times=merge is not None, queue=queue)
        return self._start_subscription(
            request, on_gap, on_change, subscription_factory(merge), on_notice
        ).flowing

    async def subscribe_in_mesh(
        self,
        query: str = "true()",
        streams: str = ">",
        *,
        parents: int = 2,
        namespaces: Mapping[str, str] | None = None,
        **subscribed: Any,
    ) -> Subscription:
        """Return a subscription whose events come from so many routers of a mesh (`docs/mesh.md`).

        What the mesh has not, or loses, comes from the node. Further arguments are those of
        `subscribe`. Raises its errors, `NoMesh` if the node has none for the streams, and
        `VersionMismatch` at an older node. Under Twisted, run it by `Deferred.fromCoroutine`.
        """
        # It imports parts of Twisted, which most clients under asyncio do not need.
        from broker.client.mesh_membership import join_mesh, request_ticket

        ticket = await request_ticket(self, streams, parents)
        subscription = await self.subscribe(query, streams, namespaces=namespaces, **subscribed)
        try:
            subscription.mesh = join_mesh(
                *(self, self._loop, self._settings, subscription, namespaces or {}),
                *(ticket, parents),
            )
        except BaseException:
            subscription.unsubscribe()
            raise
        return subscription

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
        event_times: EventTimes = ANY_TIME,
        paced_by_time: bool = False,
        on_gap: Callable[[Gap], None] | None = None,
        merge: Merging | None = None,
        order: str = PUBLISHER,
    ) -> Subscription:
        """Return published events that match, as an asynchronous iterator that ends by itself.

        It begins after the position `since`, at `since_time` (ms since 1970), or with the `last`
        events; by default with the oldest. With both, the time applies to origins that the position
        does not name. It ends as in `subscribe`, by default now. `event_times` are bounds of the
        events' own times, [from, until); `paced_by_time` applies `pace` to these.

        With the order "bundle" it is a `ResolvedReplay`, sorted by linkage or by the rule of
        `merge`. Iterating raises the errors of `subscribe`; an impossible `BadPosition` is raised
        at once.
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
            *(query, streams, namespaces or {}, "", begin, end, until_time, pace, rate),
            *(event_times, paced_by_time),
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
        """Return the newest event of each key of a `replay`, in order of arrival.

        The key is the stream, or for example `by_xpath("/flight/id")`. Raises the errors of a
        replay, and `Overloaded` for more than `most` keys.
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
        """Call `handle` with the events of a durable subscription, one at a time.

        If the awaitable fails or exceeds `working.ack_timeout`, the event is given again. After
        `working.max_deliver` tries it is published on `working.dead_letters`.

        Returns when the subscription ends. Raises the errors of `subscribe`, and the node's error
        for a refused dead letter. Under Twisted, run it by `Deferred.fromCoroutine`.
        """
        attempts = Attempts(self._settings.attempts, durable)
        subscription = await self.subscribe(
            query, streams, namespaces=namespaces, durable=durable, on_gap=on_gap
        )
        worker = Worker(self, self._loop, subscription, durable, handle, working, attempts)
        return await worker.run()

    def ask(self, what: str, document: bytes = b"", /, **arguments: str) -> Awaitable[Any]:
        """Resolve to the node's answer to `status`, `dtd-list`, `dtd-show` or `explain`.

        Raises `TooLarge` for an event over the node's limit, and `ClearanceTooLow` for one that
        may not cross a connection in clear text.
        """
        self._check_open(document)
        if what == "explain":
            self._cleartext.check_document(document)
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
        on_notice: Callable[[SiteNotice], None] | None = None,
    ) -> Subscription:
        self._check_open()
        number, effects = self._request_subscription(request.validate())
        subscription = factory(
            self, self._loop, number, request.query, request.pattern, on_gap, on_change, on_notice
        )
        self._subscriptions[number] = subscription
        self._apply_effects(effects)
        return subscription

    def _enqueue(self, document: bytes, event_id: EventId, time: int | None) -> Awaitable[Receipt]:
        self._check_open(document)
        self._cleartext.check_document(document)
        promise = self._loop.make_promise()
        self._core.publish(document, event_id, promise, time)
        self._flush_soon()
        return promise.awaitable

    def _fail_stopped(self) -> Awaitable[Any]:
        return self._failed(self._error or Closed("the client is closed"))

    def _check_open(self, document: bytes = b"") -> None:
        if self._is_stopped or self._closed is not None:
            raise self._error or Closed("the client is closed")
        if self.welcome is not None and len(document) > self.welcome.max_event_bytes:
            raise too_large_error(document, self.welcome.max_event_bytes)
