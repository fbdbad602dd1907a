"""The `rcm` link stack: a connection monitor and p2p for each site, and multicast above them."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config.value_kind import split_host_port
from broker.transport.baseline import PlainLayer
from broker.transport.layer import ILayer, ILinkLayer
from broker.transport.monitor import MonitorLayer
from broker.transport.multicast import Bounds, GroupLayer, MulticastLayer, TreeLayer
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import (
    GroupAddress,
    IFanOutStack,
    IReconnectingStack,
    ReconnectionPolicy,
    StackSettings,
    Transport,
)
from plugins.rcm.settings import RcmLinkSettings


@implementer(IPlugin, IReconnectingStack, IFanOutStack)
@attrs.frozen
class RcmStack:
    """Links of sites whose connections may fail for some time (RCM R19-R33)."""

    name: ClassVar[str] = "rcm"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "robust links of sites: monitored, suspected, and resumed"
    options: ClassVar[type] = RcmLinkSettings
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.TCP, Transport.UDP})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        """Return monitor, p2p or a baseline, and a fan-out. `settings.suspect` is not used: the
        monitor has its own."""
        options = _options(settings.options)
        monitor = MonitorLayer(
            incarnation=settings.incarnation, settings=options.monitor, owner=settings.owner
        )
        p2p = self._create_p2p(options, settings)
        return [monitor, p2p, self._create_fan_out(options, settings.node)]

    def reconnection_policy(self, options: object) -> ReconnectionPolicy:
        found = _options(options)
        return ReconnectionPolicy(period=found.reconnect, keep=found.keep)

    def fan_out_of(self, options: object) -> str:
        found = _options(options).fan_out
        return "" if found == "copies" else found

    def group_of(self, options: object) -> GroupAddress | None:
        found = _options(options)
        if found.fan_out != "group":
            return None
        return GroupAddress(*split_host_port(found.group), found.group_interface)

    @staticmethod
    def _create_fan_out(options: RcmLinkSettings, node: str) -> ILayer:
        bounds = Bounds.for_buffers(options.send_buffer_bytes)
        if options.fan_out == "tree":
            return TreeLayer(node=node, bounds=bounds)
        if options.fan_out == "group":
            return GroupLayer(node=node, bounds=bounds)
        return MulticastLayer()

    @staticmethod
    def _create_p2p(options: RcmLinkSettings, settings: StackSettings) -> ILinkLayer:
        if options.p2p != "robust-p2p":
            buffers = options.send_buffer_bytes if options.p2p == "tcp-suspected" else 0
            return PlainLayer(buffer_bytes=buffers)
        return P2PLayer(
            incarnation=settings.incarnation,
            window_bytes=options.window_bytes,
            send_buffer_bytes=options.send_buffer_bytes,
            is_monitored=True,
            held=settings.held,
        )


def _options(options: object) -> RcmLinkSettings:
    found = options or RcmLinkSettings()
    assert isinstance(found, RcmLinkSettings)
    return found


rcm_links = RcmStack()
