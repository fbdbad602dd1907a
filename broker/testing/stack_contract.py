"""Contract tests for every implementation of IProtocolStack, in virtual time.

Mix the class into a `unittest.TestCase` and set `stack`, and `options` where the defaults do not
fit. Properties that a stack does not provide are not tested. `stack_socket_contract` has tests over
real sockets.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, ClassVar

from zope.interface.verify import verifyObject

from broker.errors import BrokerError, Closed, Overloaded, StackError
from broker.testing.option_contract import check_options
from broker.testing.stack_network import (
    MakeFaults,
    MemoryWires,
    RawWires,
    StackEnd,
    StackNetwork,
    base_transport,
    build,
)
from broker.transport.faults import (
    CorruptLayer,
    DelayLayer,
    DiscardLayer,
    DuplicateLayer,
    PartitionLayer,
    ShuffleLayer,
    ThrottleLayer,
)
from broker.transport.layer import ILayer, ILayerCore, ILinkCore, ILinkLayer, Property
from broker.transport.message import Outcome
from broker.transport.socket.contract import ISocketChannel
from broker.transport.socket.datagram_demultiplexer import derive_tag
from broker.transport.stacks import IProtocolStack, StackSettings, Transport
from broker.transport.view import LinkState

#: A stack may hold so much for a peer that reads nothing, before it stops its user.
MAX_BUFFERED = 256 * 1024 * 1024

#: Fault layers of one link, made from a seed.
FAULTS: Mapping[str, Callable[[int], ILayer]] = {
    "corrupt": lambda seed: CorruptLayer(seed=seed, rate=0.02),
    "delay": lambda seed: DelayLayer(seed=seed, minimum=0.0, maximum=0.1),
    "discard": lambda seed: DiscardLayer(seed=seed, rate=0.02),
    "duplicate": lambda seed: DuplicateLayer(seed=seed, rate=0.05),
    "partition": lambda seed: PartitionLayer(schedule=[(1.5, 2.0 + seed % 2)]),
    "shuffle": lambda seed: ShuffleLayer(seed=seed, rate=0.02),
    "throttle": lambda seed: ThrottleLayer(bytes_per_second=50_000),
}

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


class StackContract(_Base):
    """Tests of a stack, over TCP if it supports that."""

    stack: ClassVar[IProtocolStack]
    options: ClassVar[object] = None

    def network(
        self,
        count: int = 2,
        seed: int = 0,
        *,
        transport: Transport | None = None,
        suspect: float = 0.0,
        make_faults: MakeFaults = lambda seed: (),
    ) -> StackNetwork:
        network = StackNetwork(
            self.stack,
            self.options,
            count=count,
            seed=seed,
            transport=transport,
            suspect=suspect,
            make_faults=make_faults,
        )
        self.addCleanup(network.close)
        return network

    def _provides(self, *properties: Property) -> bool:
        return build(self.stack, self.options).provides.issuperset(properties)

    # ----------------------------------------------------------------- the description

    def test_stack_layers_and_cores_implement_their_interfaces(self) -> None:
        self.assertTrue(verifyObject(IProtocolStack, self.stack))
        self.assertTrue(self.stack.transports)
        transport = base_transport(self.stack)
        settings = StackSettings(incarnation=1, transport=transport, options=self.options)
        for layer in self.stack.layers(settings):
            self.assertTrue(verifyObject(ILayer, layer))
            core = ILinkCore if ILinkLayer.providedBy(layer) else ILayerCore
            self.assertTrue(verifyObject(core, layer.create_core()))

    def test_each_option_is_a_setting_whose_default_is_allowed(self) -> None:
        check_options(self.stack.options)

    # ----------------------------------------------------------------- one link

    def test_messages_of_any_size_arrive_as_they_were_sent(self) -> None:
        network = self.network()
        one, other = network.ends
        largest = 100_000 if Property.ANY_SIZE in network.provides else 500
        sent = [b"", b"a", bytes(largest), *(b"%d" % number for number in range(500))]
        one.link(other).send(sent)
        other.link(one).send(sent[::-1])
        network.run_until(lambda: len(one.deliveries) == len(other.deliveries) == len(sent))
        if network.provides >= {Property.RELIABLE, Property.FIFO}:
            self.assertEqual(other.received_from(one), sent)
            self.assertEqual(one.received_from(other), sent[::-1])
        self.assertEqual(one.errors + other.errors, [])

    def test_a_peer_that_takes_nothing_stops_the_sender(self) -> None:
        """Memory is bounded, and the peers stay connected."""
        if not self._provides(Property.BACKPRESSURE):
            return
        network = self.network()
        one, other = network.ends
        other.consumes = False
        link, message, taken = one.link(other), bytes(64 * 1024), 0
        with self.assertRaises(Overloaded):
            while taken < MAX_BUFFERED:
                link.send([message] * 16)
                taken += 16 * len(message)
                network.run(0.01)
        self.assertFalse(link.is_writable)
        network.run(60.0)
        self.assertTrue(link.is_attached)
        other.consumes = True
        other.driver.consumed(one.name, len(other.deliveries))
        network.run(5.0)
        self.assertTrue(link.is_writable)

    def test_foreign_bytes_end_a_connection_but_not_the_stack(self) -> None:
        random = Random(1)
        network = self.network(3)
        one, other, third = network.ends
        if not isinstance(network.wires, MemoryWires):
            return  # There are no connections.
        for length in (1, 2, 5, 13, 46, 200, 5000):
            strangers: list[ISocketChannel] = []
            network.wires.network.connect(network.pair(one, other)).addCallback(strangers.append)
            network.run(0.1)
            strangers[0].send([random.randbytes(length) for _ in range(3)])
            network.run(0.1)
            self.assertEqual(other.errors, [])
            self.assertIsNone(other.link(one).failure)
            for view in other.views[one.name]:
                self.assertIsInstance(view.error, BrokerError | None)
        self.assertTrue(network.run_until(lambda: self._are_connected(one, other), 60.0))
        self.assertEqual(len(other.views[third.name]), 1)
        one.send(b"after", other)
        network.run(1.0)
        self.assertEqual(other.received_from(one)[-1:], [b"after"])

    def test_foreign_datagrams_change_nothing(self) -> None:
        """They come from strangers, or from the address of a peer."""
        network, random = self.network(), Random(1)
        one, other = network.ends
        if not isinstance(network.wires, RawWires):
            return
        pair, tag = network.pair(one, other), derive_tag(self.stack.name)
        for number in range(300):
            forged = random.randbytes(random.choice((1, 2, 5, 13, 46, 200, 1300)))
            source = ("stranger", str(number)) if number % 2 else ("dialler", pair)
            for datagram in (tag + forged, forged):
                network.wires.network.send_datagram(datagram, source, ("listener", pair))
            one.send(b"%d" % number, other)
            network.run(0.02)
        network.run(5.0)
        self.assertGreater(len(other.received_from(one)), 200)
        self.check(network)

    def test_no_timer_is_left_when_all_ends_have_closed(self) -> None:
        network = self.network(3)
        one, other, third = network.ends
        one.send(b"a", other, third)
        network.run(0.1)
        network.close()
        self.assertEqual(network.clock.getDelayedCalls(), [])

    # ----------------------------------------------------------------- several peers

    def test_a_message_has_an_outcome_for_each_destination(self) -> None:
        network = self.network(3)
        one, other, third = network.ends
        stranger = StackEnd("stranger", build(self.stack, self.options), network.clock)
        outcomes = one.send(b"1", other, stranger)
        self.assertEqual(outcomes, {other.name: Outcome.SENT, stranger.name: Outcome.ABSENT})
        network.run(1.0)
        self.assertEqual((third.deliveries, one.deliveries), ([], []))
        self.check(network)

    def test_a_slow_peer_slows_no_other(self) -> None:
        if not self._provides(Property.BACKPRESSURE, Property.ONE_TO_MANY):
            return
        network = self.network(3)
        one, slow, third = network.ends
        slow.consumes = False
        message, found, taken = bytes(256 * 1024), Outcome.SENT, 0
        while found is Outcome.SENT and taken < MAX_BUFFERED:
            outcomes = one.send(message, slow, third)
            self.assertIs(outcomes[third.name], Outcome.SENT)
            found = outcomes[slow.name]
            taken += len(message)
            network.run(0.05)
        self.assertIs(found, Outcome.FULL)
        self.assertEqual(len(third.deliveries), len(one.sent[third.name]))

    def test_a_removed_peer_leaves_nothing_and_may_join_again(self) -> None:
        network = self.network(3)
        one, other, third = network.ends
        one.driver.remove(other.name, Closed("removed"))
        other.driver.remove(one.name, Closed("removed"))
        before = len(one.views[other.name])
        self.assertEqual(
            one.send(b"x", other, third), {other.name: Outcome.ABSENT, third.name: Outcome.SENT}
        )
        network.run(5.0)
        self.assertEqual(len(one.views[other.name]), before)
        for end, peer in ((one, other), (other, one)):
            network.join(end, peer)
        network.connect(one, other)
        network.run(1.0)
        self.assertEqual(one.send(b"y", other, third)[other.name], Outcome.SENT)
        network.run(1.0)
        self.check(network)

    def test_a_broken_connection_is_suspected_before_it_is_given_up(self) -> None:
        if not self._provides(Property.RESUMABLE):
            return
        network = self.network(2, suspect=5.0)
        one, other = network.ends
        if not isinstance(network.wires, MemoryWires):
            return  # There are no connections.
        network.wires.network.refuse(network.pair(one, other))
        network.cut(one, other)
        network.run(4.0)
        self.assertIs(one.state_of(other), LinkState.SUSPECTED)
        self.assertEqual(one.send(b"kept", other), {other.name: Outcome.SENT})
        network.run(2.0)
        self.assertIs(one.state_of(other), LinkState.DISCONNECTED)
        self.assertEqual(one.send(b"refused", other), {other.name: Outcome.ABSENT})
        network.wires.network.heal(network.pair(one, other))
        network.run(2.0)
        self.assertIs(one.state_of(other), LinkState.CONNECTED)
        self.check(network)

    # ----------------------------------------------------------------- schedules

    def test_two_ends_keep_what_the_stack_provides_over_each_fault(self) -> None:
        for seed in range(3):
            self._run_with_faults(2, seed, steps=60)

    def test_three_ends_keep_what_the_stack_provides_over_each_fault(self) -> None:
        self._run_with_faults(3, 10, steps=60)

    def test_nine_ends_keep_what_the_stack_provides_over_each_fault(self) -> None:
        self._run_with_faults(9, 20, steps=30)

    def test_the_stack_keeps_what_it_provides_over_datagrams(self) -> None:
        if Transport.UDP not in self.stack.transports:
            return
        for count in (2, 3):
            network = self.network(count, count, transport=Transport.UDP, suspect=1.0)
            self._play(network, steps=40)
            self.check(network, f"{count} ends over UDP")

    def _run_with_faults(self, count: int, seed: int, steps: int) -> None:
        for name, make_faults in self._faults():
            try:
                network = self.network(
                    count, seed, suspect=float(seed % 2), make_faults=make_faults
                )
            except StackError:
                # The stack is refused where the fault breaks what it requires.
                continue
            self._play(network, steps)
            self.check(network, f"{count} ends, fault {name}, seed {seed}")

    def _faults(self) -> Iterator[tuple[str, MakeFaults]]:
        yield "none", lambda seed: ()
        for name, make in FAULTS.items():
            is_raw = base_transport(self.stack) is Transport.DATAGRAM
            if name == "corrupt" and is_raw and not self._provides(Property.AUTHENTICATED):
                # The system drops damaged datagrams itself.
                continue
            yield name, lambda seed, make=make: (make(seed),)  # type: ignore[misc]

    def _play(self, network: StackNetwork, steps: int) -> None:
        """Send to random peers while connections break, until all has arrived."""
        random = network.random
        breaks = Property.RESUMABLE in network.provides or random.random() < 0.5
        for number in range(steps):
            one = random.choice(network.ends)
            others = [end for end in network.ends if end is not one]
            peers = random.sample(others, random.randrange(1, len(others) + 1))
            for part in range(random.choice((1, 1, 3))):
                size = random.choice((0, 10, 1000))
                one.send(b"%s %d %d " % (one.name.encode(), number, part) + bytes(size), *peers)
            if breaks and random.random() < 0.05:
                network.cut(one, random.choice(others))
            network.run(random.choice((0.0, 0.01, 0.1)))
        network.run_until(network.has_all_arrived)
        network.run(1.0)

    # ----------------------------------------------------------------- the checks

    def check(self, network: StackNetwork, where: str = "") -> None:
        """Compare the messages sent and delivered with what the stack provides."""
        provides = network.provides
        loses_nothing = Property.RESUMABLE in provides or (
            Property.RELIABLE in provides and not network.cuts
        )
        keeps_order = bool(provides & {Property.FIFO, Property.SENDER_ORDER})
        for one in network.ends:
            self.assertEqual(one.errors, [], where)
            for other in network.ends:
                sent, received = one.sent[other.name], other.received_from(one)
                if loses_nothing and keeps_order:
                    self.assertEqual(received, sent, f"{where}: from {one.name} to {other.name}")
                elif loses_nothing:
                    self.assertEqual(sorted(received), sorted(sent), where)
                elif keeps_order:
                    places = [sent.index(message) for message in received]
                    self.assertEqual(places, sorted(set(places)), where)
        if Property.TOTAL_ORDER in provides:
            self._check_total_order(network.ends, where)
        if Property.AGREED_MEMBERSHIP in provides:
            self._check_membership(network.ends, where)

    def _check_total_order(self, ends: Sequence[StackEnd], where: str) -> None:
        for one in ends:
            for other in ends:
                common = set(one.deliveries) & set(other.deliveries)
                mine, theirs = ([e for e in end.deliveries if e in common] for end in (one, other))
                self.assertEqual(mine, theirs, f"{where}: {one.name} and {other.name}")

    def _check_membership(self, ends: Sequence[StackEnd], where: str) -> None:
        """All ends have reported the same states of a third, in the same order."""
        for third in ends:
            histories = {
                tuple(view.state for view in end.views[third.name])
                for end in ends
                if end is not third
            }
            self.assertEqual(len(histories), 1, f"{where}: views of {third.name}")

    @staticmethod
    def _are_connected(one: StackEnd, other: StackEnd) -> bool:
        return {one.state_of(other), other.state_of(one)} == {LinkState.CONNECTED}
