"""Links of a site to the others of its group, and the statuses told of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.config.endpoints import is_ip_address, tcp_address
from broker.errors import BrokerError, ConfigurationError, NotConnected
from broker.event.site_notice import SiteStatus
from broker.streams.contract import ILinks, ITransportContext
from broker.transport.layer import ClockOffset
from broker.transport.message import Outcome, Peer
from broker.transport.view import LinkState

#: Seconds after which a site that broke the protocol is dialled again.
RETRY_SECONDS = 3.0
#: Seconds after which the host name of a site that is not connected is resolved again.
RESOLVE_SECONDS = 30.0


class SiteLinks:
    log = Logger()

    def __init__(
        self,
        context: ITransportContext,
        sites: Mapping[str, str],
        notify: Callable[[SiteStatus], object],
    ) -> None:
        """`sites` are the other ones, with their addresses. `notify` gets new statuses."""
        self.lost_sends = 0
        """Messages for which a link had no room: they come from the log."""
        self.drops_unsent = True
        """Messages that wait for a site that is not connected make room for later ones."""
        self._context = context
        self._addresses = dict(sites)
        self._notify = notify
        self._links: ILinks | None = None
        self._peers: dict[str, Hashable] = {}
        """By site."""
        self._errors: dict[str, str] = {}
        """Reasons why sites are not dialled."""
        self._calls: dict[str, Any] = {}
        """The next call of `connect` of each site."""
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
        for site in list(self._calls):
            self._cancel_call(site)
        if links is not None:
            links.close()

    def add_site(self, site: str, address: str) -> None:
        """Add a site, or change its address. Links are changed soon: a layer may run now."""
        is_new = site not in self._statuses
        self._addresses[site] = address
        self._statuses.setdefault(site, (LinkState.DISCONNECTED, ""))
        self.report(site, LinkState.DISCONNECTED, "admitted" if is_new else "moved")
        self._end_soon(site)
        self._context.clock.callLater(0.0, self.connect, site)

    def remove_site(self, site: str) -> None:
        """Tell that a site has left, and end its link soon. Its messages are dropped from now."""
        self.report(site, LinkState.DISCONNECTED, "removed")
        del self._addresses[site], self._statuses[site]
        self._errors.pop(site, None)
        self._cancel_call(site)
        self._end_soon(site)

    def leave_site(self, site: str) -> None:
        """End the link to a site, from whose group this node has left, and dial it again later."""
        self.report(site, LinkState.DISCONNECTED, "removed")
        self._end_soon(site)
        self.connect_later(site)

    def forget_soon(self, peer: Hashable) -> None:
        """End the link of a node that is no site, whose connection has ended."""
        self._context.clock.callLater(0.0, self._forget, peer)

    def _forget(self, peer: Hashable) -> None:
        # Such a node may answer at the address of a site, which is dialled on.
        if self.site_at(peer) is None and peer not in self._peers.values():
            self._end(peer)

    def _end_soon(self, site: str) -> None:
        peer = self._peers.pop(site, None)
        if peer is not None:
            self._context.clock.callLater(0.0, self._end, peer)

    def _end(self, peer: Hashable) -> None:
        if self._links is not None:
            self._links.remove_peer(peer)

    def connect(self, site: str) -> None:
        """Begin a link to a site, when the host name of its address is resolved.

        The name is resolved again while the site is not connected: its address may change.
        """
        address = self._addresses.get(site)
        if self._links is None or address is None:
            return
        host, port = tcp_address(address)
        if is_ip_address(host):
            self._add_peer(site, address, (host, port))
            return
        self._call_later(RESOLVE_SECONDS, site)
        if site not in self._peers or self._statuses[site][0] is not LinkState.CONNECTED:
            resolved = self._links.resolve(host)
            resolved.addCallback(lambda found: self._add_peer(site, address, (found, port)))
            resolved.addErrback(self._fail_to_resolve, site, address)

    def _add_peer(self, site: str, address: str, place: tuple[str, int]) -> None:
        if self._links is None or self._addresses.get(site) != address:
            return
        earlier = self._peers.pop(site, None)
        try:
            peer = self._peers[site] = self._links.add_peer(place)
            self._errors.pop(site, None)
        except ConfigurationError as error:
            self._report_error(site, error)
        else:
            earlier = None if earlier == peer else earlier
        if earlier is not None:
            self._links.remove_peer(earlier)

    def _fail_to_resolve(self, failure: Failure, site: str, address: str) -> None:
        error = failure.value
        if not isinstance(error, BrokerError):
            failure.raiseException()
        # The link to an earlier address stays.
        elif self._addresses.get(site) == address:
            self._report_error(site, error)

    def _report_error(self, site: str, error: BrokerError) -> None:
        """Show why a site is not dialled, and try again."""
        text = f"{self._addresses[site]}: {error.text}"
        if self._errors.get(site) != text:
            self._errors[site] = text
            self.log.warn("no link to the site {site}, retrying: {e}", site=site, e=text)
        self.connect_later(site)

    def connect_later(self, site: str) -> None:
        self._call_later(RETRY_SECONDS, site)

    def _call_later(self, seconds: float, site: str) -> None:
        self._cancel_call(site)
        self._calls[site] = self._context.clock.callLater(seconds, self.connect, site)

    def _cancel_call(self, site: str) -> None:
        call = self._calls.pop(site, None)
        if call is not None and call.active():
            call.cancel()

    def check_address(self, site: str) -> None:
        """Raises `NotConnected` for a site that can not be sent to."""
        if site not in self._peers:
            raise NotConnected(self._errors.get(site, f"{site} is not dialled yet"))

    def remove(self, site: str) -> bool:
        """End the link to a site. No change of it follows. Return False if there was none."""
        peer = self._peers.pop(site, None)
        if peer is None or self._links is None:
            return False
        self._links.remove_peer(peer)
        return True

    def send(self, data: Sequence[bytes], sites: Sequence[str]) -> dict[Peer, Outcome]:
        """Send to sites, and return the outcomes of the last message.

        With `drops_unsent` a link that does not carry it may not carry earlier messages, either.
        """
        links = self._links
        found: dict[Peer, Outcome] = dict.fromkeys(sites, Outcome.ABSENT)
        if links is None:
            return found
        by_peer = {self._peers[site]: site for site in sites if site in self._peers}
        for outcomes in links.send(data, list(by_peer)):
            for peer, outcome in outcomes.items():
                found[by_peer[peer]] = outcome
                if outcome is not Outcome.SENT:
                    self.lost_sends += outcome is Outcome.FULL
                    is_connected = links.view_of(peer).state is LinkState.CONNECTED
                    if self.drops_unsent and not is_connected:
                        links.drop_unsent(peer)
        return found

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
        """Tell the status of a site."""
        if self._links is None or self._statuses.get(site, (state, reason)) == (state, reason):
            # Each failed attempt to connect repeats it; a site that has left has no status.
            return
        self._statuses[site] = state, reason
        now, wall = self._context.clock.seconds(), self._context.wall_clock()
        until = None
        if state is LinkState.SUSPECTED and site in self._peers:
            until = self._links.view_of(self._peers[site]).until
        next_change = None if until is None else wall + round(max(0.0, until - now) * 1000)
        stack = self._context.instance
        self._notify(SiteStatus(stack, site, state.value, reason, wall, next_change))

    def describe(self, site: str, now: float) -> dict[str, object]:
        """Return status, its reason, and times in seconds from now on (N13)."""
        found: dict[str, object] = {"site": site, "status": self._statuses[site][0].value}
        found["address"] = self._addresses[site]
        if site in self._errors:
            found["error"] = self._errors[site]
        if self._links is None or site not in self._peers:
            return found
        view, clock = self._links.view_of(self._peers[site]), self.clock_of(site)
        found |= {"reason": view.reason, "for": round(now - view.since, 3)}
        if view.until is not None:
            found["next_change_in"] = round(max(0.0, view.until - now), 3)
        if clock is not None:
            found["clock_offset"], found["clock_uncertainty"] = clock
        return found
