"""The contract of a stack, on stacks of the layers above raw datagrams."""

from __future__ import annotations

import unittest
from random import Random
from typing import ClassVar

from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.testing.stack_contract import StackContract
from broker.transport.arq import ConnectionLayer, FragmentationLayer, MacLayer, PacingLayer
from broker.transport.layer import ILayer
from broker.transport.multicast import MulticastLayer
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import IProtocolStack, StackSettings
from tests.transport.stop_and_wait import StopAndWaitLayer, StopAndWaitStack

SECRET = MacLayer(secret=b"of all ends")


@implementer(IPlugin, IProtocolStack)
class NodeLinks(StopAndWaitStack):
    """The layers of links between nodes, with the repair of losses as one of them."""

    name: ClassVar[str] = "node links"

    def layers(self, settings: StackSettings) -> list[ILayer]:
        incarnation = settings.incarnation
        return [
            SECRET,
            ConnectionLayer(dials=True, entropy=Random(incarnation).randbytes),
            P2PLayer(incarnation=incarnation, suspect=settings.suspect),
            MulticastLayer(),
        ]


@implementer(IPlugin, IProtocolStack)
class Fragments(StopAndWaitStack):
    name: ClassVar[str] = "fragments"

    def layers(self, settings: StackSettings) -> list[ILayer]:
        incarnation = settings.incarnation
        return [
            PacingLayer(rate=1e6),
            SECRET,
            FragmentationLayer(incarnation=incarnation),
            StopAndWaitLayer(incarnation=incarnation),
        ]


class TestNodeLinks(StackContract, unittest.TestCase):
    stack = NodeLinks()


class TestFragments(StackContract, unittest.TestCase):
    stack = Fragments()
