"""The interface of a protocol stack that is a plug-in (RCM R27; X17, X18)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs
from twisted.plugin import IPlugin
from zope.interface import Attribute

from broker.transport.layer import ILayer, Property
from broker.transport.socket.contract import DATAGRAM_PROPERTIES, TCP_PROPERTIES


class Transport(enum.Enum):
    """Kind of the socket channel below a stack."""

    TCP = "tcp"
    #: Connections of `broker.transport.arq`, with the properties of TCP.
    UDP = "udp"
    MULTICAST = "multicast"
    #: Raw datagrams to one peer.
    DATAGRAM = "datagram"

    @property
    def properties(self) -> frozenset[Property]:
        if self in (Transport.TCP, Transport.UDP):
            return TCP_PROPERTIES
        return DATAGRAM_PROPERTIES


@attrs.frozen(kw_only=True)
class StackSettings:
    #: u64, not 0; differs after each start of the end.
    incarnation: int
    transport: Transport = Transport.TCP
    #: False for the channel of a stranger, whose address may be forged.
    dials: bool = True
    options: Mapping[str, object] = attrs.field(factory=dict)


class IProtocolStack(IPlugin):
    """A named, stateless stack of layers, found through `twisted.plugin`."""

    name: str = Attribute("name in configurations; unique among the installed stacks")
    version: int = Attribute("version of its protocols; both ends of a link have the same")
    transports: frozenset[Transport] = Attribute("supported transports")

    def check(settings: StackSettings) -> None:
        """Raise `ConfigurationError` naming the stack and the invalid option.

        Called when a node starts, with one of `transports`.
        """

    def layers(settings: StackSettings) -> Sequence[ILayer]:
        """Return the layers above the socket channel, bottom up, for settings that `check`
        accepts."""
