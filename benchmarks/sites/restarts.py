"""Robustness: links that flap and sites that restart, then calm (RCM R43)."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import attrs

from benchmarks.sites.finding import Finding
from benchmarks.sites.group import SiteGroup, SiteSetting

ROUNDS: Final = 40
#: Seconds of each round.
DYNAMIC: Final = 60.0
CALM: Final = 30.0
_GLANCE: Final = 0.05


@attrs.frozen
class Restarts:
    connected: list[float]
    """Seconds of calm in each round until all sites see each other as connected."""
    restarts: int
    outages: int
    errors: list[str]


def measure(rounds: int = ROUNDS, seed: int = 4) -> Restarts:
    group = SiteGroup(SiteSetting(), seed)
    random = Random(seed)
    connected, restarts = [], 0
    for _ in range(rounds):
        end = group.now + DYNAMIC
        while group.now < end:
            restarts += _disturb(group, random)
            group.run(random.uniform(0.2, 4.0))
        group.set_links(group.pairs, True)
        for name in group.setting.sites:
            if name not in group.sites:
                group.start_site(name)
        begin = group.now
        while not group.is_connected() and group.now < begin + CALM:
            group.run(_GLANCE)
        connected.append(group.now - begin)
        group.run(CALM)
    outages = sum(map(len, group.record.outages.values()))
    return Restarts(connected, restarts, outages, group.record.errors)


def _disturb(group: SiteGroup, random: Random) -> int:
    """Change a link, or kill or start a site. Return the number of kills."""
    action = random.random()
    if action < 0.4:
        group.set_links([random.choice(group.pairs)], False)
    elif action < 0.7:
        group.set_links([random.choice(group.pairs)], True)
    else:
        name = random.choice(group.setting.sites)
        if name in group.sites:
            group.kill_site(name)
            return 1
        group.start_site(name)
    return 0


def findings(result: Restarts) -> list[Finding]:
    name = "restarts"
    return [
        Finding(
            *(name, "calm until all are connected, at most", max(result.connected), "s"),
            "several s",
            most=10.0,
        ),
        Finding(name, "restarts of sites", result.restarts, ""),
        Finding(name, "errors", len(result.errors), "", most=0),
    ]


def draw(result: Restarts, axis: Any) -> None:
    axis.hist(result.connected, bins=22, range=(0, 11))
    axis.axvline(10, color="tab:red", linestyle=":", label="bound 10 s; paper: several seconds")
    axis.set_xlim(0, 11)
    axis.set_title("restarts: calm until all are connected")
    axis.set_xlabel("s")
    axis.set_ylabel("rounds")
    axis.legend()
