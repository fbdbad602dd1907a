"""Creation of the reports of a site about delivered messages."""

from __future__ import annotations

from broker.streams.contract import ITransportContext
from plugins.rcm.coverage.coverage_exchange import CoverageExchange
from plugins.rcm.losses import Losses


def create_coverage(
    context: ITransportContext, incarnation: int, losses: Losses
) -> CoverageExchange | None:
    """Return the reports of a site; None for a group that has no streams."""
    if not context.patterns:
        return None
    return CoverageExchange(
        *(context.instance, context.node, incarnation, context.coverage_of),
        lambda: losses.released,
    )
