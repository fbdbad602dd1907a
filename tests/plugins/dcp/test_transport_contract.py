"""The contract of stream transports, on `dcp`."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

import pytest

from broker.config.stacks import DEFAULT_STACK
from broker.testing.feeder_contract import FeederContract
from broker.testing.transport_case import TransportCase
from broker.testing.transport_contract import TransportContract
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links


def address_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


class DcpCase(TransportCase):
    plugin = dcp_transport
    links = dcp_links
    link_options = DcpLinkOptions()
    content = "dynamic"
    roots: Sequence[int] = (0,)

    def node_options(self, number: int) -> DcpOptions:
        roots = tuple(map(address_of, self.roots))
        return DcpOptions(udp=address_of(number), roots=roots, content=self.content, children=4)

    def reached_nodes(self, names: Sequence[str]) -> Sequence[str]:
        """The feeder brings them to the roots."""
        roots = [f"n{number}" for number in self.roots]
        return [name for name in names if name not in roots]

    def network(self, seed: int, count: int = 3, **options: Any) -> Any:
        """Publishers may be at any node: the root gets their events by the feeder."""
        options["feed"] = DEFAULT_STACK
        return super().network(seed, count, **options)


class TestTwoRoots(FeederContract, TransportContract, DcpCase, unittest.TestCase):
    """With dynamic content."""

    roots = fed = (0, 1)
    seeds = (0,)


class StaticCase(DcpCase):
    content = "static"
    seeds = (1,)


class TestOneStaticRoot(FeederContract, StaticCase, unittest.TestCase):
    """The feeder's part of the contract has queries, restarts and faults."""


@pytest.mark.soak
class TestOneStaticRootLong(FeederContract, TransportContract, StaticCase, unittest.TestCase):
    """The whole contract."""
