"""Interfaces of plug-ins: any stack, and a link stack (RCM R27; X17, X18)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import attrs
from twisted.plugin import IPlugin
from zope.interface import Attribute

from broker.queue_memory import HeldBytes
from broker.transport.layer import ILayer, Property
from broker.transport.monitor.owner import ILinkOwner
from broker.transport.socket.contract import DATAGRAM_PROPERTIES, TCP_PROPERTIES
from broker.transport.stacks.reconnection_policy import ReconnectionPolicy


class Transport(enum.Enum):
    """Kind of the socket channel below a stack."""

    TCP = "tcp"
    #: Connections over datagrams, with the properties of TCP.
    UDP = "udp"
    #: A group over datagrams, likewise.
    MULTICAST = "multicast"
    #: Raw datagrams (`IDatagramChannel`): what repairs losses is a layer of the stack.
    DATAGRAM = "datagram"

    @property
    def properties(self) -> frozenset[Property]:
        """Properties of the channel for the layers above it."""
        return DATAGRAM_PROPERTIES if self is Transport.DATAGRAM else TCP_PROPERTIES


@attrs.frozen(kw_only=True)
class StackSettings:
    #: u64, not 0; differs after each start of the end.
    incarnation: int
    transport: Transport = Transport.TCP
    #: Seconds in which a broken connection may come back before the peer is disconnected.
    suspect: float = 0.0
    node: str = ""
    """Name of this end; empty: the peers have none."""
    options: object = None
    """An instance of the stack's `options` class; None for its defaults."""
    owner: ILinkOwner | None = None
    """Owner of the link, for a stack with a connection monitor."""
    held: HeldBytes | None = None
    """Counts the send buffer of the link in the memory of all queues."""


class INamedPlugin(IPlugin):
    """A stateless plug-in that configurations name, found through `twisted.plugin`."""

    name: str = Attribute("name in configurations; unique among the installed ones of its kind")


class IStackPlugin(INamedPlugin):
    """A plug-in of one of the kinds below."""

    version: int = Attribute("version of its protocols; both ends of a link have the same")
    summary: str = Attribute("purpose, in one line")
    options: type = Attribute(
        "attrs class of its options, each made by a function of `broker.config.setting`; "
        "an instance of it may raise `ConfigurationError` for values that do not fit together"
    )


class IProtocolStack(IStackPlugin):
    """A link stack: layers between a node and its peers."""

    transports: frozenset[Transport] = Attribute("supported transports")

    def layers(settings: StackSettings) -> Sequence[ILayer]:
        """Return the layers above the socket channel, bottom up.

        Called for the link to each peer. The layers above the links are made once. Raises
        `ConfigurationError` for options that do not fit. A node calls it at its start too, for each
        of `transports` that it uses.
        """


class IReconnectingStack(IProtocolStack):
    """A link stack with a policy of its own for links over connections.

    The incarnations in its settings rise with each link, and with each start of the node.
    """

    def reconnection_policy(options: object) -> ReconnectionPolicy:
        """Return the policy for `options`: an instance of the stack's class, or None."""


class GroupAddress(NamedTuple):
    """An IP multicast group on a network interface."""

    host: str
    port: int
    interface: str


class IFanOutStack(IProtocolStack):
    """A link stack with several ways of a message to its destinations, chosen by its options."""

    def fan_out_of(options: object) -> str:
        """Return the name of the way: both ends of a link have the same. Empty: the usual one."""

    def group_of(options: object) -> GroupAddress | None:
        """Return the IP multicast group of the way, beside the connections; None: it has none.

        Layers above the links send to it as to a peer (`StackDriver.join_group`).
        """
