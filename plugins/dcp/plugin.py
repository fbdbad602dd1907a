"""The plug-in of the `dcp` transport."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.streams.contract import Guarantee, ITransportContext, ITransportPlugin
from broker.streams.leaf_contract import ILeafOwner, ILeafPlugin, LeafContext, LeafRequest
from plugins.dcp.leaf import DcpLeaf
from plugins.dcp.options import DcpOptions
from plugins.dcp.transport import DcpTransport


@implementer(IPlugin, ITransportPlugin, ILeafPlugin)
@attrs.frozen
class DcpPlugin:
    """Streams over a mesh in which each node has several parents (DCP D1-D71)."""

    name: ClassVar[str] = "dcp"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "several parents for each node, over datagrams"
    options: ClassVar[type] = DcpOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.REDUNDANCY})
    links: ClassVar[str] = "dcp"

    def create(self, context: ITransportContext) -> DcpTransport:
        return DcpTransport(context)

    def join(self, request: LeafRequest, context: LeafContext, owner: ILeafOwner) -> DcpLeaf:
        return DcpLeaf(self, request, context, owner)


dcp_transport = DcpPlugin()
