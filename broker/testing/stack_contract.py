"""Contract tests for every implementation of IProtocolStack.

Mix the class into a `unittest.TestCase` and set `stack`, and `options` where the defaults do not
fit. Properties that a stack does not provide are not tested.
"""

from __future__ import annotations

import tomllib
import unittest
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, ClassVar

import attrs
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.config.setting import settings_of
from broker.errors import BrokerError, Overloaded
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import StackDriver
from broker.transport.layer import ILayer, ILayerCore, ILinkCore, ILinkLayer, Property
from broker.transport.message import Peer
from broker.transport.socket.contract import TCP_PROPERTIES, ISocketChannel
from broker.transport.stack_receiver import IStackReceiver
from broker.transport.stacks import IProtocolStack, StackSettings, Transport, build_stack
from broker.transport.view import View

#: A stack may hold so much for a peer that reads nothing, before it stops its user.
MAX_BUFFERED = 256 * 1024 * 1024
#: In seconds of virtual time.
TICK = 0.01

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


@implementer(IStackReceiver)
class StackEnd:
    """End with a user that records messages and optionally consumes them."""

    def __init__(self, driver: StackDriver, errors: list[Exception]) -> None:
        self.driver = driver.join("peer")
        self.errors = errors
        self.consumes = True
        self.messages: list[bytes] = []
        self.views: list[View] = []
        driver.receiver = self

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self.messages += messages
        if self.consumes:
            self.driver.consumed(len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        self.views.append(view)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        """Tests read the driver's state."""


class StackLink:
    def __init__(self, stack: IProtocolStack, options: object, seed: int = 0) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, seed, latency=0.005, jitter=0.005)
        self.one, self.other = (self._end(stack, options, life) for life in (1, 2))
        self.network.listen("other", self.other.driver.attach)
        self.connect()

    def _end(self, stack: IProtocolStack, options: object, incarnation: int) -> StackEnd:
        settings = StackSettings(incarnation=incarnation, options=options)
        built = build_stack(stack, settings, TCP_PROPERTIES)
        errors: list[Exception] = []
        driver = StackDriver(built.layers, self.clock, bottom=built.bottom, on_error=errors.append)
        return StackEnd(driver, errors)

    def connect(self) -> None:
        """Replace an existing connection."""
        self.network.connect("other").addCallback(self.one.driver.attach)
        self.run(0.1)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.clock.advance(TICK)


class StackContract(_Base):
    """Tests of a stack, which must support TCP's properties."""

    stack: ClassVar[IProtocolStack]
    options: ClassVar[object] = None

    def _provides(self, *properties: Property) -> bool:
        settings = StackSettings(incarnation=1, options=self.options)
        return build_stack(self.stack, settings, TCP_PROPERTIES).provides.issuperset(properties)

    def _link(self, seed: int = 0) -> StackLink:
        return StackLink(self.stack, self.options, seed)

    def test_stack_layers_and_cores_implement_their_interfaces(self) -> None:
        self.assertTrue(verifyObject(IProtocolStack, self.stack))
        self.assertIn(Transport.TCP, self.stack.transports)
        settings = StackSettings(incarnation=1, options=self.options)
        for layer in self.stack.layers(settings):
            self.assertTrue(verifyObject(ILayer, layer))
            core = ILinkCore if ILinkLayer.providedBy(layer) else ILayerCore
            self.assertTrue(verifyObject(core, layer.create_core()))

    def test_each_option_is_a_setting_whose_default_is_allowed(self) -> None:
        settings = settings_of(self.stack.options)
        self.assertEqual(set(settings), {each.name for each in attrs.fields(self.stack.options)})
        defaults = self.stack.options()
        for name, (_, described) in settings.items():
            default = getattr(defaults, name)
            (written,) = tomllib.loads(f"value = {described.kind.write(default)}").values()
            self.assertEqual(described.kind.read(written), default, name)

    def test_messages_of_any_size_arrive_as_they_were_sent(self) -> None:
        link = self._link()
        sent = [b"", b"a", bytes(100_000), *(b"%d" % number for number in range(500))]
        link.one.driver.send(sent)
        link.other.driver.send(sent[::-1])
        link.run(2.0)
        if self._provides(Property.RELIABLE, Property.FIFO):
            self.assertEqual(link.other.messages, sent)
            self.assertEqual(link.one.messages, sent[::-1])
        self.assertEqual(link.one.errors + link.other.errors, [])

    def test_nothing_is_lost_or_doubled_by_connections_that_break(self) -> None:
        if not self._provides(Property.RESUMABLE):
            self.skipTest("the stack does not provide it")
        for seed in range(20):
            random = Random(seed)
            link = self._link(seed)
            sent = [b"%d" % number for number in range(200)]
            for message in sent:
                link.one.driver.send([message])
                link.run(random.choice((0.0, TICK)))
                if random.random() < 0.1:
                    link.network.cut("other")
                    link.run(random.choice((0.0, TICK, 1.0)))
                    link.connect()
            link.run(5.0)
            self.assertEqual(link.other.messages, sent, f"seed {seed}")

    def test_a_peer_that_takes_nothing_stops_the_sender(self) -> None:
        """Memory is bounded, and the peers stay connected."""
        if not self._provides(Property.BACKPRESSURE):
            self.skipTest("the stack does not provide it")
        link = self._link()
        link.other.consumes = False
        message = bytes(64 * 1024)
        taken = 0
        with self.assertRaises(Overloaded):
            while taken < MAX_BUFFERED:
                link.one.driver.send([message] * 16)
                taken += 16 * len(message)
                link.run(TICK)
        self.assertFalse(link.one.driver.is_writable)
        link.run(60.0)
        self.assertTrue(link.one.driver.is_attached)
        link.other.consumes = True
        link.other.driver.consumed(len(link.other.messages))
        link.run(5.0)
        self.assertTrue(link.one.driver.is_writable)

    def test_foreign_bytes_end_a_connection_but_not_the_stack(self) -> None:
        random = Random(1)
        link = self._link()
        for length in (1, 2, 5, 13, 46, 200, 5000):
            strangers: list[ISocketChannel] = []
            link.network.connect("other").addCallback(strangers.append)
            link.run(0.1)
            strangers[0].send([random.randbytes(length) for _ in range(3)])
            link.run(0.1)
            self.assertEqual(link.other.errors, [])
            self.assertIsNone(link.other.driver.failure)
            for view in link.other.views:
                self.assertIsInstance(view.error, BrokerError | None)
        link.connect()
        link.one.driver.send([b"after"])
        link.run(0.1)
        self.assertEqual(link.other.messages, [b"after"])

    def test_no_timer_is_left_when_both_ends_have_closed(self) -> None:
        link = self._link()
        link.one.driver.send([b"a"])
        link.run(0.1)
        link.one.driver.close()
        link.other.driver.close()
        link.run(0.2)
        self.assertEqual(link.clock.getDelayedCalls(), [])
