"""Rate and latency of deliveries at one site (RCM R42, figure 8)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from benchmarks.sites.awareness import DOWN, HOUR, UP, alternate
from benchmarks.sites.finding import Finding
from benchmarks.sites.group import SiteGroup, SiteSetting
from benchmarks.sites.record import Delivery, Outage
from broker.transport.order import OrderSettings

#: Seconds after a repair until rate and latency are as usual again.
SETTLED: Final = 8.0
#: Seconds after a loss in which messages of before are still delivered.
_LAST: Final = 1.5
#: Seconds after a loss until the other partition is suspected.
_SUSPECTED: Final = 6.0
#: A clock answer after this time does not come within an hour.
_NEVER: Final = 1e6


@attrs.frozen
class Rate:
    has_answers: bool
    """Sites answer messages with their clocks (K20)."""
    up_rate: float
    up_latency: float
    bursts: list[float]
    """Seconds from each loss until deliveries go on."""
    down_rate: float
    """After the burst."""
    down_latency: float
    """Most of the burst."""
    repaired_latency: float
    """Most of the burst after a repair."""
    late: int
    outages: list[Outage]
    deliveries: list[Delivery]
    """At the beginning."""
    errors: list[str]


def measure(has_answers: bool, seconds: float = HOUR, seed: int = 3) -> Rate:
    order = OrderSettings() if has_answers else OrderSettings(clock_delay=_NEVER)
    group = SiteGroup(SiteSetting(order=order), seed)
    alternate(group, UP, DOWN, seconds)
    group.run(UP)
    site = group.setting.sites[0]
    deliveries = group.record.deliveries[site]
    outages = group.record.outages[site, group.setting.sites[2]]
    ups = [(repaired + SETTLED, lost) for (_, repaired), (lost, _) in _neighbours(outages)]
    downs = [(lost + _SUSPECTED, repaired) for lost, repaired in outages]
    bursts = [
        min(each.time for each in deliveries if each.time > lost + _LAST) - lost
        for lost, _ in outages
    ]
    down, repaired = _between(deliveries, outages), [(end, end + SETTLED) for _, end in outages]
    return Rate(
        has_answers,
        _rate(deliveries, ups),
        statistics.mean(each.latency for each in _between(deliveries, ups)),
        bursts,
        _rate(deliveries, downs),
        max(each.latency for each in down),
        max(each.latency for each in _between(deliveries, repaired)),
        sum(each.is_late for each in deliveries),
        outages,
        [each for each in deliveries if each.time < 3 * (UP + DOWN)],
        group.record.errors,
    )


def _neighbours(outages: Sequence[Outage]) -> Iterator[tuple[Outage, Outage]]:
    return zip(outages, outages[1:], strict=False)


def _between(deliveries: Sequence[Delivery], times: Sequence[Outage]) -> list[Delivery]:
    found: list[Delivery] = []
    index = 0
    for begin, end in times:
        while index < len(deliveries) and deliveries[index].time < begin:
            index += 1
        while index < len(deliveries) and deliveries[index].time < end:
            found.append(deliveries[index])
            index += 1
    return found


def _rate(deliveries: Sequence[Delivery], times: Sequence[Outage]) -> float:
    return len(_between(deliveries, times)) / sum(end - begin for begin, end in times)


def findings(without: Rate, with_answers: Rate) -> list[Finding]:
    found = []
    for result in (without, with_answers):
        name = "rate, clock answers" if result.has_answers else "rate"
        paper = {} if result.has_answers else {"least": 0.35, "most": 0.65}
        found += [
            Finding(name, "up: rate", result.up_rate, "/s", "8/s", 7.8, 8.2),
            Finding(name, "up: mean latency", result.up_latency, "s", "0.5 s", **paper),
            Finding(
                *(name, "down: burst after, at most", max(result.bursts), "s", "6 s"), most=6.0
            ),
            Finding(
                *(name, "down: latency of the burst, at most", result.down_latency, "s", "6 s"),
                most=6.0 + 0.65,
            ),
            Finding(name, "down: rate after the burst", result.down_rate, "/s", "4/s", 3.8, 4.2),
            Finding(
                *(name, "repaired: latency, at most", result.repaired_latency, "s", "14 s"),
                most=14.5,
            ),
            Finding(name, "errors", len(result.errors), "", most=0),
        ]
    ratio = with_answers.up_latency / without.up_latency
    return [*found, Finding("rate", "up: mean with answers to that without", ratio, "", most=0.999)]


def draw(result: Rate, axis: Any) -> None:
    begin = result.outages[0][1] + SETTLED
    end = begin + UP + DOWN
    shown = [each for each in result.deliveries if begin <= each.time < end]
    seconds = range(int(end - begin))
    rates = [sum(s <= each.time - begin < s + 1 for each in shown) for s in seconds]
    axis.step(list(seconds), rates, where="post", label="deliveries/s")
    times = [each.time - begin for each in shown]
    axis.plot(times, [each.latency for each in shown], ".", markersize=3, label="latency, s")
    axis.axhline(8, color="tab:red", linestyle=":", label="paper: 8/s, 4/s; burst 6 s; 14 s")
    for height in (4, 6, 14):
        axis.axhline(height, color="tab:red", linestyle=":")
    for lost, repaired in result.outages:
        axis.axvspan(lost - begin, repaired - begin, alpha=0.2, color="gray")
    axis.set_xlim(0, end - begin)
    axis.set_title("rate and latency (figure 8), without clock answers")
    axis.set_xlabel("s")
    axis.legend()
