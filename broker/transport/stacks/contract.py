"""The contract of a protocol stack that comes as a plug-in (RCM R27; X17, X18)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs
from twisted.plugin import IPlugin
from zope.interface import Attribute

from broker.transport.layer import ILayer


class Transport(enum.Enum):
    """What carries the packets of a stack: which kind of socket channel is below it."""

    TCP = "tcp"
    UDP = "udp"
    MULTICAST = "multicast"


@attrs.frozen(kw_only=True)
class StackSettings:
    """What a stack is told when its layers are wanted for one link."""

    #: Which life of this end it is (u64, not 0): another one after each start.
    incarnation: int
    transport: Transport = Transport.TCP
    #: The stack's own settings, as the configuration gives them.
    options: Mapping[str, object] = attrs.field(factory=dict)


class IProtocolStack(IPlugin):
    """A stack of layers with a name, found through `twisted.plugin`. It has no state."""

    name: str = Attribute("what configurations call it; unique among the stacks installed")
    version: int = Attribute("the version of what it speaks: both ends of a link have the same")
    transports: frozenset[Transport] = Attribute("what it can run over")

    def check(settings: StackSettings) -> None:
        """Raises `ConfigurationError` naming the stack and the option that can not be.

        Asked when a node starts, and only with one of `transports`.
        """

    def layers(settings: StackSettings) -> Sequence[ILayer]:
        """The layers above the socket channel, bottom up, for settings that `check` accepts."""
