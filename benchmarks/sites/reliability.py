"""Reliability of three layers of messages through outages (RCM R41, figure 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.sites.awareness import BEGIN, HOUR, UP, alternate
from benchmarks.sites.finding import Finding
from benchmarks.sites.group import SiteGroup, SiteSetting
from benchmarks.sites.record import Record
from broker.transport.view import LinkState
from plugins.rcm.settings import RcmLinkSettings

LAYERS: Final = ("robust-p2p", "tcp-suspected", "tcp")
DOWNS: Final = tuple(float(down) for down in range(0, 61, 3))
#: Outages from which on `tcp` loses a third.
LONG: Final = 15.0


@attrs.frozen
class Reliability:
    """Messages between sites of different partitions, each counted for each receiver."""

    layer: str
    down: float
    sent: int
    lost: int
    twice: int
    lost_while_suspected: int
    """Lost ones that were sent while the sender suspected the receiver."""
    errors: list[str]

    @property
    def share(self) -> float:
        return 1.0 - self.lost / self.sent


def measure(layer: str, down: float, seconds: float = HOUR, seed: int = 2) -> Reliability:
    # The order does not count here, and this variant has no packets of its own.
    setting = SiteSetting(variant="real-time", links=RcmLinkSettings(p2p=layer))
    group = SiteGroup(setting, seed)
    alternate(group, UP, down, seconds)
    end = group.now
    group.run(UP)
    sites = setting.sites
    sent = lost = twice = lost_while_suspected = 0
    for receiver in sites:
        received = [each.id for each in group.record.deliveries[receiver]]
        arrived = set(received)
        twice += len(received) - len(arrived)
        is_first = receiver in sites[:2]
        for id, sent_at in group.record.sent.items():
            if (id.site in sites[:2]) is is_first or not BEGIN <= sent_at < end:
                continue
            sent += 1
            if id not in arrived:
                lost += 1
                state = _state_at(group.record, id.site, receiver, sent_at)
                lost_while_suspected += state is not LinkState.CONNECTED
    return Reliability(layer, down, sent, lost, twice, lost_while_suspected, group.record.errors)


def _state_at(record: Record, site: str, peer: str, time: float) -> LinkState:
    earlier = [each.state for each in record.statuses_of(site, peer) if each.time < time]
    return earlier[-1] if earlier else LinkState.DISCONNECTED


def findings(results: Sequence[Reliability]) -> list[Finding]:
    name = "reliability"
    by_layer = {layer: [each for each in results if each.layer == layer] for layer in LAYERS}
    robust, suspected, plain = by_layer.values()
    worst = min(each.share for each in suspected)
    lost = [100 - 100 * each.share for each in plain if each.down >= LONG]
    return [
        Finding(
            *(name, "robust-p2p: arrived, at least", 100 * min(each.share for each in robust)),
            *("%", "100%", 100.0),
        ),
        Finding(
            name,
            "tcp-suspected: lost and sent while suspected",
            sum(each.lost_while_suspected for each in suspected),
            "messages",
            "0",
            most=0,
        ),
        Finding(name, "tcp-suspected: arrived, at least", 100 * worst, "%", "some lost"),
        Finding(
            *(name, f"tcp: lost from {LONG:g} s on, at least", min(lost, default=0.0), "%"),
            *("> 30%", 30.0),
        ),
        Finding(name, "delivered twice", sum(each.twice for each in results), "", most=0),
        Finding(name, "errors", sum(len(each.errors) for each in results), "", most=0),
    ]


def draw(results: Sequence[Reliability], axis: Any) -> None:
    for layer in LAYERS:
        points = sorted((each.down, 100 * each.share) for each in results if each.layer == layer)
        axis.plot(*zip(*points, strict=True), marker=".", label=layer)
    axis.axhline(100, color="tab:red", linestyle=":", label="paper: robust 100%, tcp below 70%")
    axis.axhline(70, color="tab:red", linestyle=":")
    axis.set_ylim(0, 105)
    axis.set_title("reliability (figure 7)")
    axis.set_xlabel("outage, s")
    axis.set_ylabel("arrived across the cut, %")
    axis.legend()
