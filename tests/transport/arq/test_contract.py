"""The contract of a stack, on stacks of the layers above raw datagrams."""

from __future__ import annotations

import unittest
from random import Random
from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.testing.stack_contract import StackContract
from broker.transport.arq import ConnectionLayer, MacLayer
from broker.transport.layer import ILayer
from broker.transport.multicast import MulticastLayer
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import IProtocolStack, StackSettings, Transport

SECRET = MacLayer(secret=b"of all ends")


@implementer(IPlugin, IProtocolStack)
class NodeLinks:
    """The layers of links between nodes, with the repair of losses as one of them."""

    name: ClassVar[str] = "node links"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "for this test"
    options: ClassVar[type] = attrs.make_class("NoOptions", [])
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.DATAGRAM})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        incarnation = settings.incarnation
        return [
            SECRET,
            ConnectionLayer(dials=True, entropy=Random(incarnation).randbytes),
            P2PLayer(incarnation=incarnation, suspect=settings.suspect),
            MulticastLayer(),
        ]


class TestNodeLinks(StackContract, unittest.TestCase):
    stack = NodeLinks()
