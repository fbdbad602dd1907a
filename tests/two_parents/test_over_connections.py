"""The example's transport over the link stack `mspaces`, on connections in virtual time."""

from __future__ import annotations

import unittest

import pytest
from two_parents.transport import TwoParentsOptions, two_parents

from broker.testing.transport_contract import TransportContract
from plugins.mspaces.stack import mspaces


def listen_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


class TestOverConnections(TransportContract, unittest.TestCase):
    plugin = two_parents
    links = mspaces

    def node_options(self, number: int) -> TwoParentsOptions:
        """The two nodes before are the parents."""
        parents = [listen_of(each) for each in range(max(0, number - 2), number)]
        return TwoParentsOptions(listen=listen_of(number), parents=tuple(parents))


@pytest.mark.soak
class TestOverConnectionsLong(TestOverConnections):
    seeds = range(2, 20)
