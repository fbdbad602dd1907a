"""The `mspaces` transport: events in frames, routed by content through a network of clusters."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.streams.contract import (
    Guarantee,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)


@attrs.frozen(kw_only=True)
class NoOptions:
    """The settings of `[network]` are those of the transport."""


@implementer(IPlugin, ITransportPlugin)
@attrs.frozen
class MspacesTransport:
    """Frames on the links of the node's network, each event once per link (Mspaces M18, G8)."""

    name: ClassVar[str] = "mspaces"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "events routed by content through the network of clusters"
    options: ClassVar[type] = NoOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.ACKNOWLEDGEMENT})
    links: ClassVar[str] = "mspaces"

    def create(self, context: ITransportContext) -> IStreamTransport:
        return context.cluster(context)


mspaces_transport = MspacesTransport()
