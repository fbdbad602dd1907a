"""Twelve hours with random outages: availability beside that of the schedule (RCM R38)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import attrs

from benchmarks.sites.awareness import BEGIN, HOUR
from benchmarks.sites.finding import Finding
from benchmarks.sites.group import SiteGroup, SiteSetting
from benchmarks.sites.record import Outage, Record, share_not_disconnected
from broker.transport.view import LinkState

HOURS: Final = 12
#: Means of exponential distributions, in seconds.
MEAN_UP: Final = 148.0
MEAN_DOWN: Final = 55.0
#: Messages a second: the availability of links does not depend on them.
_RATE: Final = 0.2
_SUSPECT: Final = 60.0


@attrs.frozen
class LongRun:
    hours: float
    links_up: float
    """Part of the time in which a link was up."""
    beyond: float
    """Part of the time that was down for longer than `suspect` in an outage."""
    availability: float
    implied: float
    """Availability that the schedule implies."""
    suspicion: float
    """Mean seconds from the loss of a link until its suspicion."""
    reconnection: float
    """Mean seconds from its repair until the status connected."""
    errors: list[str]


def measure(hours: float = HOURS, seed: int = 5) -> LongRun:
    group = SiteGroup(SiteSetting(rate=_RATE), seed)
    random = Random(seed)
    group.run(BEGIN)

    def lose(index: int) -> None:
        group.set_links([group.pairs[index]], False)
        group.clock.callLater(random.expovariate(1 / MEAN_DOWN), repair, index)

    def repair(index: int) -> None:
        group.set_links([group.pairs[index]], True)
        group.clock.callLater(random.expovariate(1 / MEAN_UP), lose, index)

    for index in range(len(group.pairs)):
        group.clock.callLater(random.expovariate(1 / MEAN_UP), lose, index)
    group.run(hours * HOUR)
    return _evaluate(group.record, group.now, hours)


def _evaluate(record: Record, end: float, hours: float) -> LongRun:
    seconds = end - BEGIN
    downs = [end - begin for outages in record.outages.values() for begin, end in outages]
    shares, suspicions, reconnections = [], [], []
    for pair, outages in record.outages.items():
        for one, other in (pair, pair[::-1]):
            statuses = record.statuses_of(one, other)
            shares.append(share_not_disconnected(statuses, BEGIN, end))
            for status, following in zip(statuses, statuses[1:], strict=False):
                if following.state is LinkState.SUSPECTED:
                    lost = max((b for b, _ in outages if b <= following.time), default=None)
                    if lost is not None and status.time < lost:
                        suspicions.append(following.time - lost)
                if following.state is LinkState.CONNECTED:
                    repaired = max((e for _, e in outages if e <= following.time), default=None)
                    if repaired is not None:
                        reconnections.append(following.time - repaired)
    suspicion, reconnection = statistics.mean(suspicions), statistics.mean(reconnections)
    implied = [
        1.0 - _implied_loss(outages, suspicion, reconnection) / seconds
        for outages in record.outages.values()
    ]
    total = seconds * len(record.outages)
    return LongRun(
        hours,
        1.0 - sum(downs) / total,
        sum(max(0.0, each - _SUSPECT) for each in downs) / total,
        statistics.mean(shares),
        statistics.mean(implied),
        suspicion,
        reconnection,
        record.errors,
    )


def _implied_loss(outages: Sequence[Outage], suspicion: float, reconnection: float) -> float:
    """Return the seconds in which a link is disconnected.

    A time between two outages that is shorter than a reconnection does not end the suspicion.
    """
    joined: list[Outage] = []
    for begin, end in outages:
        if joined and begin < joined[-1][1] + reconnection and _is_suspected(joined[-1], suspicion):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return sum(
        max(0.0, end + reconnection - (begin + suspicion + _SUSPECT)) for begin, end in joined
    )


def _is_suspected(outage: Outage, suspicion: float) -> bool:
    return outage[1] - outage[0] > suspicion


def findings(result: LongRun) -> list[Finding]:
    name = f"{result.hours:g} hours"
    return [
        Finding(name, "links up", 100 * result.links_up, "%", "73%"),
        Finding(name, "down beyond 60 s of an outage", 100 * result.beyond, "%", "9%"),
        Finding(name, "availability", 100 * result.availability, "%", "91%", 89.5, 92.5),
        Finding(
            name,
            "availability, less that of the schedule",
            100 * abs(result.availability - result.implied),
            "%",
            "0",
            most=0.5,
        ),
        Finding(name, "errors", len(result.errors), "", most=0),
    ]


def draw(result: LongRun, axis: Any) -> None:
    names = ["links up", "beyond 60 s", "availability", "implied"]
    ours = [result.links_up, result.beyond, result.availability, result.implied]
    axis.bar(names, [100 * each for each in ours], label="ours")
    axis.plot(
        names[:3], [73, 9, 91], "_", color="tab:red", markersize=40, label="paper: 73, 9, 91%"
    )
    axis.set_title(f"{result.hours:g} hours")
    axis.set_ylabel("% of the time")
    axis.legend(loc="lower right")
