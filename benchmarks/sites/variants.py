"""Latency of the variants of the order on fast links (RCM R37)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.sites.finding import Finding
from benchmarks.sites.group import SiteGroup, SiteSetting
from broker.transport.order import VARIANTS

RATES: Final = (2.0, 200.0)
#: Seconds, one way.
LATENCY: Final = 0.05
#: 10 Mbit/s.
BYTES_PER_SECOND: Final = 1_250_000.0
_BEGIN: Final = 3.0
#: Of the measurement, by rate.
SECONDS: Final = {2.0: 600.0, 200.0: 20.0}


@attrs.frozen
class Latency:
    variant: str
    rate: float
    mean: float
    p99: float
    deliveries: int
    late: int
    errors: list[str]


def measure(variant: str, rate: float, seconds: float | None = None, seed: int = 6) -> Latency:
    setting = SiteSetting(
        variant=variant, rate=rate, latency=LATENCY, bytes_per_second=BYTES_PER_SECOND
    )
    group = SiteGroup(setting, seed)
    group.run(_BEGIN + (SECONDS[rate] if seconds is None else seconds))
    deliveries = [
        each for site in group.record.deliveries.values() for each in site if each.time > _BEGIN
    ]
    latencies = sorted(each.latency for each in deliveries)
    return Latency(
        *(variant, rate, statistics.mean(latencies), latencies[len(latencies) * 99 // 100]),
        *(len(latencies), sum(each.is_late for each in deliveries), group.record.errors),
    )


def findings(results: Sequence[Latency]) -> list[Finding]:
    found: list[Finding] = []
    for rate in sorted({each.rate for each in results}):
        name = f"variants, {rate:g}/s"
        means = {each.variant: each.mean for each in results if each.rate == rate}
        found += [
            Finding(name, f"{variant}: mean latency", 1000 * mean, "ms")
            for variant, mean in means.items()
        ]
        lower = min(means["logical"], means["real-time"])
        found += [
            Finding(
                name,
                "hybrid to the lower of logical and real-time",
                means["hybrid"] / lower,
                "",
                most=1.1,
            ),
            Finding(
                *(name, "sequencer, in one-way delays", means["sequencer"] / LATENCY, ""),
                "network latency only",
                most=2.5,
            ),
        ]
    return [
        *found,
        Finding("variants", "late messages", sum(each.late for each in results), "", most=0),
        Finding("variants", "errors", sum(len(each.errors) for each in results), "", most=0),
    ]


def draw(results: Sequence[Latency], axis: Any) -> None:
    width = 0.4
    for offset, rate in enumerate(sorted({each.rate for each in results})):
        means = {each.variant: 1000 * each.mean for each in results if each.rate == rate}
        places = [index + offset * width for index in range(len(means))]
        axis.bar(places, list(means.values()), width, label=f"{rate:g} messages/s")
    axis.set_xticks([index + width / 2 for index in range(len(VARIANTS))], list(VARIANTS))
    axis.axhline(
        2500 * LATENCY, color="tab:red", linestyle=":", label="bound of the sequencer, 125 ms"
    )
    axis.set_title("variants: mean latency")
    axis.set_ylabel("ms")
    axis.legend()
