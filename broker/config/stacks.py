"""Stacks of a node: instances of plug-ins, each with its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from broker.config import value_kind
from broker.config.setting import derived_setting, setting
from broker.errors import ConfigurationError, StackError
from broker.event.envelope import SecurityLevel
from broker.streams.contract import ITransportPlugin
from broker.transport.stacks import IProtocolStack, Transport, find_plugin

#: Stack of all streams without another one.
DEFAULT_STACK: Final = "mspaces"
#: Channels of transports' links, in the order of preference.
CHANNELS: Final = (Transport.DATAGRAM, Transport.TCP, Transport.UDP)


@attrs.frozen
class StackInstance:
    """A stack of this node, which streams may name. Its other keys are options of the plug-ins."""

    name: str
    use: str = derived_setting(
        value_kind.NODE_NAME,
        lambda instance: instance.name,
        "The stream transport; by default the one with the name of the table.",
        shown='"mspaces"',
    )
    links: str = setting(
        value_kind.OPTIONAL_NAME,
        "",
        "The link stack below it; by default the one that the transport names. An instance of "
        '"mspaces" that sets it, or an option of it, has links of its own.',
    )
    feed: str = setting(
        value_kind.OPTIONAL_NAME,
        "",
        'The stack that brings the streams to some nodes, from which this one carries them: "" '
        'or "mspaces".',
    )
    channel: str = setting(
        value_kind.choice("", *(each.value for each in CHANNELS)),
        "",
        "Channel of the links: raw datagrams, connections over TCP, or over UDP. By default the "
        "first of these that the link stack supports.",
    )
    clearance: SecurityLevel = setting(
        value_kind.CLEARANCE,
        SecurityLevel.MED,
        "Highest security level of events on its own links; others come over those of [network].",
    )
    options: object = None
    """Options of the transport, an instance of the plug-in's class; None for the defaults."""
    link_options: object = None
    """Options of the link stack, likewise."""

    @property
    def has_own_links(self) -> bool:
        """True for an instance of the default transport with links beside those of the network."""
        return self.use == DEFAULT_STACK != self.name and bool(self.links)


Plugins: TypeAlias = tuple[ITransportPlugin, IProtocolStack | None]
#: Returns the plug-ins of an instance, as `find_plugins_of`.
FindPlugins: TypeAlias = Callable[[StackInstance], Plugins]


def find_plugins_of(instance: StackInstance) -> Plugins:
    """Return the transport and the link stack of an instance.

    Raises `UnknownStack` or `AmbiguousStack`, and `StackError` if both have an option of one name,
    or the transport has no links of its own.
    """
    transport = find_plugin(ITransportPlugin, instance.use)
    if not transport.links:
        if instance.links:
            raise StackError(f"the transport {transport.name!r} has no choice of links")
        return transport, None
    links = find_plugin(IProtocolStack, instance.links or transport.links)
    both = _option_names(transport) & _option_names(links)
    if both:
        raise StackError(
            f"the transport {transport.name!r} and the link stack {links.name!r} both have the "
            f"option {min(both)}"
        )
    return transport, links


def select_channel(instance: StackInstance, links: IProtocolStack) -> Transport:
    """Return the channel of a transport's links.

    Raises `ConfigurationError` if the link stack does not support it.
    """
    allowed = [Transport(instance.channel)] if instance.channel else CHANNELS
    for channel in allowed:
        if channel in links.transports:
            return channel
    texts = " or ".join(each.value for each in allowed)
    supported = ", ".join(sorted(each.value for each in links.transports)) or "none"
    raise ConfigurationError(
        f"the link stack {links.name!r} does not run over {texts}: it supports {supported}"
    )


def _option_names(plugin: ITransportPlugin | IProtocolStack) -> set[str]:
    return {field.name for field in attrs.fields(plugin.options)}
