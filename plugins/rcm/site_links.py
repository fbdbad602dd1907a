"""Links of a site to the others of its group, and the statuses told of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence

from twisted.logger import Logger

from broker.errors import ConfigurationError
from broker.event.site_notice import SiteStatus
from broker.streams.contract import ILinks, ITransportContext
from broker.transport.layer import ClockOffset
from broker.transport.message import Outcome
from broker.transport.view import LinkState

#: Seconds after which a site that broke the protocol is dialled again.
RETRY_SECONDS = 3.0


class SiteLinks:
    log = Logger()

    def __init__(
        self,
        context: ITransportContext,
        sites: Sequence[str],
        address_of: Callable[[str], tuple[str, int]],
    ) -> None:
        """`sites` are the other ones. `address_of` raises `ConfigurationError`."""
        self.lost_sends = 0
        """Messages for which a link had no room: they come from the log."""
        self._context = context
        self._address_of = address_of
        self._links: ILinks | None = None
        self._peers: dict[str, Hashable] = {}
        """By site."""
        self._statuses = dict.fromkeys(sites, (LinkState.DISCONNECTED, ""))
        """State and reason of each site, as told."""

    def __contains__(self, site: str) -> bool:
        return site in self._statuses

    @property
    def sites(self) -> list[str]:
        """Return the other sites."""
        return list(self._statuses)

    @property
    def is_closed(self) -> bool:
        return self._links is None

    def open(self, links: ILinks) -> None:
        """Use these links. The sites follow by `connect`."""
        self._links = links

    def close(self) -> None:
        links, self._links = self._links, None
        if links is not None:
            links.close()

    def connect(self, site: str) -> None:
        """Begin a link to a site."""
        if self._links is None:
            return
        try:
            self._peers[site] = self._links.add_peer(self._address_of(site))
        except ConfigurationError as error:
            # Its name may resolve later.
            self.log.warn("no link to the site {site}, retrying: {e}", site=site, e=error)
            self.connect_later(site)

    def connect_later(self, site: str) -> None:
        self._context.clock.callLater(RETRY_SECONDS, self.connect, site)

    def remove(self, site: str) -> bool:
        """End the link to a site. No change of it follows. Return False if there was none."""
        peer = self._peers.pop(site, None)
        if peer is None or self._links is None:
            return False
        self._links.remove_peer(peer)
        return True

    def send(self, data: Sequence[bytes], sites: Sequence[str]) -> Collection[str]:
        """Return the sites whose links do not carry these messages.

        They may not carry earlier ones, either: what waits for a site that is not connected makes
        room for later messages.
        """
        links = self._links
        if links is None:
            return sites
        by_peer = {self._peers[site]: site for site in sites if site in self._peers}
        lost = {site for site in sites if site not in self._peers}
        for outcomes in links.send(data, list(by_peer)):
            for peer, outcome in outcomes.items():
                if outcome is not Outcome.SENT:
                    self.lost_sends += outcome is Outcome.FULL
                    lost.add(by_peer[peer])
                    if links.view_of(peer).state is not LinkState.CONNECTED:
                        links.drop_unsent(peer)
        return lost

    def suspect(self, site: str, reason: str) -> None:
        if self._links is not None and site in self._peers:
            self._links.suspect(self._peers[site], reason)

    def site_at(self, peer: Hashable) -> str | None:
        """Return the site behind a link; None for a node that is no site."""
        site = "" if self._links is None else self._links.node_of(peer)
        return site if site in self._statuses else None

    def reason_of(self, peer: Hashable, state: LinkState) -> str | None:
        """Return the reason of a change of a link; None if the change is no news of the site."""
        # The handshake reports a connection (`ILinkOwners.own_link`).
        if self._links is None or state is LinkState.CONNECTED:
            return None
        view = self._links.view_of(peer)
        # A link without `keep` ended behind the handshake, because the other one is new.
        return None if view.state is LinkState.CONNECTED else view.reason

    def clock_of(self, site: str) -> ClockOffset | None:
        """Return the measured difference of a site's clock."""
        peer = self._peers.get(site)
        return None if self._links is None or peer is None else self._links.clock_of(peer)

    def report(self, site: str, state: LinkState, reason: str) -> None:
        """Tell subscriptions the status of a site."""
        if self._links is None or self._statuses.get(site) == (state, reason):
            # Each failed attempt to connect repeats it.
            return
        self._statuses[site] = state, reason
        now, wall = self._context.clock.seconds(), self._context.wall_clock()
        until = None
        if state is LinkState.SUSPECTED and site in self._peers:
            until = self._links.view_of(self._peers[site]).until
        next_change = None if until is None else wall + round(max(0.0, until - now) * 1000)
        stack = self._context.instance
        self._context.notify(SiteStatus(stack, site, state.value, reason, wall, next_change))

    def describe(self, site: str, now: float) -> dict[str, object]:
        """Return status, its reason, and times in seconds from now on (N13)."""
        found: dict[str, object] = {"site": site, "status": self._statuses[site][0].value}
        if self._links is None or site not in self._peers:
            return found
        view, clock = self._links.view_of(self._peers[site]), self.clock_of(site)
        found |= {"reason": view.reason, "for": round(now - view.since, 3)}
        if view.until is not None:
            found["next_change_in"] = round(max(0.0, view.until - now), 3)
        if clock is not None:
            found["clock_offset"], found["clock_uncertainty"] = clock
        return found
