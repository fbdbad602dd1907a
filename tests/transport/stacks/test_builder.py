from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from twisted.plugin import IPlugin
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.errors import ConfigurationError, StackError
from broker.transport.arq import FragmentationLayer
from broker.transport.faults import DiscardLayer
from broker.transport.layer import ILayer, Property
from broker.transport.multicast import MulticastLayer
from broker.transport.p2p import P2PLayer
from broker.transport.socket import DATAGRAM_PROPERTIES, TCP_PROPERTIES
from broker.transport.stacks import (
    IProtocolStack,
    StackSettings,
    Transport,
    build_stack,
    find_stack,
)
from plugins.mspaces.settings import MspacesSettings

FAULT = DiscardLayer(seed=1, rate=0.1)
MSPACES = find_stack("mspaces")


@attrs.frozen
class NoOptions:
    """A stack without options."""


@implementer(IPlugin, IProtocolStack)
class RawStack:
    name: ClassVar[str] = "raw"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "over raw datagrams"
    options: ClassVar[type] = NoOptions
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.DATAGRAM})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return [FragmentationLayer(incarnation=settings.incarnation)]


class UnfitStack(RawStack):
    def layers(self, settings: StackSettings) -> list[ILayer]:
        return [P2PLayer(incarnation=settings.incarnation)]


def test_the_first_stack_keeps_the_contract() -> None:
    assert verifyObject(IProtocolStack, MSPACES)


def test_faults_go_between_the_socket_and_the_stacks_own_layers() -> None:
    stack = build_stack(MSPACES, StackSettings(incarnation=7), TCP_PROPERTIES, [FAULT])
    assert [layer.name for layer in stack.layers] == ["discard", "p2p", "multicast"]
    assert stack.provides == P2PLayer.provides | MulticastLayer.provides
    assert stack.name == "mspaces"


def test_a_stack_that_does_not_fit_on_the_socket_is_refused() -> None:
    with pytest.raises(StackError, match="'p2p' requires framed, which the socket channel"):
        build_stack(MSPACES, StackSettings(incarnation=7), TCP_PROPERTIES - {Property.FRAMED})


def test_the_transport_decides_the_properties_of_the_channel() -> None:
    stack = build_stack(MSPACES, StackSettings(incarnation=7, transport=Transport.UDP))
    assert stack.bottom == TCP_PROPERTIES
    raw = StackSettings(incarnation=7, transport=Transport.DATAGRAM)
    assert build_stack(RawStack(), raw).bottom == DATAGRAM_PROPERTIES
    with pytest.raises(StackError, match="'p2p' requires messages of any size, which the socket"):
        build_stack(UnfitStack(), raw)
    with pytest.raises(ConfigurationError, match="does not run over tcp: it supports datagram"):
        build_stack(RawStack(), StackSettings(incarnation=7))


def test_a_transport_that_the_stack_does_not_take_is_refused() -> None:
    settings = StackSettings(incarnation=7, transport=Transport.MULTICAST)
    with pytest.raises(
        ConfigurationError, match="'mspaces' does not run over multicast: it supports tcp, udp"
    ):
        build_stack(MSPACES, settings, TCP_PROPERTIES)


def test_options_that_do_not_fit_together_are_refused() -> None:
    settings = StackSettings(incarnation=7, options=MspacesSettings(liveness=0.5))
    with pytest.raises(ConfigurationError, match="p2p liveness: must be more than keepalive"):
        build_stack(MSPACES, settings, TCP_PROPERTIES)
