"""The `mspaces` stack: p2p for each neighbour, and multicast above all of them."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.transport.layer import ILayer
from broker.transport.multicast import MulticastLayer
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import IProtocolStack, StackSettings, Transport
from plugins.mspaces.settings import MspacesSettings


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class MspacesStack:
    """Once only and in order to each neighbour, through reconnections (RCM R29-R32)."""

    name: ClassVar[str] = "mspaces"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "once only and in order to each neighbour, through reconnections"
    options: ClassVar[type] = MspacesSettings
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.TCP, Transport.UDP})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        """Return p2p and multicast: a socket channel over UDP corrects errors itself, as TCP
        does."""
        options = settings.options or MspacesSettings()
        assert isinstance(options, MspacesSettings)
        links = P2PLayer(
            incarnation=settings.incarnation,
            suspect=settings.suspect,
            held=settings.held,
            **attrs.asdict(options),
        )
        return [links, MulticastLayer()]


mspaces = MspacesStack()
