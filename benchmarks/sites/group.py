"""A group of sites, its links, and its traffic."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations
from random import Random
from typing import Final

import attrs

from benchmarks.sites.record import Pair, Record
from benchmarks.sites.site import Site
from benchmarks.sites.tcp_network import TcpNetwork
from broker.testing.memory_network import MemoryNetwork
from broker.testing.virtual_time import VirtualTime
from broker.transport.clock import IClock
from broker.transport.order import OrderSettings
from broker.transport.order.instant import MICROSECONDS
from broker.transport.view import LinkState
from plugins.rcm.settings import RcmLinkSettings

#: RCM R39: 56 kbit/s.
BYTES_PER_SECOND: Final = 7_000.0
#: Bytes of a message.
SIZE: Final = 100
#: A period between two messages varies by this part.
_JITTER: Final = 0.2
#: Microseconds of the site clocks at the start.
_START: Final = 1_700_000_000 * MICROSECONDS


@attrs.frozen(kw_only=True)
class SiteSetting:
    """Without further arguments the setting of the paper (R39)."""

    sites: tuple[str, ...] = ("a", "b", "c", "d")
    variant: str = "logical"
    order: OrderSettings = OrderSettings()
    links: RcmLinkSettings = RcmLinkSettings()
    bytes_per_second: float = BYTES_PER_SECOND
    """Of each direction between two sites."""
    latency: float = 0.1
    """Seconds, one way. The paper does not tell that of its links; modems of this rate have it."""
    rate: float = 2.0
    """Messages a second of each site."""
    commit: float = 0.0
    """Seconds between the stamp of a message and its sending."""


class AnyGroup:
    """All sites run, and connect to each other. The seed decides the times of messages."""

    def __init__(
        self, setting: SiteSetting, seed: int, clock: IClock, network: MemoryNetwork | TcpNetwork
    ) -> None:
        self.setting = setting
        self.record = Record()
        self.clock = clock
        self.network = network
        self.random = Random(seed)
        self.sites: dict[str, Site] = {}
        self._incarnations = dict.fromkeys(setting.sites, 0)
        self._floors = dict.fromkeys(setting.sites, 0)
        self.record.deliveries.update((name, []) for name in setting.sites)
        self._down: dict[Pair, float] = {}
        """Times of the losses of links."""
        for name in setting.sites:
            self.start_site(name)
            self.clock.callLater(self.random.random() / setting.rate, self._publish, name)

    @property
    def now(self) -> float:
        return float(self.clock.seconds())

    @property
    def pairs(self) -> list[Pair]:
        return list(combinations(self.setting.sites, 2))

    def read_site_clock(self, now: float) -> int:
        return _START + round(now * MICROSECONDS)

    # ----------------------------------------------------------------- links

    def set_links(self, pairs: Iterable[Pair], is_up: bool) -> None:
        """Silence links, or end the silence. Bytes wait in both directions, as with TCP."""
        for pair in pairs:
            if is_up and pair in self._down:
                outages = self.record.outages.setdefault(pair, [])
                outages.append((self._down.pop(pair), self.now))
                self._set_path(pair, is_up)
            elif not is_up and pair not in self._down:
                self._down[pair] = self.now
                self._set_path(pair, is_up)

    def _set_path(self, pair: Pair, is_up: bool) -> None:
        change = self.network.release if is_up else self.network.hold
        for one, other in (pair, pair[::-1]):
            for to_listener in (False, True):
                change(self.network.path(one, other), to_listener=to_listener)

    def cut_of(self, sites: Collection[str]) -> list[Pair]:
        """Return the links between these sites and the others."""
        return [pair for pair in self.pairs if (pair[0] in sites) is not (pair[1] in sites)]

    def is_connected(self) -> bool:
        """Return True if all sites run and see each other as connected."""
        return len(self.sites) == len(self.setting.sites) and all(
            state is LinkState.CONNECTED
            for site in self.sites.values()
            for state in site.states.values()
        )

    # ----------------------------------------------------------------- sites

    def start_site(self, name: str) -> None:
        self._incarnations[name] += 1
        self.sites[name] = Site(self, name, self._incarnations[name], self._floors[name])

    def kill_site(self, name: str) -> None:
        """End the process of a site."""
        self._floors[name] = self.sites.pop(name).kill()

    def _publish(self, name: str) -> None:
        period = (1.0 + self.random.uniform(-_JITTER, _JITTER)) / self.setting.rate
        self.clock.callLater(period, self._publish, name)
        site = self.sites.get(name)
        if site is not None:
            site.publish(bytes(SIZE))


class SiteGroup(AnyGroup):
    """A group in virtual time."""

    network: MemoryNetwork

    def __init__(self, setting: SiteSetting, seed: int = 0) -> None:
        self.time = VirtualTime(seed)
        clock = self.time.clock
        network = MemoryNetwork(
            *(clock, seed), latency=setting.latency, bytes_per_second=setting.bytes_per_second
        )
        super().__init__(setting, seed, clock, network)

    def run(self, seconds: float) -> None:
        self.time.run(seconds)

    def kill_site(self, name: str) -> None:
        """End the process of a site. Its system closes its connections."""
        super().kill_site(name)
        self.network.cut_end(name)
