"""The variants by their names in the configuration (RCM R36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
from zope.interface import implementer

from broker.transport.order.contract import IOrderCore, IOrderVariant, IPacketCodec
from broker.transport.order.hybrid_core import HybridCore
from broker.transport.order.logical_core import LogicalCore
from broker.transport.order.real_time_core import RealTimeCore
from broker.transport.order.sequencer import SequencerCodec, SequencerCore
from broker.transport.order.settings import OrderSettings
from broker.transport.order.wire import PacketCodec


@implementer(IOrderVariant)
@attrs.frozen
class Variant:
    """A variant with the classes of its cores and of their packets."""

    name: str
    core: Callable[[str, int, OrderSettings, int], IOrderCore]
    codec: Callable[[Sequence[str]], IPacketCodec] = PacketCodec

    def create_core(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> IOrderCore:
        return self.core(site, incarnation, settings, floor)

    def create_codec(self, sites: Sequence[str]) -> IPacketCodec:
        return self.codec(sites)


VARIANTS: Final[Mapping[str, Variant]] = {
    each.name: each
    for each in (
        Variant("logical", LogicalCore),
        Variant("sequencer", SequencerCore, SequencerCodec),
        Variant("real-time", RealTimeCore),
        Variant("hybrid", HybridCore),
    )
}
