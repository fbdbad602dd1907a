"""The contract tests, on the shipped stacks and on a faulty one."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config import value_kind
from broker.config.setting import setting
from broker.testing.stack_contract import StackContract
from broker.transport.effects import DeliverUp, Effect
from broker.transport.layer import ILayer, ILinkLayer, LinkPassThrough, Property
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import IProtocolStack, StackSettings, Transport, find_stack


class TestMspaces(StackContract, unittest.TestCase):
    stack = find_stack("mspaces")


class Careless(LinkPassThrough):
    """Loses every seventh message, and treats input as a number without a check."""

    count = 0

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        kept = []
        for packet in packets:
            self.count += 1
            if packet[:1] not in (b"", b"a", b"\0", *(b"%d" % digit for digit in range(10))):
                raise ValueError(packet[:20])
            if self.count % 7:
                kept.append(packet)
        return [DeliverUp(kept)] if kept else []


@implementer(ILinkLayer)
@attrs.frozen
class CarelessLayer:
    name: ClassVar[str] = "careless"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset(Property)
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> Careless:
        return Careless()


@attrs.frozen
class CarelessOptions:
    undescribed: int = 1
    forbidden: int = setting(value_kind.count(1, 2), 3, "A number.")


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class CarelessStack:
    name: ClassVar[str] = "careless"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "for this test"
    options: ClassVar[type] = CarelessOptions
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.TCP})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return [P2PLayer(incarnation=settings.incarnation), CarelessLayer()]


class BareStack(CarelessStack):
    """Without p2p it receives foreign bytes."""

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return [CarelessLayer()]


def failures(stack: IProtocolStack) -> set[str]:
    case = type("Case", (StackContract, unittest.TestCase), {"stack": stack})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return {test.id().rsplit(".", 1)[1] for test, _ in result.failures + result.errors}


def test_a_stack_that_loses_messages_and_does_not_check_is_found_out() -> None:
    found = failures(CarelessStack())
    assert "test_each_option_is_a_setting_whose_default_is_allowed" in found
    assert "test_messages_of_any_size_arrive_as_they_were_sent" in found
    assert "test_nothing_is_lost_or_doubled_by_connections_that_break" in found
    assert "test_no_timer_is_left_when_both_ends_have_closed" not in found


def test_a_stack_that_trusts_strangers_is_found_out() -> None:
    found = failures(BareStack())
    assert "test_foreign_bytes_end_a_connection_but_not_the_stack" in found
    assert "test_a_peer_that_takes_nothing_stops_the_sender" in found
