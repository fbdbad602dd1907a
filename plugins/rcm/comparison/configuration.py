"""Comparison of variants at a site by its options."""

from __future__ import annotations

from collections.abc import Callable

from broker.transport.layer import ClockOffset
from broker.transport.order import IOrderCore, OrderSettings
from plugins.rcm.comparison.release_times import ReleaseTimes
from plugins.rcm.comparison.shadow import MOST_HISTORY, MOST_WAITING_BYTES, Shadow
from plugins.rcm.comparison.site_comparison import SiteComparison
from plugins.rcm.comparison.variant_record import VariantRecord
from plugins.rcm.options import TIMED, RcmOptions


def create_comparison(
    options: RcmOptions,
    stack: str,
    site: str,
    sites: tuple[str, ...],
    incarnation: int,
    core: IOrderCore,
    read_clock: Callable[[float], int],
    clock_of: Callable[[str], ClockOffset | None],
    now: float,
) -> SiteComparison | None:
    """Return the comparison of a site, whose order has this core; None if it compares nothing.

    `sites` are all of the group, in the same order everywhere. Sites that join later have no part.
    """
    if not options.compare or site not in sites:
        return None
    settings = OrderSettings(
        clock_delay=options.clock_delay,
        delta=options.delta,
        queue=MOST_WAITING_BYTES,
        history=MOST_HISTORY,
    )
    others = [each for each in dict.fromkeys(options.compare) if each != options.order]
    shadows = [Shadow(each, site, incarnation, sites, settings, read_clock(now)) for each in others]
    cores = {options.order: core, **{each.variant: each.core for each in shadows}}
    messages, releases = ({each: ReleaseTimes() for each in (site, *sites)} for _ in range(2))
    records = {
        variant: VariantRecord(
            *(variant, site, sites, messages if each is core else releases),
            _make_reference(variant, each, read_clock),
        )
        for variant, each in cores.items()
    }
    return SiteComparison(
        *(stack, incarnation, sites, shadows, records, messages, releases),
        *(read_clock, clock_of),
    )


def _make_reference(
    variant: str, core: IOrderCore, read_clock: Callable[[float], int]
) -> Callable[[float], int]:
    """Return a function for a time that is not below any stamp of earlier messages."""
    if variant in TIMED:
        return read_clock
    # A sequencer begins an epoch, whose stamps are above all earlier ones.
    return (lambda _: 0) if variant == "sequencer" else (lambda _: core.floor)
