"""Awareness and availability: links that are up and down in turn (RCM R40, figure 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.sites.finding import Finding
from benchmarks.sites.group import AnyGroup, SiteGroup, SiteSetting
from benchmarks.sites.record import Outage, Record, Status, share_not_disconnected
from benchmarks.sites.tcp_network import LoopClock, TcpNetwork
from broker.transport.view import LinkState

UP: Final = 30.0
DOWN: Final = 10.0
HOUR: Final = 3600.0
TCP_SECONDS: Final = 600.0
#: Seconds until all sites are connected at first.
BEGIN: Final = 5.0
#: Seconds by which up times vary: timers of the links must not always meet the same phase.
_JITTER: Final = 1.0
_LEVELS: Final = {LinkState.CONNECTED: 2, LinkState.SUSPECTED: 1, LinkState.DISCONNECTED: 0}


@attrs.frozen
class Awareness:
    suspected: list[float]
    """Seconds from the loss of a link until an end reports the suspicion."""
    back: list[float]
    """Seconds from its repair until an end reports the other one as connected."""
    availability: float
    """Least part of the time in which an end could send to another one."""
    outages: list[Outage]
    statuses: list[Status]
    """Of one site about another."""
    errors: list[str]


def alternate(group: SiteGroup, up: float, down: float, seconds: float) -> None:
    """Let two partitions of two sites come and go, after `BEGIN`."""
    cut = group.cut_of(group.setting.sites[:2])
    group.run(BEGIN)
    while group.now < BEGIN + seconds:
        group.run(up + group.random.uniform(-_JITTER, _JITTER))
        if down:
            group.set_links(cut, False)
            group.run(down)
            group.set_links(cut, True)


def measure(seconds: float = HOUR, seed: int = 1) -> Awareness:
    group = SiteGroup(SiteSetting(), seed)
    alternate(group, UP, DOWN, seconds)
    group.run(UP)
    return evaluate(group.record, group.now)


async def measure_over_tcp(seconds: float = TCP_SECONDS, seed: int = 1) -> Awareness:
    """Measure sites in one process, with relays between them, in real time."""
    network = TcpNetwork()
    setting = SiteSetting()
    await network.open(setting.sites)
    group = AnyGroup(setting, seed, LoopClock(asyncio.get_running_loop()), network)
    cut = group.cut_of(setting.sites[:2])
    await asyncio.sleep(BEGIN)
    while group.now < BEGIN + seconds:
        await asyncio.sleep(UP + group.random.uniform(-_JITTER, _JITTER))
        group.set_links(cut, False)
        await asyncio.sleep(DOWN)
        group.set_links(cut, True)
    await asyncio.sleep(BEGIN)
    result = evaluate(group.record, group.now)
    for name in setting.sites:
        group.kill_site(name)
    await network.close()
    return result


def evaluate(record: Record, end: float) -> Awareness:
    suspected, back, shares = [], [], []
    for pair, outages in record.outages.items():
        for one, other in (pair, pair[::-1]):
            statuses = record.statuses_of(one, other)
            shares.append(share_not_disconnected(statuses, BEGIN, end))
            for lost_at, repaired_at in outages:
                suspected.append(_delay(statuses, LinkState.SUSPECTED, lost_at))
                back.append(_delay(statuses, LinkState.CONNECTED, repaired_at))
    pair = next(iter(record.outages))
    return Awareness(
        *(suspected, back, min(shares)),
        *(record.outages[pair], list(record.statuses_of(*pair)), record.errors),
    )


def _delay(statuses: Sequence[Status], state: LinkState, since: float) -> float:
    times = (each.time for each in statuses if each.state is state and each.time >= since)
    return next(times, float("inf")) - since


def findings(result: Awareness, name: str = "awareness") -> list[Finding]:
    return [
        Finding(name, "suspected after a loss, at most", max(result.suspected), "s", "6 s", most=6),
        Finding(name, "connected after a repair, at most", max(result.back), "s", "3 s", most=3.5),
        Finding(name, "availability", 100 * result.availability, "%", "100%", least=100.0),
        Finding(name, "errors", len(result.errors), "", most=0),
    ]


def draw(result: Awareness, axis: Any, shown: float = 130.0) -> None:
    times = [each.time for each in result.statuses]
    levels = [_LEVELS[each.state] for each in result.statuses]
    axis.step([*times, shown], [*levels, levels[-1]], where="post", label="status")
    for number, (lost_at, repaired_at) in enumerate(result.outages):
        label = {} if number else {"label": "link down"}
        axis.axvspan(lost_at, repaired_at, alpha=0.2, color="gray", **label)
        paper = {} if number else {"label": "paper: suspected 6 s, back 3 s"}
        axis.plot(
            [lost_at + 6, lost_at + 6, repaired_at + 3, repaired_at + 3],
            [2.1, 0.9, 0.9, 2.1],
            color="tab:red",
            linestyle=":",
            **paper,
        )
    axis.set_xlim(0, shown)
    axis.set_ylim(-0.1, 2.7)
    axis.set_yticks([0, 1, 2], ["disconnected", "suspected", "connected"])
    axis.set_title("awareness (figure 6)")
    axis.set_xlabel("s")
    axis.legend(loc="upper right")
