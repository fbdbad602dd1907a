"""The `mspaces` stack, one for each neighbour; the multicast layer is above all of them."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.transport.layer import ILayer
from broker.transport.p2p import P2PLayer
from broker.transport.stacks import IProtocolStack, StackSettings, Transport, read_options
from plugins.mspaces.settings import MspacesSettings


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class MspacesStack:
    """Once only and in order to each neighbour, through reconnections (RCM R29-R32)."""

    name: ClassVar[str] = "mspaces"
    version: ClassVar[int] = 1
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.TCP, Transport.UDP})

    def check(self, settings: StackSettings) -> None:
        """Raise `ConfigurationError` for an invalid option."""
        self.layers(settings)

    def layers(self, settings: StackSettings) -> list[ILayer]:
        """Return p2p alone: a socket channel over UDP corrects errors itself, as TCP does."""
        options = read_options(self.name, MspacesSettings, settings.options)
        return [P2PLayer(incarnation=settings.incarnation, **attrs.asdict(options))]


mspaces = MspacesStack()
