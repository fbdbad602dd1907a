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


class TestMspacesInstanceWithLinks(TestMspacesInstance):
    """Its frames have links of their own."""

    link_options = MspacesSettings(window_bytes=1 << 20)


class TestOtherTransport(AnnotationContract, OtherTransportContract, unittest.TestCase):
    """Its batches are late, or lost."""

    transport = AnnotatingTransport
    seeds = range(1)


class TestReannotatingTransport(AnnotationContract, OtherTransportCase, unittest.TestCase):
    transport = ReannotatingTransport
    annotates_received = True


class TestOrderingTransport(OrderingTransportContract, unittest.TestCase):
    """Its batches are late, overtake each other, or are lost."""

    seeds = range(1)


@pytest.mark.soak
class TestMspacesLong(TestMspaces):
    seeds = range(1, 20)


@pytest.mark.soak
class TestMspacesInstanceLong(TestMspacesInstance):
    seeds = range(1, 20)


@pytest.mark.soak
class TestMspacesInstanceWithLinksLong(TestMspacesInstanceWithLinks):
    seeds = range(1, 20)


@pytest.mark.soak
class TestOtherTransportLong(TestOtherTransport):
    seeds = range(1, 20)


@pytest.mark.soak
class TestOrderingTransportLong(TestOrderingTransport):
    seeds = range(1, 20)
