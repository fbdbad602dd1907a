"""A variant of another package runs through the same interface, simulation and checker (R48)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.testing.order.checker import check
from broker.testing.order.simulation import Simulation
from broker.transport.order import VARIANTS, IOrderCore, IOrderVariant, IPacketCodec, OrderSettings
from broker.transport.order.logical_core import LogicalCore
from broker.transport.order.wire import PacketCodec


class EagerCore(LogicalCore):
    """Logical time that answers with its clock almost at once."""

    def __init__(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> None:
        super().__init__(site, incarnation, attrs.evolve(settings, clock_delay=0.001), floor)


@implementer(IOrderVariant)
class EagerVariant:
    name = "eager"

    def create_core(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> IOrderCore:
        return EagerCore(site, incarnation, settings, floor)

    def create_codec(self, sites: Sequence[str]) -> IPacketCodec:
        return PacketCodec(sites)


def test_a_fifth_variant_keeps_the_properties() -> None:
    assert EagerVariant.name not in VARIANTS
    for seed in range(10):
        assert check(Simulation(EagerVariant(), seed).execute()) == [], f"seed {seed}"


def test_the_variants_provide_the_interfaces() -> None:
    for variant in (*VARIANTS.values(), EagerVariant()):
        assert verifyObject(IOrderVariant, variant)
        assert verifyObject(IOrderCore, variant.create_core("a", 1, OrderSettings()))
        assert verifyObject(IPacketCodec, variant.create_codec("abc"))
