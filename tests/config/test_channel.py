"""The channel of a stack's links."""

from __future__ import annotations

import pytest

from broker.config.stacks import StackInstance, select_channel
from broker.errors import ConfigurationError
from broker.transport.stacks import IProtocolStack, Transport
from plugins.mspaces.stack import MspacesStack

DATAGRAM, TCP, UDP, MULTICAST = (
    *(Transport.DATAGRAM, Transport.TCP),
    *(Transport.UDP, Transport.MULTICAST),
)


def stack_over(*transports: Transport) -> IProtocolStack:
    kind = type("Over", (MspacesStack,), {"transports": frozenset(transports)})
    stack: IProtocolStack = kind()
    return stack


@pytest.mark.parametrize(
    ("supported", "named", "selected"),
    [
        ((DATAGRAM, TCP, UDP), "", DATAGRAM),
        ((UDP, TCP), "", TCP),
        ((UDP, MULTICAST), "", UDP),
        ((DATAGRAM, TCP, UDP), "udp", UDP),
        ((DATAGRAM, TCP, UDP), "tcp", TCP),
    ],
)
def test_the_first_supported_channel_or_the_named_one_is_selected(
    supported: tuple[Transport, ...], named: str, selected: Transport
) -> None:
    instance = StackInstance("radar", channel=named)
    assert select_channel(instance, stack_over(*supported)) is selected


@pytest.mark.parametrize(
    ("supported", "named", "text"),
    [
        ((TCP,), "udp", "does not run over udp: it supports tcp"),
        ((MULTICAST,), "", "does not run over datagram or tcp or udp: it supports multicast"),
        ((), "", "it supports none"),
    ],
)
def test_a_channel_that_is_not_supported_is_wrong(
    supported: tuple[Transport, ...], named: str, text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        select_channel(StackInstance("radar", channel=named), stack_over(*supported))
