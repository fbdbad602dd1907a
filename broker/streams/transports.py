"""The stream transports of a node: one instance for each stack that its configuration names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from operator import methodcaller
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, gatherResults

from broker.config import Settings
from broker.config.stacks import DEFAULT_STACK, FindPlugins, find_plugins_of
from broker.errors import ClearanceTooLow, NotInGroup, UnknownStack
from broker.event.envelope import SecurityLevel
from broker.event.flow import CarryingPatterns, pattern_of, precedence
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.ingest.authorisation import Carriage
from broker.matching.query.query import Query
from broker.streams.annotator import AnnotateEntries, Annotator
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    Guarantee,
    IGroupPlugin,
)
from broker.streams.instance import TransportInstance
from broker.streams.interest_transport import Marks
from broker.streams.leaf_contract import ILeafTransport
from broker.streams.leaf_services import LeafServices
from broker.streams.messaging import IGroupClient, Receive
from broker.streams.node_services import NodeServices
from broker.streams.ticket import (
    TICKET_SECONDS,
    ClientTicket,
    Ticket,
    encode_ticket,
    sign_ticket,
)
from broker.streams.tracing_transport import ITracingTransport, NodePart

EVERYTHING = StreamPattern.parse(">")


def carrying_patterns(settings: Settings) -> CarryingPatterns:
    """Return the patterns of streams with another stack than the default one, and those of the
    default one that take streams from them."""
    others = [stream.pattern for stream in settings.streams if stream.stack != DEFAULT_STACK]
    return CarryingPatterns.parse(
        stream.pattern.text
        for stream in settings.streams
        if stream.stack != DEFAULT_STACK
        or any(
            wider.overlaps(stream.pattern) and precedence(wider) < precedence(stream.pattern)
            for wider in others
        )
    )


def ordered_patterns(settings: Settings, find_plugins: FindPlugins) -> CarryingPatterns | None:
    """Return the patterns of transports that decide the order of delivery; None without a
    network."""
    if settings.network.is_standalone:
        return None
    return CarryingPatterns.parse(
        pattern.text
        for pattern in carrying_patterns(settings).patterns
        if Guarantee.ONE_ORDER
        in find_plugins(settings.stack(settings.stream_stack(pattern)))[0].guarantees
    )


def transports_by_pattern(
    settings: Settings, find_plugins: FindPlugins
) -> dict[str, tuple[str, int, Sequence[str]]]:
    """Return name and version of the transport of each pattern of `carrying_patterns`, and the
    nodes that alone carry its streams."""
    found: dict[str, tuple[str, int, Sequence[str]]] = {}
    for pattern in carrying_patterns(settings).patterns:
        stack = settings.stack(settings.stream_stack(pattern))
        plugin = find_plugins(stack)[0]
        is_group = IGroupPlugin.providedBy(plugin)
        sites = cast(IGroupPlugin, plugin).sites_of(stack.options) if is_group else ()
        found[pattern.text] = plugin.name, plugin.version, sites
    return found


class StreamTransports(Carriage):
    """Distributes committed events and interest among the transports."""

    def __init__(
        self,
        settings: Settings,
        services: NodeServices,
        find_plugins: FindPlugins = find_plugins_of,
    ) -> None:
        """Raises `ConfigurationError` for options that do not fit together."""
        self._services = services
        self._carrying = carrying_patterns(settings)
        carried = {pattern: settings.stream_stack(pattern) for pattern in self._carrying.patterns}
        self._by_pattern: dict[str, TransportInstance] = {}
        self._instances: dict[str, TransportInstance] = {}
        for name in dict.fromkeys((DEFAULT_STACK, *carried.values())):
            patterns = [pattern for pattern, stack in carried.items() if stack == name]
            default = [EVERYTHING] if name == DEFAULT_STACK else []
            stack = settings.stack(name)
            instance = self._instances[name] = TransportInstance(
                stack, find_plugins(stack)[0], [*default, *patterns], services
            )
            self._by_pattern.update((pattern.text, instance) for pattern in patterns)
        # The default flow has no pattern.
        self._by_pattern[""] = self._instances[DEFAULT_STACK]
        self._announced: dict[Hashable, tuple[str, CarriedInterest]] = {}
        """Interest by key, with the key's name for the transports."""
        self._last_key = 0

    def __iter__(self) -> Iterator[TransportInstance]:
        return iter(self._instances.values())

    def listen(self) -> None:
        """Raises `ConfigurationError`."""
        for instance in self:
            instance.listen()
            if instance.provides(ILeafTransport):
                accept = methodcaller("accept_leaves", LeafServices(self._services, instance))
                instance.ask(ILeafTransport, accept)

    def sign_ticket(
        self, stack: str, client_id: str, pattern: StreamPattern, rank: int
    ) -> ClientTicket:
        """Return a ticket with which a client joins a mesh. `rank` is that of its clearance."""
        expires = self._services.wall_clock() + int(TICKET_SECONDS * 1000)
        services = self._services
        ticket = Ticket(stack, client_id, (pattern.text,), rank, expires)
        signed = sign_ticket(ticket, services.origin, services.signing_key)
        key = services.ticket_key
        return ClientTicket.derive(encode_ticket(signed, key), key)

    def start(self) -> None:
        for instance in self:
            instance.start()

    def stop(self) -> Deferred[None]:
        return gatherResults([instance.stop() for instance in self]).addCallback(lambda _: None)

    @property
    def version(self) -> object:
        return [each.refusal for each in self], self._services.carriage_version()

    def check_carriage(self, stream: str, level: SecurityLevel) -> None:
        """Raises `ClearanceTooLow` for an event above the level of a group that orders its stream
        (X12): it could not have a place in the order; `NotInGroup` as `check_pattern`."""
        self.check_pattern(StreamPattern.parse(stream))
        instance = self._by_pattern[self.pattern_of_stream(stream)]
        if instance.orders and level.rank > instance.clearance.rank:
            raise ClearanceTooLow(
                f"the event's security level is {level.value!r}, the sites of the stack "
                f"{instance.instance!r} see events up to {instance.clearance.value!r}"
            )

    def open_client(self, stack: str, name: str, receive: Receive | None = None) -> IGroupClient:
        """Return a new client of a stack's group, as `IMessagingTransport.open_client`.

        Raises `UnknownStack` for a stack that does not run, or carries no messages.
        """
        instance = self._instances.get(stack)
        messaging = None if instance is None else instance.messaging
        if messaging is None:
            raise UnknownStack(f"no stack {stack} runs that carries messages of applications")
        client: IGroupClient = messaging.open_client(name, receive)
        return client

    def check_pattern(self, pattern: StreamPattern) -> None:
        """Raises `NotInGroup` for streams of a group that has other nodes as its sites (X17)."""
        own = next((each for each in self._carrying.patterns if each.covers(pattern)), None)
        if own is not None and (reason := self._by_pattern[own.text].refusal):
            raise NotInGroup(f"{pattern.text}: {reason}")
        sites = self._services.find_group(pattern)
        if sites:
            names = ", ".join(sites)
            raise NotInGroup(f"{pattern.text} belongs to a group of other nodes: {names}")

    def publish(self, batch: FlowBatch, targets: Sequence[Collection[Hashable]]) -> None:
        """Carry committed own events of one flow, each with its targets.

        A flow whose pattern is no longer configured is closed, and only read from the log.
        """
        instance = self._by_pattern.get(pattern_of(batch.flow))
        if instance is not None:
            instance.publish(batch, targets)

    def make_annotator(self, own_end: Callable[[], Mark]) -> AnnotateEntries | None:
        """Return a function that gives the transports' annotations to own events before their
        commit; None if no transport has any. `own_end` returns the last given place."""
        if any(self._by_pattern[each.text].annotates for each in self._carrying.patterns):
            return Annotator(self._carrying, self._by_pattern, own_end).annotate_entries
        return None

    def recovered(self, batch: FlowBatch) -> None:
        """Pass on events that came from the log of their origin."""
        instance = self._by_pattern.get(pattern_of(batch.flow))
        if instance is not None:
            instance.recovered(batch)

    def orders(self, flow: str) -> bool:
        """Return whether a running transport decides when events of a flow are delivered."""
        instance = self._by_pattern.get(pattern_of(flow))
        return instance is not None and instance.orders

    def order(self, batch: FlowBatch, is_recovered: bool) -> None:
        """Give received events to the transport that decides when they are delivered."""
        self._by_pattern[pattern_of(batch.flow)].order(batch, is_recovered)

    def take_back(self, flow: str, after: Mark, upto: Mark | None = None) -> None:
        """Tell an ordering transport that delivered events of a flow were not logged."""
        self._by_pattern[pattern_of(flow)].take_back(flow, after, upto)

    def revoke(self) -> None:
        """Tell ordering transports that the commit of own events has failed."""
        for instance in self:
            instance.revoke()

    def place(self, batch: FlowBatch, is_recovered: bool) -> Sequence[CarriedEvent]:
        """Return events that are delivered out of order, with the transport's annotations."""
        instance = self._by_pattern.get(pattern_of(batch.flow))
        return batch.events if instance is None else instance.place(batch, is_recovered)

    def announce(
        self, key: Hashable, pattern: StreamPattern, query: Query
    ) -> Sequence[Deferred[Marks]]:
        """Announce interest under a key, or replace that of the key.

        Return when, and behind which marks, it counts at each transport that states this.
        """
        self.withdraw(key)
        self._last_key += 1
        interest = CarriedInterest(pattern, query.text, dict(query.namespaces))
        return self._set_interest(key, str(self._last_key), interest)

    def announce_alone(self, pattern: StreamPattern) -> bool:
        """Return whether transports that provide `IInterestTransport` carry all streams of a
        pattern, and announce the interest in them to the nodes that send them."""
        found = [each for each in self._carrying.patterns if each.overlaps(pattern)]
        return any(each.covers(pattern) for each in found) and all(
            self._by_pattern[each.text].announces_alone for each in found
        )

    def set_queue_policy(self, key: Hashable, policy: str) -> None:
        """Announce another policy with the interest of a key."""
        if key in self._announced:
            name, interest = self._announced[key]
            if interest.queue != policy:
                self._set_interest(key, name, attrs.evolve(interest, queue=policy))

    def _set_interest(
        self, key: Hashable, name: str, interest: CarriedInterest
    ) -> Sequence[Deferred[Marks]]:
        self._announced[key] = name, interest
        found = [instance.announce(name, interest) for instance in self]
        return [each for each in found if each is not None]

    def withdraw(self, key: Hashable) -> None:
        name, _ = self._announced.pop(key, ("", None))
        if name:
            for instance in self:
                instance.withdraw(name)

    def find_statuses(self, pattern: StreamPattern | None) -> list[SiteNotice]:
        """Return the present notices about sites whose stacks carry streams of a pattern."""
        return [notice for instance in self for notice in instance.statuses.find(pattern)]

    def pattern_of_stream(self, stream: str) -> str:
        """Return the carrying pattern of a stream; empty: the default stack carries it."""
        found = self._carrying.find_pattern(stream)
        return "" if found is None else found.text

    def stack_of(self, flow: str) -> str:
        """Return the name of the instance that carries a flow."""
        return self.describe_stack(pattern_of(flow))["name"]

    def describe_stack(self, pattern: str) -> dict[str, str]:
        """Return `name`, transport (`use`) and `error` of the instance that carries a pattern;
        empty texts for a pattern that no instance carries."""
        found = self._by_pattern.get(pattern)
        if found is None:
            return {"name": "", "use": "", "error": ""}
        return {"name": found.instance, "use": found.plugin.name, "error": found.error}

    def trace(self, flow: str, mark: Mark) -> NodePart | None:
        """Return this node's part of the paths of an event, as `ITracingTransport.trace`; None if
        no running transport remembers them."""
        instance = self._by_pattern.get(pattern_of(flow))
        if instance is None or not instance.provides(ITracingTransport):
            return None
        part = instance.ask(ITracingTransport, lambda each: each.trace(flow, mark))
        return cast(NodePart | None, part)

    def snapshot(self) -> list[dict[str, Any]]:
        return [instance.snapshot() for instance in self]
