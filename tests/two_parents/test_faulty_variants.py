"""The contract finds variants of the example that leave out one of its precautions."""

from __future__ import annotations

import unittest
from collections.abc import Hashable, Sequence

import msgspec
import pytest
from two_parents.messages import Events, Interest, decode
from two_parents.stop_and_wait import StopAndWait, stop_and_wait
from two_parents.transport import TwoParents, TwoParentsPlugin

from broker.streams.contract import FlowBatch, ITransportContext
from broker.transport.layer import ILayer
from broker.transport.stacks import StackSettings
from tests.two_parents import test_contract

GOOD = "test_three_nodes_get_each_event_once_and_in_order"
DAMAGE = "test_damaged_datagrams_damage_no_event"
FOREIGN = "test_messages_of_strangers_change_nothing"
FEED = "test_events_of_an_origin_outside_come_by_the_feeder"
LATE = "test_subscriptions_that_begin_while_events_flow_get_all_that_follow"


class Unnumbered(TwoParents):
    """Accepts batches that an earlier interest selected."""

    def _receive(self, message: Events, peer: Hashable) -> None:
        number = self._interest.number
        super()._receive(msgspec.structs.replace(message, interest=number), peer)


class Forgetful(TwoParents):
    """Lets the ranges of a child go on when its interest changes."""

    def _set_child(self, peer: Hashable, interest: Interest) -> None:
        child = self._children.get(peer)
        unsent = {} if child is None else dict(child.unsent)
        super()._set_child(peer, interest)
        self._children[peer].unsent = unsent


class Unfed(TwoParents):
    """Ignores the events of its feeder."""

    def recovered(self, batch: FlowBatch) -> None:
        """Do nothing."""


class Trusting(TwoParents):
    """Does not expect strangers."""

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        for message in messages:
            decode(message)
        super().messages_received(peer, messages)


class UncheckedLinks(StopAndWait):
    """Does not detect damage."""

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return super().layers(settings)[1:]


def failures(
    variant: type[TwoParents], *tests: str, stack: StopAndWait = stop_and_wait
) -> set[str]:
    class Plugin(TwoParentsPlugin):
        def create(self, context: ITransportContext) -> TwoParents:
            return variant(context)

    class Case(test_contract.TestTwoParents):
        plugin = Plugin()
        links = stack

    result = unittest.TestResult()
    unittest.TestSuite(map(Case, tests)).run(result)
    return {test.id().rsplit(".", 1)[1] for test, _ in result.failures + result.errors}


@pytest.mark.parametrize("variant", [Unnumbered, Forgetful])
def test_a_batch_that_an_older_interest_selected_is_found_out(variant: type[TwoParents]) -> None:
    assert failures(variant, GOOD, LATE) == {LATE}


def test_a_fed_transport_that_passes_nothing_on_is_found_out() -> None:
    assert failures(Unfed, GOOD, FEED) == {FEED}


def test_trust_in_strangers_is_found_out() -> None:
    assert failures(Trusting, GOOD, FOREIGN) == {FOREIGN}


def test_undetected_damage_is_found_out() -> None:
    assert failures(TwoParents, GOOD, DAMAGE, stack=UncheckedLinks()) == {DAMAGE}
