"""Interfaces of stream transports.

The log is right, the transport is quick: the origin node commits and acknowledges an event before a
transport carries it, and events that a transport loses are requested from the origin's log.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from broker.event.annotation import annotation_of, with_annotation
from broker.event.envelope import SecurityLevel
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.queue_memory import QueueMemory
from broker.streams.dropped_count import DroppedCount
from broker.transport.clock import IClock
from broker.transport.layer import ClockOffset
from broker.transport.message import Outcome
from broker.transport.stacks.contract import IStackPlugin
from broker.transport.view import LinkState, View

if TYPE_CHECKING:
    from broker.order_certificates.signing_key import PinnedKeys, SigningKey


class Guarantee(enum.Enum):
    """A promise of a stream transport, beyond those of every transport."""

    #: All nodes deliver all events of a pattern in one order, that of `ITransportContext.receive`.
    #: Own events are withheld from subscriptions until the transport hands them over.
    ONE_ORDER = "one-order"
    #: The loss of one path or neighbour delays no event.
    REDUNDANCY = "redundancy"
    #: An event is acknowledged only after other nodes have it.
    ACKNOWLEDGEMENT = "acknowledgement"


class CarriedEvent(NamedTuple):
    """An event on its way between nodes, as committed at its origin."""

    mark: Mark
    record: bytes
    """The header as a msgpack array (`broker.log.logged_event`)."""
    document: bytes
    level: int = 0
    """Rank of its security level, 0 to 2."""

    @property
    def annotation(self) -> bytes:
        """Bytes that the transport gave to the event; empty if it gave none."""
        return annotation_of(self.record)

    def with_annotation(self, annotation: bytes) -> CarriedEvent:
        """Return the event with an annotation, to pass on to `ITransportContext.receive`.

        Raises ValueError for more than `broker.event.annotation.MAX_ANNOTATION_BYTES`.
        """
        record = with_annotation(self.record, annotation)
        return CarriedEvent(self.mark, record, self.document, self.level)


@attrs.frozen(slots=True)
class FlowBatch:
    """A range of a flow: (after, upto] with the events in it, in the order of the origin's log.

    A flow is the events of one origin under one pattern (`broker.event.flow`); `origin_node` serves
    its log. A batch for a link may lack events that nobody behind it wants. With `dropped` it has
    none: queue policies dropped them on the way."""

    flow: str
    origin_node: str
    after: Mark
    upto: Mark
    events: Sequence[CarriedEvent]
    dropped: Sequence[DroppedCount] = ()
    sender: str = ""
    """Name of the node that sent it here, for the log; empty: the transport can not prove it."""
    is_late: bool = False
    """True: earlier batches had these places, without the events."""


@attrs.frozen(slots=True)
class CarriedInterest:
    """Interest of one subscription, or of all subscriptions behind a link in sum."""

    pattern: StreamPattern
    query: str
    namespaces: Mapping[str, str]
    queue: str = "block"
    """Text of the policy for a full queue on the way (`broker.streams.queue_policy`)."""


#: Peers that a transport adds, and links over connections.
MOST_PEERS = 1_000


class ILinkReceiver(Interface):
    """Receiver of the messages of a transport's own links.

    A receiver that provides `broker.transport.monitor.ILinkOwners` takes part in the decision that
    a peer is connected, over a link stack with a connection monitor.
    """

    def messages_received(peer: Hashable, messages: Sequence[bytes]) -> None:
        """Receive messages of one peer in order, from a stranger too."""

    def link_changed(peer: Hashable, state: LinkState) -> None:
        """Handle a new state of a link. CONNECTED comes before its first message. A link that is
        SUSPECTED may resume; messages of one that is DISCONNECTED are lost.

        SUSPECTED and DISCONNECTED are repeated for each failed attempt to connect.
        `ILinks.view_of` has the reason, and with CONNECTED the loss of messages.

        A link stack without outage notice does not tell that a peer has gone.
        """


class ILinks(Interface):
    """Links of one transport instance to other nodes, over its link stack."""

    def add_peer(address: tuple[str, int]) -> Hashable:
        """Begin a link to an IP address and port, and return the name of the peer from now on.

        Raises `ConfigurationError` for an address that can not be used.
        """

    def resolve(host: str) -> Deferred[str]:
        """Return an IP address of a host name, for `add_peer`. Fails with `BrokerError`."""

    def remove_peer(peer: Hashable) -> None:
        """End a link, and drop unsent messages. No change of the link follows."""

    def send(
        messages: Sequence[bytes], peers: Sequence[Hashable]
    ) -> Sequence[Mapping[Hashable, Outcome]]:
        """Send to each of the peers, and return the outcomes of each message.

        A link without room drops the messages: FULL.
        """

    def view_of(peer: Hashable) -> View:
        """Return the last state of a link with its reason and times; without one DISCONNECTED."""

    def node_of(peer: Hashable) -> str:
        """Return the proven name of the node behind a link; empty: none is known."""

    def clock_of(peer: Hashable) -> ClockOffset | None:
        """Return the measured difference of a peer's site clock from that of this node.

        None before a measurement, and over a link stack without a connection monitor.
        """

    def suspect(peer: Hashable, reason: str) -> None:
        """Suspect a peer for its quality, at both ends, until the link stack's `liveness` has
        passed well. Without effect on a peer that has no connection.

        The reason has at most 32 lower-case letters, spaces and hyphens. Raises `StackError` over
        a link stack without a connection monitor.
        """

    def drop_unsent(peer: Hashable) -> None:
        """Drop the messages that wait for a peer to be connected, so that later ones have room.
        They are not counted in its next view. Without effect on a connected peer."""

    def close() -> None:
        """Close all links."""

    def snapshot() -> Mapping[str, object]:
        """Return the state of the links for `status`. The node shows it with the instance."""


class ITransportContext(Interface):
    """Services of a node for one transport instance."""

    instance: str = Attribute("name of the instance in the configuration")
    node: str = Attribute("name of the node")
    origin: str = Attribute("name of the node's own log")
    signing_key: SigningKey = Attribute("key pair of the node, to which the log's name belongs")
    public_keys: PinnedKeys = Attribute("keys of nodes by name, from `network.public_keys`")
    patterns: Sequence[StreamPattern] = Attribute("carrying patterns of this instance")
    options: object = Attribute("an instance of the plug-in's `options` class")
    cluster: ClusterFactory = Attribute(
        "makes the transport on the links of the network of clusters; for `mspaces`"
    )
    clock: IClock = Attribute("monotonic time")
    random: Random = Attribute("source of random numbers")
    clearance: SecurityLevel = Attribute("highest level of events that `publish` gets")
    wall_clock: Callable[[], int] = Attribute("returns ms since 1970")
    queue_memory: QueueMemory = Attribute("counts the queues of the node together")
    folder: Path = Attribute("folder for files of this instance; it may not exist")

    def open_links(listen: str, receiver: ILinkReceiver) -> ILinks:
        """Open links at an IP address and port, over the link stack of the instance. Raises
        `ConfigurationError`."""

    def find_addresses(name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
        """Return the IP addresses of a name in DNS (A and AAAA records), each with the port, at
        most 64; none for an unknown name. Fails if DNS does not answer."""

    def receive(batch: FlowBatch) -> None:
        """Pass on a received batch: it is validated, logged and delivered.

        Event types are fetched, repeated events are dropped, and a range missing before `after` is
        requested from the origin's log. Batches of a flow of other patterns, or with an
        invalid range, are dropped and counted. After the stop all are dropped.
        Annotations are logged with their events (`CarriedEvent.with_annotation`).

        With `Guarantee.ONE_ORDER` a batch of an own flow releases all own events up to its end,
        with the bytes of the log. Without it the batch is dropped.
        """

    def deliver(batch: FlowBatch) -> None:
        """Deliver events of `IOrderingTransport.order`, or own published ones, in the final order.

        They are logged with the annotations that they have now. Events of one flow must come in its
        order; others are dropped and counted.
        """

    def read_log_end() -> Deferred[Sequence[CarriedEvent]]:
        """Return the delivered events of the instance's patterns among the last ones of the log.

        Call it after the start.
        """

    def coverage_of(flow: str) -> Mark:
        """Return the place up to which the log has a flow; (0, 0) for an unknown one."""

    def may_have_log(node: str, origin: str) -> bool:
        """Return False if the named node has another log, or another node has this one."""

    def must_prove_log(node: str, origin: str) -> bool:
        """Return True if only a signature can show that the named node has a log."""

    def release_earlier() -> Deferred[None]:
        """Deliver own events of earlier processes by `IOrderingTransport.place`. Fires when they
        are logged. Until then nothing must be delivered."""

    def request_feed() -> bool:
        """Let the instance's feeder bring all events of its patterns, too, by `recovered`.

        Call it before `set_link_interest`. Return False without a feeder."""

    def set_link_interest(
        link: Hashable, key: str, interest: CarriedInterest | None
    ) -> Deferred[Mapping[str, Mark]]:
        """Set or remove (None) one interest behind a link, for `match`.

        Fires when the feeder selects events by it, with the marks of flows behind which none is
        missing; at once, and without marks, if no feed was requested.

        Raises `BadQuery` for a query that is not accepted, `Overloaded` beyond
        `broker.streams.instance.MOST_QUERIES_PER_LINK`.
        """

    def match(batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        """Return for each event the links behind which it is wanted; an event that can not be
        matched here is wanted behind all with interest in its stream."""

    def has_interest(batch: FlowBatch) -> Sequence[bool]:
        """Return for each event whether a subscription of this node, or the interest behind a link
        of the instance, matches it: False if it is forged, or can not be matched here."""

    def notify(notice: SiteNotice) -> None:
        """Deliver a status of a site, or missing messages, to the subscriptions of the instance's
        streams whose clients understand it.

        With `Guarantee.ONE_ORDER` they get it behind the events of earlier calls of `receive`, and
        before those of later calls. A subscription that becomes live gets the present status of
        each site first. After the stop notices are dropped.
        `stack` is the name of the instance. Raises ValueError or `ProtocolError` for other texts
        than names of 1 to 64 characters, other states, or a reason over 500 characters.
        """

    def fail(error: Exception) -> None:
        """Stop this instance: its streams stop with the reason, others continue."""

    def refuse(reason: str) -> None:
        """Refuse publications and narrow subscriptions in the instance's streams from now on, with
        `NotInGroup` and a reason; empty: accept them."""


class IStreamTransport(Interface):
    """One instance of a transport in a node.

    Any other exception from one of these methods stops the instance with the reason.
    """

    def listen() -> None:
        """Open links, before anything of the node has started.

        Raises `ConfigurationError`: then the node does not start.
        """

    def start() -> None:
        """Start, after the node's log and network have started."""

    def stop() -> Deferred[None]:
        """Stop. Fires when sent data has left, or is lost."""

    def announce(key: str, interest: CarriedInterest) -> None:
        """Announce the interest of a subscription of this node whose pattern overlaps those of
        the instance, or replace that of the key. From now on a batch for `receive` must have the
        events that match it. Batches that other nodes selected without it must be dropped: their
        events then come from the log.
        """

    def withdraw(key: str) -> None:
        """Withdraw announced interest."""

    def publish(batch: FlowBatch) -> None:
        """Carry own events, which are committed and below the clearance of the instance."""

    def recovered(batch: FlowBatch) -> None:
        """Handle received events below the clearance that came from a log, or by the feeder.

        It is called before they are logged here. They may be older than events carried before.
        With `Guarantee.ONE_ORDER` also own events that were not handed over in 1 to 2 s.
        """

    def snapshot() -> Mapping[str, object]:
        """Return its state for `status`: plain values by name, and a table `peers`. A table
        `parents` is in metrics, too (docs/writing-a-stack.md)."""


class IAnnotatingTransport(IStreamTransport):
    """A transport that gives bytes of its own to own events, written in their commit.

    Replicas, pages and the archive have them too. Only the transport reads them.
    """

    def annotate(events: Sequence[CarriedEvent]) -> Sequence[bytes]:
        """Return the annotation of each own event, before its commit: empty for none, at most
        `broker.event.annotation.MAX_ANNOTATION_BYTES`.

        The events are in the order of the log. After a failed commit they come again, with other
        marks.
        """


class IOrderingTransport(IAnnotatingTransport):
    """A transport with `Guarantee.ONE_ORDER` that gets all events of its patterns, and decides when
    each is delivered.

    Each node logs them in the order of `ITransportContext.deliver`, whatever its subscriptions
    want. The network brings missing events before later ones of their flow. It requests them at
    once, since batches of a flow for `ITransportContext.receive` come in its order, too.
    """

    def order(batch: FlowBatch, is_recovered: bool) -> None:
        """Take events of another node, each for a later `ITransportContext.deliver`.

        Batches of a flow come in its order. `is_recovered` is True for events that came from a log.
        After a failed commit the events come again. Events of the flow before the end of the batch
        that were not passed before are in no log any more.
        """

    def revoke() -> None:
        """Forget all annotations of events that were not published: their commit has failed."""

    def take_back(flow: str, after: Mark, upto: Mark | None = None) -> None:
        """Handle that delivered events of a flow behind a place were not logged after all: they
        come again, by `order` or `place`. With `upto` those up to there wait for their types, and
        come by `place`."""

    def place(batch: FlowBatch, is_recovered: bool) -> Sequence[bytes]:
        """Return the annotation of each event that is delivered now, out of order: own events of an
        earlier process, and events that were not delivered within
        `broker.cluster.withheld_events.ORDER_SECONDS`; without `is_recovered` those that have
        waited for their types."""


#: Makes the transport on the links of the network of clusters for a context.
ClusterFactory: TypeAlias = Callable[[ITransportContext], IStreamTransport]


class ITransportPlugin(IStackPlugin):
    """A stream transport, found through `twisted.plugin`."""

    guarantees: frozenset[Guarantee] = Attribute("promises beyond those of every transport")
    links: str = Attribute("link stack below it by default; empty if it has no links of its own")

    def create(context: ITransportContext) -> IStreamTransport:
        """Return an instance. Raises `ConfigurationError` for options that do not fit."""


class IGroupPlugin(ITransportPlugin):
    """A transport whose streams only some nodes carry: others refuse them."""

    def sites_of(options: object) -> Sequence[str]:
        """Return the names of these nodes."""
