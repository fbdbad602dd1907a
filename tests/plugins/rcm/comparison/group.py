"""Sites that compare variants in virtual time, over links that can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from broker.transport.layer import ClockOffset
from broker.transport.order import (
    VARIANTS,
    Deliver,
    Instant,
    IOrderCore,
    IPacketCodec,
    OrderEffect,
    OrderSettings,
    Send,
)
from broker.transport.view import LinkState
from plugins.rcm.comparison.configuration import create_comparison
from plugins.rcm.comparison.site_comparison import SiteComparison
from plugins.rcm.effects import DeliverMessage, GroupEffect, SendPacket
from plugins.rcm.observer import is_marked
from plugins.rcm.options import RcmOptions
from plugins.rcm.payload import Channel

ALL = ("logical", "sequencer", "real-time", "hybrid")
#: Seconds of a packet's way.
DELAY = 0.02


@attrs.define(eq=False)
class Site:
    """A core that delivers, and the comparison beside it."""

    name: str
    incarnation: int
    core: IOrderCore
    codec: IPacketCodec
    comparison: SiteComparison | None
    delivered: list[Any] = attrs.field(factory=list)


class Group:
    """`change` may replace a packet of the comparison on its way, or drop it with None."""

    def __init__(
        self,
        sites: str = "abc",
        order: str = "logical",
        compare: Callable[[str], Sequence[str]] = lambda _: ALL,
        skew: float = 0.0,
    ) -> None:
        self.now = 100.0
        self.order = order
        self.names = sites
        self._compare = compare
        self._skew = skew
        self._queue: list[tuple[float, int, str, str, bytes]] = []
        self._sent = 0
        self.links: set[tuple[str, str]] = set()
        self.change: Callable[[str, str, bytes], bytes | None] = lambda one, other, data: data
        self.sites = {name: self._make(name, 1) for name in sites}

    def _make(self, name: str, incarnation: int) -> Site:
        options = RcmOptions(
            sites=dict.fromkeys(self.names, "tcp:host=127.0.0.1:port=1"),
            order=self.order,
            compare=tuple(self._compare(name)),
        )
        variant = VARIANTS[self.order]
        core = variant.create_core(name, incarnation, OrderSettings(), round(self.now * 1000))
        comparison = create_comparison(
            *(options, "g", name, tuple(self.names), incarnation, core),
            *(lambda now: self.clock(name, now), lambda other: self._offset(name, other), self.now),
        )
        return Site(name, incarnation, core, variant.create_codec(tuple(self.names)), comparison)

    def clock(self, name: str, now: float) -> int:
        return round((now + 1e6 + self._skew * self.names.index(name)) * 1e6)

    def _offset(self, name: str, other: str) -> ClockOffset:
        index = self.names.index
        return ClockOffset(self._skew * (index(other) - index(name)), 0.001)

    def instant(self, name: str) -> Instant:
        return Instant(self.now, self.clock(name, self.now))

    # ------------------------------------------------------------------ links

    def connect(self, *names: str) -> None:
        """Connect these sites with each other; none: all."""
        names = names or tuple(self.names)
        for one in names:
            for other in names:
                if one != other and (one, other) not in self.links:
                    self._connect(one, other)

    def _connect(self, one: str, other: str) -> None:
        """The links' handshake is instantaneous."""
        self.links.add((one, other))
        ours, theirs = self.sites[one], self.sites[other]
        effects = None
        while effects is None:
            offer = ours.core.offer_clock(other, self.instant(one))
            answer = theirs.core.answer_clock(one, offer, self.instant(other))
            if answer is not None:
                effects = ours.core.connect(other, answer, self.instant(one))
            self.now += 0.3
        self._apply(one, effects)
        if ours.comparison is not None:
            self.observe(one, ours.comparison.connect(other, self.now))

    def cut(self, name: str) -> None:
        """Lose the links of a site, with all that is under way."""
        lost = {link for link in self.links if name in link}
        self.links -= lost
        self._queue = [each for each in self._queue if name not in each[2:4]]
        for one, other in sorted(lost):
            site = self.sites[one]
            core = site.core
            self._apply(one, core.disconnect(other, LinkState.SUSPECTED, self.instant(one)))
            if site.comparison is not None:
                self.observe(one, site.comparison.disconnect(other, self.now))

    def restart(self, name: str) -> None:
        self.cut(name)
        self.sites[name] = self._make(name, self.sites[name].incarnation + 1)

    # ------------------------------------------------------------------ messages

    def publish(self, name: str, count: int = 1) -> None:
        core = self.sites[name].core
        core.stamp(count, self.instant(name))
        self._apply(name, core.release([b"document"] * count, self.instant(name)))

    def _apply(self, name: str, effects: Iterable[OrderEffect]) -> None:
        site = self.sites[name]
        for effect in effects:
            match effect:
                case Send(packets, sites):
                    data = site.codec.encode(packets)
                    others = [each for each in self.names if each != name]
                    sent_to = others if sites is None else list(sites)
                    for other in sent_to:
                        self._post(name, other, data)
                    if site.comparison is not None:
                        self.observe(name, site.comparison.send([data], sent_to, self.now))
                case Deliver(message, stamp, late):
                    site.delivered.append(message.id)
                    delivery = DeliverMessage(
                        *(Channel.CLIENTS, message.id, stamp, late, b"", False)
                    )
                    if site.comparison is not None:
                        self.observe(name, site.comparison.deliver_message(delivery, self.now))

    def observe(self, name: str, effects: Iterable[GroupEffect]) -> None:
        for effect in effects:
            assert isinstance(effect, SendPacket)
            for other in effect.sites:
                data = self.change(name, other, effect.data)
                if data is not None:
                    self._post(name, other, data)

    def _post(self, one: str, other: str, data: bytes) -> None:
        self._sent += 1
        if (one, other) in self.links:
            self._queue.append((self.now + DELAY, self._sent, one, other, data))

    def receive(self, one: str, other: str, data: bytes) -> None:
        """Give a packet of a site to another one."""
        site = self.sites[other]
        if not is_marked(data):
            packets = site.codec.decode(one, data)
            self._apply(other, site.core.receive(one, packets, self.instant(other)))
        elif site.comparison is not None:
            self.observe(other, site.comparison.receive(one, [data], self.now))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self._next()) is not None and due <= end:
            self.now = max(self.now, due)
            if self._queue and self._queue[0][0] <= self.now:
                _, _, one, other, data = self._queue.pop(0)
                self.receive(one, other, data)
                continue
            for name, site in self.sites.items():
                time = site.core.next_timeout()
                if time is not None and time <= self.now:
                    self._apply(name, site.core.handle_timeout(self.instant(name)))
                comparison = site.comparison
                if comparison is None:
                    continue
                time = comparison.next_timeout()
                if time is not None and time <= self.now:
                    self.observe(name, comparison.handle_timeout(self.now))
        self.now = end

    def _next(self) -> float | None:
        times = [self._queue[0][0]] if self._queue else []
        for site in self.sites.values():
            cores = (site.core, site.comparison)
            times += [time for each in cores if each is not None and (time := each.next_timeout())]
        return min(times, default=None)

    # ------------------------------------------------------------------ results

    def row(self, name: str, variant: str) -> dict[str, Any]:
        comparison = self.sites[name].comparison
        assert comparison is not None
        found: Any = comparison.snapshot()["comparison"]
        return next(each for each in found["variants"] if each["variant"] == variant)
