"""The contracts of both kinds of stack, on the example's."""

from __future__ import annotations

import unittest

import pytest
from two_parents.stop_and_wait import StopAndWaitOptions, stop_and_wait
from two_parents.transport import TwoParentsOptions, two_parents

from broker.testing.annotation_contract import AnnotationContract
from broker.testing.feeder_contract import FeederContract
from broker.testing.stack_contract import StackContract
from broker.testing.transport_contract import TransportContract


def listen_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


class TwoParentsCase(AnnotationContract, FeederContract, TransportContract):
    plugin = two_parents
    annotates_received = True

    def node_options(self, number: int) -> TwoParentsOptions:
        """The two nodes before are the parents."""
        parents = [listen_of(each) for each in range(max(0, number - 2), number)]
        return TwoParentsOptions(listen=listen_of(number), parents=tuple(parents))


class TestTwoParents(TwoParentsCase, unittest.TestCase):
    links = stop_and_wait
    link_options = StopAndWaitOptions()
    seeds = range(1)


@pytest.mark.soak
class TestTwoParentsLong(TestTwoParents):
    seeds = range(1, 20)


class TestStopAndWait(StackContract, unittest.TestCase):
    stack = stop_and_wait
