"""The interface of a protocol stack that is a plug-in (RCM R27; X17, X18)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs
from twisted.plugin import IPlugin
from zope.interface import Attribute

from broker.transport.layer import ILayer


class Transport(enum.Enum):
    """Kind of the socket channel below a stack."""

    TCP = "tcp"
    UDP = "udp"
    MULTICAST = "multicast"


@attrs.frozen(kw_only=True)
class StackSettings:
    #: u64, not 0; differs after each start of the end.
    incarnation: int
    transport: Transport = Transport.TCP
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
