from __future__ import annotations

import pytest
from zope.interface.verify import verifyObject

from broker.errors import ConfigurationError, StackError
from broker.transport.faults import DiscardLayer
from broker.transport.layer import Property
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stacks import (
    IProtocolStack,
    StackSettings,
    Transport,
    build_stack,
    find_stack,
)

FAULT = DiscardLayer(seed=1, rate=0.1)
MSPACES = find_stack("mspaces")


def test_the_first_stack_keeps_the_contract() -> None:
    assert verifyObject(IProtocolStack, MSPACES)


def test_faults_go_between_the_socket_and_the_stacks_own_layers() -> None:
    stack = build_stack(MSPACES, StackSettings(incarnation=7), TCP_PROPERTIES, [FAULT])
    assert [layer.name for layer in stack.layers] == ["discard", "p2p"]
    assert stack.provides == frozenset(Property) - {Property.AUTHENTICATED}
    assert stack.name == "mspaces"


def test_a_stack_that_does_not_fit_on_the_socket_is_refused() -> None:
    with pytest.raises(StackError, match="'p2p' requires framed, which the socket channel"):
        build_stack(MSPACES, StackSettings(incarnation=7), TCP_PROPERTIES - {Property.FRAMED})


def test_a_transport_that_the_stack_does_not_take_is_refused() -> None:
    settings = StackSettings(incarnation=7, transport=Transport.MULTICAST)
    with pytest.raises(
        ConfigurationError, match="'mspaces' does not run over multicast: it supports tcp, udp"
    ):
        build_stack(MSPACES, settings, TCP_PROPERTIES)


def test_an_option_that_can_not_be_is_refused() -> None:
    for options, sentence in (
        ({"windows": 1}, "stack mspaces: windows is unknown"),
        ({"liveness": 0.5}, "p2p liveness: must be more than keepalive"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            build_stack(MSPACES, StackSettings(incarnation=7, options=options), TCP_PROPERTIES)
