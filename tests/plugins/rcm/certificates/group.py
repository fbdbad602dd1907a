"""Sites that exchange certificates in virtual time, over links that can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.order_certificates.leaf import Leaf
from broker.order_certificates.signing_key import SigningKey
from plugins.rcm.certificates.block_builder import BlockBounds, BlockBuilder
from plugins.rcm.certificates.exchange import CertificateExchange
from plugins.rcm.effects import EndLink, GroupEffect, SendPacket

KEYS = {site: SigningKey.generate() for site in "abc"}
PINNED = {site: [key.public] for site, key in KEYS.items()}


def make_builder(
    site: str = "a",
    *,
    incarnation: int = 1,
    has_times: bool = False,
    bounds: BlockBounds | None = None,
) -> BlockBuilder:
    return BlockBuilder(*("g", site, incarnation, KEYS[site]), has_times=has_times, bounds=bounds)


class Group:
    """`change` may replace a packet on its way, or drop it with None."""

    def __init__(self, sites: str = "ab", bounds: BlockBounds | None = None) -> None:
        self.now = 100.0
        self.sites = {site: self._make(site, sites, bounds) for site in sites}
        self.ended: list[tuple[str, str]] = []
        self.packets: list[tuple[str, str, bytes]] = []
        self.change: Callable[[str, bytes], bytes | None] = lambda site, data: data

    def _make(self, site: str, sites: str, bounds: BlockBounds | None) -> CertificateExchange:
        others = [each for each in sites if each != site]
        return CertificateExchange(make_builder(site, bounds=bounds), PINNED, others)

    def restart(self, site: str, incarnation: int) -> None:
        others = [each for each in self.sites if each != site]
        builder = make_builder(site, incarnation=incarnation)
        self.sites[site] = CertificateExchange(builder, PINNED, others)

    def deliver(self, site: str, leaves: Iterable[Leaf]) -> None:
        """Deliver in this order: late is what is below a delivered one."""
        builder = self.sites[site].builder
        highest = None
        for leaf in leaves:
            is_late = highest is not None and leaf.key < highest
            builder.add_event(leaf, is_late=is_late, now=self.now)
            highest = leaf.key if highest is None else max(highest, leaf.key)

    def connect(self) -> None:
        for site, exchange in self.sites.items():
            for other in exchange.peers:
                self.apply(site, exchange.connect(other, self.now))

    def cut(self) -> None:
        for exchange in self.sites.values():
            for other in exchange.peers:
                exchange.disconnect(other, self.now)

    def apply(self, site: str, effects: Iterable[GroupEffect]) -> None:
        for effect in effects:
            if isinstance(effect, EndLink):
                self.ended.append((site, effect.site))
                continue
            assert isinstance(effect, SendPacket)
            (to,) = effect.sites
            if (data := self.change(site, effect.data)) is not None:
                self.packets.append((site, to, data))
                self.apply(to, self.sites[to].receive(site, [data], self.now))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            times = {
                site: time
                for site, each in self.sites.items()
                if (time := each.next_timeout()) is not None and time <= end
            }
            if not times:
                break
            site = min(times, key=lambda each: (times[each], each))
            self.now = max(self.now, times[site])
            self.apply(site, self.sites[site].handle_timeout(self.now))
        self.now = end
