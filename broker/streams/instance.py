"""One instance of a stream transport in a node, guarded against its errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.errors import BrokerError, Closed, ConfigurationError, Overloaded
from broker.event.annotation import with_annotation
from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.streams.cleared_parts import HIGHEST_RANK, ClearedPart, split_at_withheld
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    IAnnotatingTransport,
    ILinkReceiver,
    ILinks,
    IOrderingTransport,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.streams.guarded_receiver import guard_receiver
from broker.streams.interest_transport import IInterestTransport, Marks
from broker.streams.link_key import LinkKey, links_of
from broker.streams.messaging import IMessagingTransport
from broker.streams.node_services import NodeServices
from broker.streams.site_statuses import SiteStatuses

#: Queries behind one link. A transport must replace more by wider ones.
MOST_QUERIES_PER_LINK = 10_000


@implementer(ITransportContext)
class TransportInstance:
    """One instance of a stream transport.

    An exception of the plug-in stops the instance with the reason. The events of its streams are
    then requested from the logs of their origins, and other instances continue.
    """

    log = Logger()

    def __init__(
        self,
        stack: StackInstance,
        plugin: ITransportPlugin,
        patterns: Sequence[StreamPattern],
        services: NodeServices,
    ) -> None:
        """Raises `ConfigurationError` for options that do not fit."""
        self.instance, self.clearance = stack.name, stack.clearance
        self.stack = self._stack = stack
        self.plugin, self.patterns = plugin, patterns
        self._pattern_texts = [pattern.text for pattern in patterns]
        self.options = plugin.options() if stack.options is None else stack.options
        self.node, self.origin, self.clock = services.node, services.origin, services.clock
        self.may_have_log, self.must_prove_log = services.may_have_log, services.must_prove_log
        self.wall_clock, self.random = services.wall_clock, services.random
        self.open_group = partial(services.open_group, stack)
        self.has_interest = partial(services.has_interest, stack.name)
        self.queue_memory, self.find_addresses = services.queue_memory, services.find_addresses
        self.folder, self.signing_key = services.folder / stack.name, services.signing_key
        self.public_keys, self.cluster = services.public_keys, services.cluster
        # The network of clusters judges each route itself.
        self._is_limited = stack.name != DEFAULT_STACK
        self._uses_network = stack.use == DEFAULT_STACK
        """True if the network of clusters carries its events: their targets are nodes."""
        self.error = ""
        """Reason of the stop by an error."""
        self.refusal = ""
        """Reason by which publications and subscriptions in its streams are refused."""
        self.published = self.received = 0
        """Events."""
        self.rejected = 0
        """Received batches with an invalid range, or a flow of another instance."""
        self._services = services
        self.statuses = SiteStatuses(stack.name, patterns, services.pass_notice)
        self._links: list[ILinks] = []
        self._is_fed = False
        self._queries: dict[Hashable, set[str]] = {}
        """Ids of interest by link."""
        self._matched: tuple[FlowBatch | None, Sequence[Collection[Hashable]]] = None, ()
        """Own events that are being published, with the targets for which they were matched."""
        self._matched_after: Mark = (0, 0)
        """Own events up to there were matched before the newest interest was set."""
        self._transport: IStreamTransport | None = None
        with self._guarded():
            self._transport = plugin.create(self)

    # ------------------------------------------------------------------ for the node

    def listen(self) -> None:
        """Raises `ConfigurationError`."""
        if self._transport is not None:
            with self._guarded():
                self._transport.listen()

    def start(self) -> None:
        if self.orders:
            # The network brings all missing events, also those that no subscription wants.
            self._announce_everything()
        self._call("start")

    def _announce_everything(self) -> None:
        everything = self._services.parse_query("true()", {})
        for pattern in self.patterns:
            interest = StreamInterest(pattern, everything)
            key = self.instance, pattern.text
            self._services.announce_interest(key, interest, lambda marks: None)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Let a wrong configuration stop the node, and another error this instance.

        An error of the network of clusters goes to the caller: nothing could take its place.
        """
        try:
            yield
        except ConfigurationError as wrong:
            raise ConfigurationError(f"stacks.{self.instance}: {wrong.text}") from None
        except Exception as error:
            if not self._is_limited:
                raise
            self.fail(error)

    def stop(self) -> Deferred[None]:
        transport, self._transport = self._transport, None
        if transport is None:
            return maybeDeferred(lambda: None)
        stopped: Deferred[Any] = maybeDeferred(transport.stop)
        return stopped.addErrback(self._log_failure).addCallback(lambda _: None)

    def announce(self, key: str, interest: CarriedInterest) -> Deferred[Marks] | None:
        """Return when and behind which marks it counts; None: at once."""
        if not any(pattern.overlaps(interest.pattern) for pattern in self.patterns):
            return None
        active = self._call("announce", key, interest)
        return active if self.provides(IInterestTransport) else None

    @property
    def announces_alone(self) -> bool:
        """True if other nodes learn of its interest by the transport. A fed one takes all events
        from the network."""
        is_agreed = self._services.is_agreed(self._pattern_texts)
        return self.provides(IInterestTransport) and not self._is_fed and is_agreed

    def withdraw(self, key: str) -> None:
        self._call("withdraw", key)

    @property
    def annotates(self) -> bool:
        """True if the transport gives annotations to own events."""
        return bool(IAnnotatingTransport.providedBy(self._transport))

    def annotate(self, events: Sequence[CarriedEvent]) -> Sequence[bytes]:
        """Return the records of own events with the transport's annotations, before their commit.

        After an error they are unchanged.
        """
        found = self._call("annotate", events) if self.annotates else None
        return self._with_annotations(events, found)

    def _with_annotations(
        self, events: Sequence[CarriedEvent], found: Sequence[bytes] | None
    ) -> Sequence[bytes]:
        records = [event.record for event in events]
        if found is None:
            return records
        try:
            return [with_annotation(*each) for each in zip(records, found, strict=True)]
        except Exception as error:
            self.fail(error)
            return records

    @property
    def orders(self) -> bool:
        """True if the transport decides when received events are delivered."""
        return bool(IOrderingTransport.providedBy(self._transport))

    def order(self, batch: FlowBatch, is_recovered: bool) -> None:
        self._call("order", batch, is_recovered)

    def take_back(self, flow: str, after: Mark, upto: Mark | None) -> None:
        if self.orders:
            self._call("take_back", flow, after, upto)

    def revoke(self) -> None:
        if self.orders:
            self._call("revoke")

    def place(self, batch: FlowBatch, is_recovered: bool) -> Sequence[CarriedEvent]:
        """Return events with the annotations of `IOrderingTransport.place`."""
        found = self._call("place", batch, is_recovered) if self.orders else None
        records = self._with_annotations(batch.events, found)
        return [each._replace(record=one) for each, one in zip(batch.events, records, strict=True)]

    def provides(self, interface: Any) -> bool:
        """Return whether its transport answers questions of an interface."""
        return bool(interface.providedBy(self._transport))

    def ask(self, interface: Any, question: Callable[[Any], object]) -> object:
        """Return the transport's answer to a question. Raises `BrokerError`."""
        if not self.provides(interface):
            raise Closed(f"the stack {self.instance} does not run")
        try:
            return question(self._transport)
        except BrokerError:
            raise
        except Exception as error:
            self.fail(error)
            raise Closed(f"the stack {self.instance} has stopped") from None

    @property
    def messaging(self) -> IMessagingTransport | None:
        """The transport, if it runs and carries messages of applications."""
        return self._transport if IMessagingTransport.providedBy(self._transport) else None

    def publish(self, batch: FlowBatch, targets: Sequence[Collection[Hashable]]) -> None:
        """Carry own events, each with the links that want it among its targets."""
        for part, part_targets in self._cleared_parts(batch, targets):
            self.published += len(part.events)
            if part.after >= self._matched_after:
                self._matched = part, part_targets
            self._call("publish", part)
            self._matched = None, ()

    def recovered(self, batch: FlowBatch) -> None:
        if self._uses_network:  # They came in frames, or in pages.
            self.received += len(batch.events)
        for part, _ in self._cleared_parts(batch, ()):
            self._call("recovered", part)

    def _cleared_parts(
        self, batch: FlowBatch, targets: Sequence[Collection[Hashable]]
    ) -> Iterator[ClearedPart]:
        rank = self._stack.clearance.rank if self._is_limited else HIGHEST_RANK
        return split_at_withheld(batch, targets, rank)

    def _own_links(self, targets: Collection[Hashable]) -> frozenset[Hashable]:
        if self._uses_network:
            return frozenset(each for each in targets if not isinstance(each, LinkKey))
        return links_of(self.instance, targets)

    def snapshot(self) -> dict[str, Any]:
        own: Mapping[str, object] = self._call("snapshot") or {}
        return {
            "name": self.instance,
            "use": self.plugin.name,
            "version": self.plugin.version,
            "streams": self._pattern_texts,
            "guarantees": sorted(each.value for each in self.plugin.guarantees),
            "error": self.error,
            **({"refusal": self.refusal} if self.refusal else {}),
            "published": self.published,
            # Frames are counted in `network.arrivals`.
            **(
                {"received": self.received, "rejected_batches": self.rejected}
                if self._is_limited
                else {}
            ),
            **({"links": [each.snapshot() for each in self._links]} if self._links else {}),
            **own,
        }

    def _call(self, method: str, *arguments: object) -> Any:
        if self._transport is None:
            return None
        call: Callable[..., Any] = getattr(self._transport, method)
        try:
            return call(*arguments)
        except Exception as error:
            if not self._is_limited:
                raise
            self.fail(error)
            return None

    def _log_failure(self, failure: Failure) -> None:
        self.log.failure("the stack {name} did not stop well", failure, name=self.instance)

    # ------------------------------------------------------------------ for the transport

    def open_links(self, listen: str, receiver: ILinkReceiver) -> ILinks:
        guarded = guard_receiver(self, receiver)
        links = self._services.open_links(self._stack, listen, guarded)
        self._links.append(links)
        return links

    def receive(self, batch: FlowBatch) -> None:
        if self._transport is None:
            # The log may be closed.
            return
        if pattern_of(batch.flow) in self._pattern_texts and self._services.receive(batch):
            self.received += len(batch.events)
        else:
            self.rejected += 1

    def deliver(self, batch: FlowBatch) -> None:
        if self._transport is None:
            return
        if pattern_of(batch.flow) not in self._pattern_texts or not self._services.deliver(batch):
            self.rejected += 1

    def read_log_end(self) -> Deferred[Sequence[CarriedEvent]]:
        return self._services.read_log_end(self._pattern_texts)

    def coverage_of(self, flow: str) -> Mark:
        return self._services.coverage_of(flow)

    def release_earlier(self) -> Deferred[None]:
        return self._services.release_earlier(self._pattern_texts)

    def request_feed(self) -> bool:
        if self._stack.feed and not self._is_fed:
            self._is_fed = True
            self._services.request_feed(self._pattern_texts)
            # It covers all interest of links.
            self._announce_everything()
        return self._is_fed

    def set_link_interest(
        self, link: Hashable, key: str, interest: CarriedInterest | None
    ) -> Deferred[Mapping[str, Mark]]:
        destination = LinkKey(self.instance, link)
        known = self._queries.get(link, set())
        if interest is None:
            known.discard(key)
            if not known:
                self._queries.pop(link, None)
            self._remove_interest(destination, key)
            return succeed({})
        if key not in known and len(known) >= MOST_QUERIES_PER_LINK:
            raise Overloaded(f"more than {MOST_QUERIES_PER_LINK} queries behind the link {link}")
        query = self._services.parse_query(interest.query, interest.namespaces)
        self._queries[link] = known
        wanted = StreamInterest(interest.pattern, query)
        self._services.link_interest.install(destination, key, wanted)
        known.add(key)
        self._matched_after = self._services.own_end
        if not self._is_fed:
            return succeed({})
        active: Deferred[Mapping[str, Mark]] = Deferred()

        def on_active(marks: Mapping[str, Mark]) -> None:
            # Interest is active again after the node has joined another cluster.
            if not active.called:
                active.callback(marks)

        self._services.announce_interest((destination, key), wanted, on_active)
        return active

    def _remove_interest(self, destination: LinkKey, key: str) -> None:
        self._services.link_interest.remove(destination, key)
        if self._is_fed:
            self._services.withdraw_interest((destination, key))

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        matched, targets = self._matched
        found = targets if matched is batch else self._services.match(batch)
        # Few of a batch's targets differ. Equal ones may differ in their type.
        links = {key: self._own_links(key[1]) for key in {(type(each), each) for each in found}}
        return [links[type(each), each] for each in found]

    def notify(self, notice: SiteNotice) -> None:
        if self._transport is not None:
            self.statuses.notify(notice)

    def refuse(self, reason: str) -> None:
        self.refusal = reason

    def fail(self, error: Exception) -> None:
        self.log.failure(
            "the stack {name} has stopped; its events come from the logs of their origins",
            Failure(error),
            name=self.instance,
        )
        self.error = f"{type(error).__name__}: {error}"
        for link, ids in self._queries.items():
            for id in ids:
                self._remove_interest(LinkKey(self.instance, link), id)
        self._queries.clear()
        orders = self.orders
        self.statuses.close()
        self.stop()
        if orders:
            self._services.release_ordered(self._pattern_texts)
        self._services.announce_all(self.patterns)
