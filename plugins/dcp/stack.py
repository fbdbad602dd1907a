"""The `dcp` link stack: bare datagrams. The transport itself repairs losses."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.transport.layer import ILayer
from broker.transport.stacks import IProtocolStack, StackSettings, Transport


@attrs.frozen(kw_only=True)
class DcpLinkOptions:
    """There are none."""


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class DcpStack:
    name: ClassVar[str] = "dcp"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "bare datagrams, for the transport of this name"
    options: ClassVar[type] = DcpLinkOptions
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.DATAGRAM})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return []


dcp_links = DcpStack()
