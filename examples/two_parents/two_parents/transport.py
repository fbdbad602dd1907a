"""A transport with two parents for each node: events go up to both, and down by interest.

The parents of all nodes form a graph without circles. A node announces the interest of its
subscriptions and of its children to its parents. An event goes up from its origin to all ancestors,
and from each of them down to the children with interest. So each node gets an event twice.

A node without parents may be fed: it gets the events of origins outside the graph by the feeder.

The annotation of an event is the number of its links so far, a byte. It ends a circle of parents.

Interest has a number, and each batch for a child names the one that selected its events. A node
drops a batch that an earlier interest selected: it may lack events, which then come from the log.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import attrs
from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.task import LoopingCall
from twisted.plugin import IPlugin
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.config import value_kind
from broker.config.setting import required_setting, setting
from broker.errors import BadQuery, Overloaded, ProtocolError
from broker.event.place import Mark
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    Guarantee,
    IAnnotatingTransport,
    ILinkReceiver,
    ILinks,
    ITransportContext,
    ITransportPlugin,
)
from broker.transport.view import LinkState
from two_parents.messages import Events, Interest, decode, encode

#: Flows with a state for each child; the batches of others go to all children.
MOST_FLOWS = 10_000
#: Intervals without its interest after which a child is gone.
SILENT_INTERVALS = 5
#: Links on the way of one event.
MOST_HOPS = 32


@attrs.frozen(kw_only=True)
class TwoParentsOptions:
    listen: str = required_setting(
        value_kind.HOST_PORT, "Address of this node.", shown='"127.0.0.1:9001"'
    )
    parents: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.HOST_PORT, most=2), (), "Addresses of the parents."
    )
    announce: float = setting(
        value_kind.duration(0.1, 60.0), 1.0, "Interval at which interest is announced again."
    )
    most_children: int = setting(value_kind.count(1, 10_000), 100, "Children of this node.")


@attrs.define
class _Child:
    heard: float = 0.0
    interest: Interest = Interest(0, ())
    #: Interest that the feeder does not select by yet.
    awaited: Interest = Interest(0, ())
    #: Batches that begin before these marks may lack events for the interest.
    selected_after: dict[str, Mark] = attrs.field(factory=dict)
    #: For each flow the range of the next batch so far: events without a reader are left out.
    unsent: dict[str, tuple[Mark, Mark]] = attrs.field(factory=dict)

    def number_for(self, batch: FlowBatch, after: Mark) -> int:
        """Return the number of the interest by which a range was selected; 0 for an older one."""
        begins = self.selected_after.get(batch.flow, (0, 0))
        return self.interest.number if after >= begins else 0

    def range_after(self, batch: FlowBatch) -> Mark:
        """Return the start of the range that ends with this batch."""
        after, upto = self.unsent.get(batch.flow, (batch.after, batch.after))
        return after if batch.after <= upto else batch.after


@implementer(ILinkReceiver, IAnnotatingTransport)
class TwoParents:
    def __init__(self, context: ITransportContext) -> None:
        options = context.options
        assert isinstance(options, TwoParentsOptions)
        self._context = context
        self._options = options
        self._parents: list[Hashable] = []
        self._links: ILinks | None = None
        # The numbers of an earlier process must not come again.
        self._interest = Interest(context.random.getrandbits(62), ())
        self._children: dict[Hashable, _Child] = {}
        self._own: dict[str, CarriedInterest] = {}
        #: For each flow the end of the newest range that was passed on.
        self._passed: dict[str, Mark] = {}
        self._is_fed = False
        self._repeated = self._outdated = self._rejected = 0
        self._ticks = LoopingCall(self._tick)
        self._ticks.clock = context.clock  # type: ignore[assignment]

    def listen(self) -> None:
        if not self._options.parents:
            self._is_fed = self._context.request_feed()
        self._links = self._context.open_links(self._options.listen, self)
        addresses = map(value_kind.split_host_port, self._options.parents)
        self._parents = [self._links.add_peer(address) for address in addresses]

    def start(self) -> None:
        ticking = self._ticks.start(self._options.announce)
        ticking.addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        assert isinstance(failure.value, Exception)
        self._context.fail(failure.value)

    def stop(self) -> Deferred[None]:
        if self._ticks.running:
            self._ticks.stop()
        links, self._links = self._links, None
        if links is not None:
            links.close()
        return succeed(None)

    def announce(self, key: str, interest: CarriedInterest) -> None:
        self._own[key] = interest
        self._announce()

    def withdraw(self, key: str) -> None:
        if self._own.pop(key, None) is not None:
            self._announce()

    def annotate(self, events: Sequence[CarriedEvent]) -> Sequence[bytes]:
        return [b"\0"] * len(events)

    def publish(self, batch: FlowBatch) -> None:
        self._pass_on(batch, None)

    def recovered(self, batch: FlowBatch) -> None:
        if self._is_fed:
            self._pass_on(batch, None)

    def snapshot(self) -> Mapping[str, object]:
        return {
            "parents": list(self._options.parents),
            "children": len(self._children),
            "flows": len(self._passed),
            "repeated": self._repeated,
            "outdated": self._outdated,
            "rejected": self._rejected,
        }

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        for data in messages:
            try:
                message = decode(data)
                if isinstance(message, Interest):
                    self._set_child(peer, message)
                elif peer in self._children or peer in self._parents:
                    self._receive(message, peer)
                else:
                    raise ProtocolError("events of a node that is neither parent nor child")
            except (ProtocolError, Overloaded, BadQuery):
                self._rejected += 1

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        """Silence shows that a child has gone."""

    def _set_child(self, peer: Hashable, interest: Interest) -> None:
        child = self._children.get(peer)
        if child is None:
            if len(self._children) >= self._options.most_children:
                raise Overloaded("this node has all its children")
            child = self._children[peer] = _Child()
        child.heard = self._context.clock.seconds()
        if interest.number in (child.interest.number, child.awaited.number):
            return
        child.awaited = interest
        selected = [
            self._context.set_link_interest(peer, str(number), each)
            for number, each in enumerate(interest.interests())
        ]
        gatherResults(selected).addCallback(self._adopt, peer, child, interest)

    def _adopt(
        self, marks: list[Mapping[str, Mark]], peer: Hashable, child: _Child, interest: Interest
    ) -> None:
        """Send by the new interest of a child from now on."""
        if child.awaited is not interest or self._children.get(peer) is not child:
            return
        for number in range(len(interest.queries), len(child.interest.queries)):
            self._context.set_link_interest(peer, str(number), None)
        child.interest = interest
        # Events left out until now were not matched with the new interest.
        child.unsent.clear()
        for flow, mark in (item for each in marks for item in each.items()):
            child.selected_after[flow] = max(mark, child.selected_after.get(flow, mark))
        self._announce()

    def _announce(self) -> None:
        """Announce all interest to the parents."""
        own = [(i.pattern.text, i.query, dict(i.namespaces)) for i in self._own.values()]
        below = [each for child in self._children.values() for each in child.interest.queries]
        wanted = (*own, *(each for each in below if each not in own))
        if wanted != self._interest.queries:
            self._interest = Interest(self._interest.number + 1, wanted)
        if self._links is not None and self._parents:
            self._links.send([encode(self._interest)], self._parents)

    def _tick(self) -> None:
        oldest = self._context.clock.seconds() - SILENT_INTERVALS * self._options.announce
        for peer in [peer for peer, child in self._children.items() if child.heard < oldest]:
            child = self._children.pop(peer)
            for number in range(max(len(child.interest.queries), len(child.awaited.queries))):
                self._context.set_link_interest(peer, str(number), None)
        self._announce()

    def _receive(self, message: Events, peer: Hashable) -> None:
        if peer in self._parents and message.interest != self._interest.number:
            self._outdated += 1
            return
        batch = message.batch()
        batch = attrs.evolve(batch, events=list(map(_with_hop, batch.events)))
        if batch.upto > self._passed.get(batch.flow, (0, 0)):
            self._pass_on(batch, peer)
        else:
            # The other parent was quicker, or lost it.
            self._repeated += 1
        self._context.receive(batch)

    def _pass_on(self, batch: FlowBatch, source: Hashable) -> None:
        if len(self._passed) < MOST_FLOWS or batch.flow in self._passed:
            self._passed[batch.flow] = batch.upto
        if source not in self._parents:
            self._send(Events.of(batch, 0), *self._parents)
        links = self._context.match(batch)
        for peer, child in self._children.items():
            if peer == source:
                continue
            after = child.range_after(batch)
            wanted = [e for e, those in zip(batch.events, links, strict=True) if peer in those]
            if wanted:
                part = attrs.evolve(batch, after=after, events=wanted)
                self._send(Events.of(part, child.number_for(batch, after)), peer)
                after = batch.upto
            if batch.flow in self._passed:
                child.unsent[batch.flow] = after, batch.upto

    def _send(self, message: Events, *peers: Hashable) -> None:
        if self._links is not None and peers:
            self._links.send([encode(message)], peers)


def _with_hop(event: CarriedEvent) -> CarriedEvent:
    """Raises `ProtocolError` for an event that has passed `MOST_HOPS`."""
    hops = (event.annotation or b"\0")[0] + 1
    if hops > MOST_HOPS:
        raise ProtocolError(f"an event with {hops} hops")
    return event.with_annotation(bytes((hops,)))


@implementer(IPlugin, ITransportPlugin)
@attrs.frozen
class TwoParentsPlugin:
    name: ClassVar[str] = "two_parents"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "two parents for each node, over its own links"
    options: ClassVar[type] = TwoParentsOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.REDUNDANCY})
    links: ClassVar[str] = "stop_and_wait"

    def create(self, context: ITransportContext) -> TwoParents:
        return TwoParents(context)


two_parents = TwoParentsPlugin()
