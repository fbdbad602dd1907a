"""The node's end of a client session: messages in, answers and deliveries out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from twisted.internet.defer import maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.audit import IAuditLog, NoAuditLog
from broker.delivery.session_delivery import SessionDelivery
from broker.errors import BrokerError, Closed, Overloaded, PeerError, ProtocolError, WireError
from broker.event.place import Position
from broker.identity import Identity
from broker.ingest.input import Input
from broker.ingest.publisher import Publisher
from broker.ingest.rated_input import RatedInput
from broker.queue_memory import HeldBytes
from broker.sessions.session_records import SessionRecords
from broker.sessions.time_slices import MAX_DOCUMENTS, SLICE_SECONDS, TimeSlices
from broker.subscriptions.profile import Profile
from broker.subscriptions.subscription_context import SubscriptionCallbacks
from broker.subscriptions.subscription_requests import SubscriptionRequests
from broker.transport.clock import IClock
from broker.transport.driver import IStackReceiver, Link
from broker.transport.message import Peer
from broker.transport.view import LinkState, View
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.event_batch import decode_batch
from broker.wire.held_flows import HeldBack, Hold
from broker.wire.messages import (
    INITIAL_CREDIT,
    NO_ERROR,
    PUBLISH,
    Acknowledge,
    Answer,
    Ask,
    Credit,
    Ended,
    Goodbye,
    NotPublished,
    Published,
    Refuse,
    Subscribe,
    Unsubscribe,
)

_PUBLISH_KIND = bytes([PUBLISH])
_ACKNOWLEDGE_KIND = bytes([Acknowledge.kind])

#: Answers a client's question with plain content, or a Deferred of it.
Answerer: TypeAlias = Callable[[Identity, Ask], Any]


@attrs.frozen
class SessionServices:
    input: Input | RatedInput
    subscriptions: SubscriptionRequests
    answers: Mapping[str, Answerer]
    on_ended: Callable[[Session], None]
    """Called once."""
    clock: IClock
    audit: IAuditLog = attrs.field(factory=NoAuditLog)
    audited_questions: frozenset[str] = frozenset()
    find_address: Callable[[], str] = lambda: ""


@implementer(IStackReceiver)
class Session:
    """A session over any number of connections, until its lease expires or either side ends it.

    It is the receiver of the stack of its link.
    """

    log = Logger()

    def __init__(
        self,
        identity: Identity,
        incarnation: int,
        token: bytes,
        link: Link,
        services: SessionServices,
        make_delivery: Callable[[Session], SessionDelivery],
        held: HeldBytes | None = None,
    ) -> None:
        """`held` counts the send buffer of `link`."""
        self.identity = identity
        self.incarnation = incarnation
        self.token = token
        self.link = link
        self.version = 1
        """Of the current or last connection."""
        self.peer = ""
        """Address of the current or last connection."""
        self.has_ended = False
        self.end_reason: BrokerError | None = None
        """Set if the node ended the session."""
        self.connection_error: BrokerError | None = None
        """Of the last connection; None if it is up, or was closed normally."""
        self.state = LinkState.DISCONNECTED
        self.on_connection_changed: Callable[[Session], None] = lambda _: None
        """Called after a change of `state`, for the lease."""
        self._received: deque[bytes] = deque()
        self._slices = TimeSlices(services.clock, self._step, self._fail_step)
        self._was_connected = False
        self._delivered_bytes = 0
        self._held = held
        self._credit = INITIAL_CREDIT
        self._services = services
        self.delivery = make_delivery(self)
        self._records = SessionRecords(
            services.audit, services.audited_questions, identity, lambda: self.peer
        )
        self.profile = Profile(
            *(identity, self.delivery, incarnation, token), record=self._records.record
        )
        self._publisher = Publisher(
            self._slices.run_later, identity, incarnation, self._send_publish_answer
        )

    # ------------------------------------------------------------------ written by the delivery

    @property
    def writable(self) -> bool:
        """True if the session takes another delivery, which may exceed the limit."""
        return not self.has_ended and self.link.is_writable and self._delivered_bytes < self._credit

    def send_message(self, message: Message) -> None:
        self._send(messages.encode(message, self.version))

    def send_delivery(self, data: bytes) -> None:
        self._delivered_bytes += len(data)
        self._send(data)

    def _send(self, data: bytes, consumed: int = 0) -> None:
        """Send a message that answers `consumed` messages.

        A client that reads nothing loses its session.
        """
        if self.has_ended:
            return
        try:
            self.link.send([data], consumed)
        except Overloaded as error:
            # Deliveries stop at `writable`, so unread answers have grown.
            self.end(error)
        except Closed:
            self.end(None)

    # ------------------------------------------------------------------ from the stack

    def messages_received(self, peer: Peer, batch: Sequence[bytes]) -> None:
        """Process messages in order, in as many slices as it takes."""
        self._received += batch
        self._slices.run()

    def _step(self) -> bool:
        """Return True if more is left."""
        received, publisher = self._received, self._publisher
        try:
            is_batch = bool(received) and received[0][:1] == _PUBLISH_KIND
            if is_batch:
                self._queue_batches()
            if publisher.waiting and not publisher.is_paused:
                seconds = min(self._slices.seconds_left, SLICE_SECONDS)
                self._services.input.ingest_waiting(publisher, MAX_DOCUMENTS, seconds)
            elif received and not is_batch:
                self._handle_message(messages.decode(received.popleft()))
                if not self.has_ended:
                    self.link.consumed(1)
        except ProtocolError as error:
            self.end(error)
        return bool(received) or publisher.is_ready

    def _queue_batches(self) -> None:
        """Queue as many documents as are matched at once.

        Other messages do not wait for a DTD.
        """
        received, publisher = self._received, self._publisher
        room = MAX_DOCUMENTS
        if publisher.is_ready:
            # Several batches wait only after a wait for a DTD.
            room = room - publisher.waiting[0].remaining if len(publisher.waiting) == 1 else 0
        while room > 0 and received and received[0][:1] == _PUBLISH_KIND:
            batch = decode_batch(received.popleft())
            publisher.add_batch(batch)
            room -= max(len(batch.documents), 1)

    def _fail_step(self, error: Exception) -> None:
        # The driver logs failures in its own turn only.
        self.log.failure(
            "a message of {client} failed", Failure(error), client=self.identity.client_id
        )
        self.end(ProtocolError("the node could not process a message"))

    def view_changed(self, peer: Peer, view: View) -> None:
        self.state = view.state
        self.connection_error = view.error
        if isinstance(view.error, PeerError):
            self.log.info(
                "connection of {client} from {peer} broken: {error}",
                client=self.identity.client_id,
                peer=self.peer,
                error=view.error,
            )
        if self.link.failure is not None:
            self.end(None)
            return
        if view.state is LinkState.CONNECTED:
            if self._was_connected and not view.resumed:
                # The stack restarted under the same token, and lost undelivered messages.
                self.end(ProtocolError("the client's stack lost the state of the session"))
                return
            self._was_connected = True
            self.delivery.send_waiting()
        self.on_connection_changed(self)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        if writable and not self.has_ended:
            self.delivery.send_waiting()

    def find_durable_number(self, name: str) -> int | None:
        numbers = (n for n, durable in self.profile.durable_names.items() if durable == name)
        return next(numbers, None)

    # ------------------------------------------------------------------ messages

    def _handle_message(self, message: Message) -> None:
        if isinstance(message, Subscribe):
            self._handle_subscribe(message)
        elif isinstance(message, Unsubscribe):
            self._handle_unsubscribe(message)
        elif isinstance(message, Acknowledge):
            self._handle_acknowledge(message)
        elif isinstance(message, Credit):
            self._credit = message.limit
            self.delivery.send_waiting()
        elif isinstance(message, Hold):
            self.delivery.hold_flows(message.number, message.patterns)
            # All that was sent before it counts.
            self.send_message(HeldBack(message.number, ()))
        elif isinstance(message, Ask):
            self._handle_ask(message)
        elif isinstance(message, Goodbye):
            self.end(None)
        else:
            raise ProtocolError(f"{type(message).__name__} is not for a node")

    def _handle_subscribe(self, message: Subscribe) -> None:
        if message.claim and self.profile.node_address != self._services.find_address():
            self.end(Closed("this node has a new address: connect again, and sign a claim for it"))
            return

        def start() -> None:
            if not self.has_ended:
                self.delivery.start_feed(message.number)

        def end(error: BrokerError | None) -> None:
            self._close_subscription(message.number, error)

        callbacks = SubscriptionCallbacks(
            *(self.send_message, start, end),
            is_connected=lambda: self.state is LinkState.CONNECTED,
        )
        try:
            self._services.subscriptions.subscribe(self.profile, message, callbacks)
        except PeerError as error:
            self._records.record_refused("subscribe", message.pattern, error)
            self.send_message(Ended(message.number, error.to_wire()))

    def _handle_unsubscribe(self, message: Unsubscribe) -> None:
        error = NO_ERROR
        try:
            self._services.subscriptions.unsubscribe(
                self.profile, message.number, forget=message.forget
            )
        except PeerError as problem:
            error = problem.to_wire()
        self.send_message(Ended(message.number, error))

    def _handle_acknowledge(self, message: Acknowledge) -> None:
        for number, position in message.positions:
            try:
                self._services.subscriptions.acknowledge(
                    self.profile, number, Position.from_wire(position)
                )
            except PeerError as error:
                self.end_subscription(number, error)

    def _handle_ask(self, message: Ask) -> None:
        answerer = self._services.answers.get(message.what)
        if answerer is None:
            error = ProtocolError(f"this node can not answer {message.what[:40]!r}")
            self.send_message(Answer(message.request, error.to_wire(), None))
            return
        answer = maybeDeferred(answerer, self.identity, message)
        answer.addCallbacks(
            lambda content: self._send_answer(message, NO_ERROR, content),
            lambda failure: self._send_answer_error(message, failure),
        )

    def _send_answer(self, message: Ask, error: WireError, content: object) -> None:
        self._records.record_answer(message, error)
        self.send_message(Answer(message.request, error, content))

    def _send_answer_error(self, message: Ask, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, BrokerError):
            self.log.failure("a question could not be answered", failure)
            error = ProtocolError("the node could not answer")
        self._send_answer(message, error.to_wire(), None)

    def _send_publish_answer(self, answer: Published | NotPublished) -> None:
        if isinstance(answer, Published) and answer.refused:
            self._records.record_published(answer)
        self._send(messages.encode(answer, self.version), consumed=1)

    # ------------------------------------------------------------------ the end

    def _store_last_positions(self) -> None:
        """Store positions of unprocessed messages. Otherwise the client's next process would get
        those events again."""
        for data in self._received:
            if data[:1] == _ACKNOWLEDGE_KIND:
                try:
                    message = messages.decode(data)
                    assert isinstance(message, Acknowledge)
                    for number, position in message.positions:
                        self._services.subscriptions.acknowledge(
                            self.profile, number, Position.from_wire(position)
                        )
                except PeerError as error:
                    self.log.debug("a last position was not stored: {error}", error=error)

    def change_identity(self, identity: Identity) -> int:
        """Use other rights, and end subscriptions without a right. Return their number."""
        self.identity = self.profile.identity = self._publisher.identity = identity
        self._publisher.allowed_streams.clear()
        ended = 0
        for feed in list(self.delivery.feeds):
            if feed.pattern is None:
                continue
            try:
                identity.check_subscribe(feed.pattern)
            except PeerError as error:
                self._records.record_refused("subscribe", feed.pattern.text, error)
                self.end_subscription(feed.number, error)
                ended += 1
        return ended

    def end_subscription(self, number: int, error: BrokerError) -> None:
        self._close_subscription(number, error)

    def _close_subscription(self, number: int, error: BrokerError | None) -> None:
        self._services.subscriptions.unsubscribe(self.profile, number, forget=False)
        self.send_message(Ended(number, NO_ERROR if error is None else error.to_wire()))

    def end(self, error: BrokerError | None) -> None:
        """Send the reason if the connection takes it."""
        if self.has_ended:
            return
        self.end_reason = error
        if error is not None:
            self.log.info(
                "session of {client} from {peer} ended: {error}",
                client=self.identity.client_id,
                peer=self.peer,
                error=error,
            )
            try:
                self.link.send([messages.encode(Refuse(error.to_wire()))])
            except (Overloaded, Closed):
                self.log.debug("the reason could not be sent")
        self._store_last_positions()
        self.has_ended = True
        if self._held is not None:
            self._held.close()
        self._received.clear()
        self.link.close()
        self._services.input.discard_waiting(self._publisher)
        self._services.subscriptions.end_session(self.profile)
        self._services.on_ended(self)
