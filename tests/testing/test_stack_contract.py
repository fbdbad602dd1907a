"""The contract tests, on faulty stacks."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import pytest
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config import value_kind
from broker.config.setting import setting
from broker.testing.stack_contract import StackContract
from broker.transport.effects import DeliverUp, Effect
from broker.transport.layer import ILayer, ILinkLayer, LinkPassThrough, Property
from broker.transport.message import Message, Peer
from broker.transport.multicast import MulticastLayer
from broker.transport.multicast.core import MulticastCore
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import IProtocolStack, StackSettings, Transport


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


class Partial(MulticastCore):
    """Sends nothing to the last of several destinations, and reports that it was sent."""

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        effects = super().submit(messages, now)
        return effects[:-2] + effects[-1:] if len(effects) > 2 else effects


class Overtaking(MulticastCore):
    """Delivers the messages of a batch in the wrong order."""

    def receive(self, messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        return [DeliverUp(messages[::-1], peer)]


class Unfair(MulticastCore):
    """Calls a full peer present, and all others full with it."""

    def writable_changed(self, peer: Peer, writable: bool, now: float) -> list[Effect]:
        for each in list(self._states):
            super().writable_changed(each, writable, now)
        return []


@implementer(ILayer)
@attrs.frozen
class BadMulticastLayer(MulticastLayer):
    core: Callable[[], MulticastCore]
    more: frozenset[Property]

    @property
    def provides(self) -> frozenset[Property]:  # type: ignore[override]
        return MulticastLayer.provides | self.more

    def create_core(self) -> MulticastCore:
        return self.core()


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class BadMulticastStack:
    core: Callable[[], MulticastCore]
    more: frozenset[Property] = frozenset()
    name: ClassVar[str] = "bad multicast"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "for this test"
    options: ClassVar[type] = CarelessOptions
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.TCP})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        layer = P2PLayer(
            incarnation=settings.incarnation,
            suspect=settings.suspect,
            send_buffer_bytes=2**22,
            window_bytes=2**20,
        )
        return [layer, BadMulticastLayer(self.core, self.more)]


ACCEPTED = "test_each_option_is_a_setting_whose_default_is_allowed"
SIZES = "test_messages_of_any_size_arrive_as_they_were_sent"
FULL = "test_a_peer_that_takes_nothing_stops_the_sender"
FOREIGN = "test_foreign_bytes_end_a_connection_but_not_the_stack"
TIMERS = "test_no_timer_is_left_when_all_ends_have_closed"
SLOW = "test_a_slow_peer_slows_no_other"
TWO_ENDS = "test_two_ends_keep_what_the_stack_provides_over_each_fault"
THREE_ENDS = "test_three_ends_keep_what_the_stack_provides_over_each_fault"
NINE_ENDS = "test_nine_ends_keep_what_the_stack_provides_over_each_fault"


def failures(stack: IProtocolStack, *tests: str) -> set[str]:
    """Return the failed ones of the named tests."""
    case = type("Case", (StackContract, unittest.TestCase), {"stack": stack})
    result = unittest.TestResult()
    unittest.TestSuite(map(case, tests)).run(result)
    assert result.testsRun == len(tests)
    return {test.id().rsplit(".", 1)[1] for test, _ in result.failures + result.errors}


def test_a_stack_that_loses_messages_and_does_not_check_is_found_out() -> None:
    found = failures(CarelessStack(), ACCEPTED, SIZES, TWO_ENDS, TIMERS)
    assert found == {ACCEPTED, SIZES, TWO_ENDS}


def test_a_stack_that_trusts_strangers_is_found_out() -> None:
    assert failures(BareStack(), FOREIGN, FULL) == {FOREIGN, FULL}


def test_a_good_layer_in_their_place_fails_nothing() -> None:
    good = BadMulticastStack(MulticastCore)
    assert failures(good, ACCEPTED, SIZES, FULL, FOREIGN, TIMERS, SLOW) == {ACCEPTED}
    assert failures(good, TWO_ENDS, THREE_ENDS, NINE_ENDS) == set()


def test_a_stack_that_leaves_a_destination_out_is_found_out() -> None:
    assert failures(BadMulticastStack(Partial), THREE_ENDS, SIZES) == {THREE_ENDS}


def test_a_stack_that_reorders_the_messages_of_a_sender_is_found_out() -> None:
    assert failures(BadMulticastStack(Overtaking), THREE_ENDS) == {THREE_ENDS}


def test_a_stack_that_stops_all_peers_for_a_slow_one_is_found_out() -> None:
    assert failures(BadMulticastStack(Unfair), SLOW) == {SLOW}


@pytest.mark.parametrize(
    ("more", "where"),
    # Two ends have messages of two senders in common if there is a fourth.
    [(Property.TOTAL_ORDER, NINE_ENDS), (Property.AGREED_MEMBERSHIP, THREE_ENDS)],
)
def test_a_stack_that_provides_less_than_it_says_is_found_out(more: Property, where: str) -> None:
    assert failures(BadMulticastStack(MulticastCore, frozenset({more})), where) == {where}
