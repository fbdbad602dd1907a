"""Attacks on requests that nodes on the way forward, and on their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import msgspec

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.network_question import Question, Reply
from broker.cluster.replicas.messages import REPLICA_EVENTS
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import NumberedMessage, RoutedMessage
from broker.errors import Overloaded
from broker.event.flow import origin_of
from broker.recovery.messages import DurablesFound, FetchPage, PageFetched
from broker.streams.contract import CarriedEvent
from broker.testing.simulated_network import NetworkWorld
from broker.wire.codec import pack
from tests.simulation.network.adversary import FRAME, Adversary, Attack

_NO_MESSAGES = (FRAME, bytes([REPLICA_EVENTS]))


@attrs.define
class RoutedAttack(Attack):
    """Changes of the routed messages that one node sends or forwards."""

    network: Any = None
    """Of the adversary."""

    @property
    def own(self) -> Address:
        address: Address = self.network.state.address
        return address

    def alter_sending(self, data: bytes, is_event: bool) -> Sequence[bytes]:
        decoded = None if data[:1] in _NO_MESSAGES else messages.decode(data)
        if not isinstance(decoded, RoutedMessage):
            return [data]
        altered = self.alter_routed(decoded)
        if altered == decoded:
            return [data]
        self.count += 1
        return [] if altered is None else [messages.encode(altered)]

    def alter_routed(self, message: RoutedMessage) -> RoutedMessage | None:
        """Return the message that is sent in place of one; None: it is dropped."""
        return message

    def receive(self, message: RoutedMessage) -> None:
        """See a message for the adversary's node."""

    def send(self, message: RoutedMessage) -> None:
        self.network.driver.send_routed(message)


@attrs.define
class FalsePages(RoutedAttack):
    """Answers page requests in the name of the node that was asked."""

    def alter_routed(self, message: RoutedMessage) -> RoutedMessage | None:
        if not isinstance(message, FetchPage) or message.source == self.own:
            return message
        self.send(self.make_page(message))
        return None

    def make_page(self, request: FetchPage) -> PageFetched:
        return PageFetched(request.source, request.target, MAX_HOPS, request.request)


class ErrorPages(FalsePages):
    """The node can not read its log."""

    def make_page(self, request: FetchPage) -> PageFetched:
        error = Overloaded("too many nodes ask for pages").to_wire()
        return msgspec.structs.replace(super().make_page(request), error=error)


class EmptyPages(FalsePages):
    """The node has the log, and no events match."""

    def make_page(self, request: FetchPage) -> PageFetched:
        reached = tuple((origin, *(upto or (1, 1000))) for origin, _, upto in request.ranges)
        origin = origin_of(request.ranges[0][0])
        page = super().make_page(request)
        return msgspec.structs.replace(page, reached=reached, origin=origin)


class LatePages(FalsePages):
    """The node has the log, but retention has removed the events."""

    def make_page(self, request: FetchPage) -> PageFetched:
        begins = tuple((origin, *(upto or (1, 1000))) for origin, _, upto in request.ranges)
        origin = origin_of(request.ranges[0][0])
        page = super().make_page(request)
        return msgspec.structs.replace(page, begins=begins, origin=origin)


class OtherQueries(RoutedAttack):
    """Requests pages of later places than the reader."""

    def alter_routed(self, message: RoutedMessage) -> RoutedMessage | None:
        if not isinstance(message, FetchPage) or message.source == self.own:
            return message
        return msgspec.structs.replace(message, query="/no-such-event")


@attrs.define
class FalseSurveys(RoutedAttack):
    """Answers questions in the name of all nodes: none has an event. It sends none itself."""

    names: Sequence[Address] = ()

    def alter_events(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        return []

    def alter_sending(self, data: bytes, is_event: bool) -> Sequence[bytes]:
        return [] if data[:1] == FRAME else super().alter_sending(data, is_event)

    def alter_routed(self, message: RoutedMessage) -> RoutedMessage | None:
        if not isinstance(message, Reply):
            return message
        nothing = tuple((str(each), pack(())) for each in self.names)
        return msgspec.structs.replace(message, answers=nothing, silent=())


class FalseSearches(RoutedAttack):
    """No node of its cluster has a durable subscription."""

    def alter_routed(self, message: RoutedMessage) -> RoutedMessage | None:
        if not isinstance(message, DurablesFound):
            return message
        return msgspec.structs.replace(message, found=(), is_complete=True)


@attrs.define
class FalseSources(RoutedAttack):
    """Answers what a node asks others next, in their names."""

    names: Sequence[Address] = ()
    _MOST: ClassVar[int] = 20

    def receive(self, message: RoutedMessage) -> None:
        if not isinstance(message, Question | FetchPage):
            return
        reader = message.source
        for number in range(message.request - self._MOST, message.request + self._MOST):
            for each in self.names:
                if each not in (self.own, reader) and number >= 0:
                    self.count += 1
                    self.send(self._answer(reader, each, number, message))

    def _answer(
        self, reader: Address, source: Address, number: int, message: NumberedMessage
    ) -> RoutedMessage:
        if isinstance(message, Question):
            nothing = tuple((str(each), pack(())) for each in self.names)
            return Reply(reader, source, MAX_HOPS, number, nothing, (), 0)
        error = Overloaded("too many nodes ask for pages").to_wire()
        return PageFetched(reader, source, MAX_HOPS, number, error=error)


def attack_routed(world: NetworkWorld, name: str, attack: RoutedAttack) -> Adversary:
    """Let a node attack. Its own messages pass through the attack too."""
    attack.network = network = world.network_of(name)
    deliver = network.driver.on_other_message

    def receive(message: RoutedMessage) -> None:
        attack.receive(message)
        deliver(message)

    network.driver.on_other_message = receive
    return Adversary(world, name, attack)
