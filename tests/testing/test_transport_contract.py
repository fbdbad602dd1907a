"""The contract of a stream transport, on faulty ones."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import ClassVar

import attrs
import pytest
from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch, ITransportContext
from broker.testing.annotation_contract import AnnotationContract
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.ordering_transport import OrderingEnd, OrderingTransportContract
from tests.simulation.network.other_transport import (
    AnnotatingTransport,
    OtherEnd,
    OtherTransport,
    OtherTransportContract,
    ReannotatingTransport,
)

GOOD = "test_three_nodes_get_each_event_once_and_in_order"
LOSS = "test_lost_datagrams_lose_no_event"
STOP = "test_no_timer_is_left_when_a_node_has_stopped"
OPTIONS = "test_each_option_is_a_setting_whose_default_is_allowed"
CUT = "test_a_node_that_was_cut_off_gets_all_events_after_the_healing"
INTERFACES = "test_the_plug_in_and_its_instances_implement_their_interfaces"
PARTS = "test_the_parts_of_the_suite_that_the_transport_needs_are_mixed_in"
ORDER = "test_three_nodes_deliver_events_of_all_in_one_order"
ANNOTATIONS = "test_all_logs_have_the_annotations_of_the_origin"


class EmptyRanges(OtherEnd):
    """Sends the range of a batch that it loses, without its events."""

    def publish(self, batch: FlowBatch) -> None:
        if self._transport.loses(0):
            batch = attrs.evolve(batch, events=[])
        self._send(batch)

    def _send(self, batch: FlowBatch) -> None:
        for name, end in self._transport.ends.items():
            if end is not self and name in self._transport.world.running:
                end._context.receive(batch)


class NoBegin(OtherEnd):
    """Lets each batch begin at the first place."""

    def publish(self, batch: FlowBatch) -> None:
        super().publish(attrs.evolve(batch, after=(0, 0)))


class WrongBegin(EmptyRanges):
    """Lets each batch that it sends begin where the one before ended, sent or lost."""

    _upto: Mark | None = None

    def publish(self, batch: FlowBatch) -> None:
        after, self._upto = self._upto or batch.after, batch.upto
        if self._transport.loses(0):
            self._upto = after
        else:
            self._send(attrs.evolve(batch, after=after))


class Raising(OtherEnd):
    def publish(self, batch: FlowBatch) -> None:
        if len(batch.events) > 0:
            raise KeyError(batch.flow)


class Idle(OtherEnd):
    def publish(self, batch: FlowBatch) -> None:
        """Carry nothing."""


class Restless(OtherEnd):
    """Has a timer that does not end."""

    def start(self) -> None:
        self._context.clock.callLater(60.0, self.start)


class Endless(OtherEnd):
    """Never stops."""

    def stop(self) -> Deferred[None]:
        return Deferred()


@attrs.frozen
class Undescribed:
    size: int = 1


def failures(end: type[OtherEnd], *tests: str, options: type | None = None) -> set[str]:
    """Return the failed ones of the named tests of a transport with these ends."""

    class Transport(OtherTransport):
        def create(self, context: ITransportContext) -> OtherEnd:
            made = self.ends[context.node] = end(self, context)
            return made

    if options is not None:
        Transport.options = options

    class Case(OtherTransportContract, unittest.TestCase):
        transport: ClassVar[type[OtherTransport]] = Transport
        # The first seed does not find `NoBegin`.
        seeds: ClassVar[Sequence[int]] = (1,)

    return failures_of(Case, *tests)


def failures_of(case: type[unittest.TestCase], *tests: str) -> set[str]:
    result = unittest.TestResult()
    unittest.TestSuite(map(case, tests)).run(result)
    assert result.testsRun == len(tests)
    return {test.id().rsplit(".", 1)[1] for test, _ in result.failures + result.errors}


def test_a_good_transport_in_their_place_fails_nothing() -> None:
    assert failures(OtherEnd, GOOD, LOSS, STOP, OPTIONS, INTERFACES) == set()


def test_a_transport_that_claims_ranges_that_it_lost_is_found_out() -> None:
    assert failures(EmptyRanges, GOOD, LOSS) == {LOSS}
    assert failures(WrongBegin, GOOD, LOSS) == {LOSS}


def test_a_transport_that_drops_the_begin_of_batches_is_found_out() -> None:
    assert LOSS in failures(NoBegin, LOSS)


def test_a_transport_that_raises_is_found_out() -> None:
    assert failures(Raising, GOOD, LOSS, OPTIONS) == {GOOD, LOSS}


def test_a_transport_that_carries_nothing_is_found_out() -> None:
    assert failures(Idle, GOOD, LOSS) == {GOOD}


def test_a_transport_that_does_not_stop_is_found_out() -> None:
    assert failures(Restless, GOOD, STOP) == {STOP}
    assert failures(Endless, GOOD, STOP) == {STOP}


def test_options_without_a_description_are_found_out() -> None:
    assert failures(OtherEnd, OPTIONS, INTERFACES, options=Undescribed) == {OPTIONS}


class ArrivalOrder(OrderingEnd):
    """Hands batches over as they arrive."""

    def take(self, number: int, batch: FlowBatch) -> None:
        if self._transport.ends.get(self.context.node) is self:
            self.context.receive(batch)


class OwnFirst(OrderingEnd):
    """Does not wait for the order of own events."""

    def publish(self, batch: FlowBatch) -> None:
        self.context.receive(batch)
        super().publish(batch)


class EarlyRanges(OrderingEnd):
    """Passes on the range of a batch whose events it withholds. Without an event it shows no place,
    until another one does."""

    def take(self, number: int, batch: FlowBatch) -> None:
        if number > self._next and self._transport.ends.get(self.context.node) is self:
            self.context.receive(attrs.evolve(batch, events=[]))
        super().take(number, batch)


def order_failures(variant: type[OrderingEnd], *tests: str) -> set[str]:
    class Case(OrderingTransportContract, unittest.TestCase):
        end: ClassVar[type[OrderingEnd]] = variant
        seeds: ClassVar[Sequence[int]] = range(1)

    return failures_of(Case, *tests)


def test_a_good_ordering_transport_in_their_place_fails_nothing() -> None:
    assert order_failures(OrderingEnd, GOOD, ORDER, PARTS) == set()


@pytest.mark.parametrize("variant", [ArrivalOrder, OwnFirst])
def test_a_transport_that_keeps_no_order_is_found_out(variant: type[OrderingEnd]) -> None:
    assert order_failures(variant, GOOD, ORDER) == {ORDER}


def test_a_transport_that_passes_on_ranges_of_events_that_it_withholds_is_found_out() -> None:
    assert order_failures(EarlyRanges, GOOD, ORDER) == {ORDER}


class DroppedAnnotations(AnnotatingTransport):
    """Passes events on without their annotations."""

    def __init__(self, world: NetworkWorld, delay: float = 0.02) -> None:
        super().__init__(world, delay)
        self.annotate_received = no_annotation


def no_annotation(event: CarriedEvent) -> bytes:
    return b""


def annotation_failures(variant: type[OtherTransport], *tests: str) -> set[str]:
    class Case(AnnotationContract, OtherTransportContract, unittest.TestCase):
        transport: ClassVar[type[OtherTransport]] = variant
        seeds: ClassVar[Sequence[int]] = range(1)

    return failures_of(Case, *tests)


def test_a_good_annotating_transport_in_their_place_fails_nothing() -> None:
    assert annotation_failures(AnnotatingTransport, GOOD, ANNOTATIONS, PARTS) == set()


@pytest.mark.parametrize("variant", [DroppedAnnotations, ReannotatingTransport])
def test_a_transport_that_changes_annotations_is_found_out(variant: type[OtherTransport]) -> None:
    assert annotation_failures(variant, GOOD, ANNOTATIONS) == {ANNOTATIONS}


def test_a_missing_part_of_the_suite_is_found_out() -> None:
    class Case(OtherTransportContract, unittest.TestCase):
        transport: ClassVar[type[OtherTransport]] = AnnotatingTransport

    assert failures_of(Case, GOOD, PARTS) == {PARTS}


def test_a_seed_decides_the_whole_run() -> None:
    def run(seed: int) -> tuple[list[str], float]:
        case = OtherTransportContract()
        with case.network(seed) as network:
            case.subscribe_and_publish(network)
            network.settle()
            (reader,) = network.readers["all-n1"]
            places = [str(event.place) for event in reader.events]
            return places, network.world.random.random()

    assert run(1) == run(1) != run(2)
