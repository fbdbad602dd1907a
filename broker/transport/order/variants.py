"""The variants by their names in the configuration (RCM R36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
from zope.interface import implementer

from broker.transport.order.contract import IOrderCore, IOrderVariant
from broker.transport.order.hybrid_core import HybridCore
from broker.transport.order.logical_core import LogicalCore
from broker.transport.order.real_time_core import RealTimeCore
from broker.transport.order.sequencer import SequencerCore
from broker.transport.order.settings import OrderSettings


@implementer(IOrderVariant)
@attrs.frozen
class Variant:
    """A variant with the class of its cores."""

    name: str
    core: Callable[[str, int, OrderSettings, int], IOrderCore]

    def create_core(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> IOrderCore:
        return self.core(site, incarnation, settings, floor)


VARIANTS: Final[Mapping[str, Variant]] = {
    each.name: each
    for each in (
        Variant("logical", LogicalCore),
        Variant("sequencer", SequencerCore),
        Variant("real-time", RealTimeCore),
        Variant("hybrid", HybridCore),
    )
}
