"""Sites with links over the `rcm` link stack, in virtual time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from zope.interface import implementer

from broker.errors import BrokerError
from broker.streams.contract import ILinkReceiver
from broker.transport.monitor import ILinkOwner, ILinkOwners
from broker.transport.view import LinkState, View
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from tests.streams.link_ends import End, Wire


@implementer(ILinkOwner)
class SiteOwner:
    """Owner of the link of one site to another."""

    def __init__(self, site: Site, peer: str) -> None:
        self._site = site
        self._peer = peer

    def read_site_clock(self, now: float) -> int:
        return round((now + self._site.clock_offset) * 1e6)

    def make_offer(self, now: float) -> bytes:
        return self._site.name.encode()

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        assert offer.decode() == self._peer
        return b"answer to " + offer

    def accept_answer(self, answer: bytes, now: float) -> bool:
        assert answer == b"answer to " + self._site.name.encode()
        site = self._site
        site.owned.append((now, self._peer))
        if site.sends_first:
            site.outcomes.append(site.send(b"first", *site.sends_first))
            site.sends_first = []
        return True


@implementer(ILinkReceiver, ILinkOwners)
class Site:
    """One process of a site. It records states with their times, and messages."""

    def __init__(
        self,
        wire: Wire,
        name: str,
        *,
        incarnation: int = 1,
        process: int | None = None,
        origin: str = "",
        options: RcmLinkSettings | None = None,
    ) -> None:
        """`process` is the incarnation of the node, by its wall clock."""
        self.name = name
        self.incarnation = incarnation
        self.clock_offset = 0.0
        self.refused: set[str] = set()
        self.sends_first: list[Site] = []
        self.outcomes: list[list[str]] = []
        self.late = b""
        """A message for which the sender is suspected."""
        self.owned: list[tuple[float, str]] = []
        self.states: dict[str, list[tuple[float, LinkState]]] = {}
        self.views: dict[str, list[View]] = {}
        self.received: list[tuple[str, bytes]] = []
        started = incarnation if process is None else process
        self.end = End(wire, name, incarnation=started, origin=origin, link_stack=rcm_links)
        self.wire = wire
        self.links = self.end.open(receiver=self, link_options=options)

    def own_link(self, node: str) -> ILinkOwner:
        if node in self.refused:
            raise RefusedSite(f"{node} is not a site")
        return SiteOwner(self, node)

    def add(self, *others: Site) -> None:
        for other in others:
            self.links.add_peer(other.end.address)

    def send(self, message: bytes, *others: Site) -> list[str]:
        (outcomes,) = self.links.send([message], [each.end.address for each in others])
        return [outcomes[each.end.address].value for each in others]

    def state_of(self, other: Site) -> LinkState:
        return self.links.view_of(other.end.address).state

    def states_of(self, other: Site) -> list[str]:
        """Return the states from the first connection on, without repeated ones."""
        found: list[str] = []
        for _, state in self.states.get(other.name, ()):
            if found[-1:] != [state.value] and (found or state is LinkState.CONNECTED):
                found.append(state.value)
        return found

    def first_time(self, other: Site, state: LinkState, after: float) -> float:
        return next(
            time for time, each in self.states[other.name] if each is state and time >= after
        )

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        node = self.links.node_of(peer)
        self.received += [(node, each) for each in messages]
        if self.late in messages:
            self.links.suspect(peer, "late")

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        node = self.links.node_of(peer)
        now = self.wire.clock.seconds()
        self.states.setdefault(node, []).append((now, state))
        self.views.setdefault(node, []).append(self.links.view_of(peer))


class RefusedSite(BrokerError):
    pass


def linked_sites(
    *names: str, options: RcmLinkSettings | None = None, seed: int = 0
) -> tuple[Wire, list[Site]]:
    """Return sites that have added each other, and are connected."""
    wire = Wire(seed)
    sites = [Site(wire, name, options=options) for name in names]
    for site in sites:
        site.add(*(other for other in sites if other is not site))
    wire.run(1.0)
    for site in sites:
        for other in sites:
            assert other is site or site.state_of(other) is LinkState.CONNECTED
    return wire, sites


def silence(wire: Wire, one: Site, other: Site) -> None:
    """Silence both directions."""
    wire.silence(one.end, other.end)
    wire.silence(other.end, one.end)


def end_silence(wire: Wire, one: Site, other: Site) -> None:
    wire.end_silence(one.end, other.end)
    wire.end_silence(other.end, one.end)
