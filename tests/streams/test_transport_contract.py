"""The contract of a stream transport, on the default one and on those of the simulations."""

from __future__ import annotations

import unittest

import pytest

from broker.config.stacks import DEFAULT_STACK
from broker.streams.contract import ITransportPlugin
from broker.testing.annotation_contract import AnnotationContract
from broker.testing.transport_contract import TransportContract
from broker.transport.stacks import find_plugin, find_stack
from plugins.mspaces.settings import MspacesSettings
from tests.contract_parts import check_parts
from tests.simulation.network.ordering_transport import OrderingTransportContract
from tests.simulation.network.other_transport import (
    AnnotatingTransport,
    OtherTransportCase,
    OtherTransportContract,
    ReannotatingTransport,
)


class TestMspaces(TransportContract, unittest.TestCase):
    plugin = find_plugin(ITransportPlugin, DEFAULT_STACK)
    links = find_stack(DEFAULT_STACK)
    is_default = True
    seeds = range(1)


class TestMspacesInstance(TransportContract, unittest.TestCase):
    """An instance beside the default stack, in the same network of clusters."""

    plugin = find_plugin(ITransportPlugin, DEFAULT_STACK)
    links = find_stack(DEFAULT_STACK)
    seeds = range(1)


@pytest.mark.soak
class TestMspacesInstanceWithLinks(TestMspacesInstance):
    """Its frames have links of their own."""

    link_options = MspacesSettings(window_bytes=1 << 20)
    seeds = range(20)


@pytest.mark.parametrize(
    "part",
    [
        "test_three_nodes_get_each_event_once_and_in_order",
        "test_foreign_connections_change_nothing",
        "test_a_subscribers_node_that_restarts_takes_its_place_again",
        "test_no_timer_is_left_when_a_node_has_stopped",
    ],
)
def test_an_instance_with_links_of_its_own_keeps_the_contract(part: str) -> None:
    check_parts(TestMspacesInstanceWithLinks, part)


@pytest.mark.soak
class TestOtherTransport(AnnotationContract, OtherTransportContract, unittest.TestCase):
    """Its batches are late, or lost. In each run of the suite, `two_parents` is tested so."""

    transport = AnnotatingTransport
    seeds = range(20)


@pytest.mark.soak
class TestReannotatingTransport(AnnotationContract, OtherTransportCase, unittest.TestCase):
    transport = ReannotatingTransport
    annotates_received = True


@pytest.mark.soak
class TestOrderingTransport(OrderingTransportContract, unittest.TestCase):
    """Its batches are late, overtake each other, or are lost.

    In each run of the suite, `rcm` is tested so.
    """

    seeds = range(20)


@pytest.mark.soak
class TestMspacesLong(TestMspaces):
    seeds = range(1, 20)


@pytest.mark.soak
class TestMspacesInstanceLong(TestMspacesInstance):
    seeds = range(1, 20)
