"""The plug-in of the `rcm` transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.streams.contract import Guarantee, IGroupPlugin, ITransportContext
from plugins.rcm.options import RcmOptions
from plugins.rcm.transport import RcmTransport


@implementer(IPlugin, IGroupPlugin)
@attrs.frozen
class RcmPlugin:
    """Intermittent global order of all events of a group of sites (RCM R16)."""

    name: ClassVar[str] = "rcm"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "one order of events at all sites, through outages and partitions"
    options: ClassVar[type] = RcmOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.ONE_ORDER})
    links: ClassVar[str] = "rcm"

    def sites_of(self, options: object) -> Sequence[str]:
        assert isinstance(options, RcmOptions)
        return sorted(options.sites)

    def create(self, context: ITransportContext) -> RcmTransport:
        return RcmTransport(context)


rcm_transport = RcmPlugin()
