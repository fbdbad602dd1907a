"""The `rcm` transport: events of a group of sites, which see one order (RCM R33-R36)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.plugin import IPlugin
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError, Closed, ConfigurationError, NotAllowed
from broker.event.order_entry import decode_order_entry
from broker.event.place import Mark
from broker.event.site_notice import MissingMessages, SiteStatus
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    Guarantee,
    ILinkReceiver,
    ILinks,
    IOrderingTransport,
    IProvingTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.transport.core_runner import CoreRunner
from broker.transport.layer import ClockOffset
from broker.transport.message import Outcome
from broker.transport.monitor import ILinkOwner, ILinkOwners
from broker.transport.order import VARIANTS, OrderSettings
from broker.transport.site_clock import SiteClock
from broker.transport.view import LinkState
from plugins.rcm.certificates.configuration import create_certificates
from plugins.rcm.certificates.packet import MARK
from plugins.rcm.certificates.question import answer_question
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.clock_bounds import ClockBounds
from plugins.rcm.effects import (
    DeliverBatch,
    EndLink,
    GroupEffect,
    PassOn,
    ReportMissing,
    ReportStatus,
    SendCertificates,
    SendData,
    SuspectSite,
)
from plugins.rcm.entries import Entries, GroupName
from plugins.rcm.group import Group
from plugins.rcm.handshake import VERSION, Terms
from plugins.rcm.link_owner import LinkOwner
from plugins.rcm.options import RcmOptions
from plugins.rcm.site_state import LEADS, SiteState

#: Seconds after which a site that broke the protocol is dialled again.
RETRY_SECONDS = 3.0
#: Variants whose stamps are times.
TIMED = frozenset({"real-time", "hybrid"})


@implementer(ILinkReceiver, ILinkOwners, IOrderingTransport, IProvingTransport)
class RcmTransport:
    log = Logger()

    def __init__(self, context: ITransportContext) -> None:
        options = context.options
        assert isinstance(options, RcmOptions)
        self._context = context
        self._options = options
        self._address = options.address_of(context.node)
        self._clock = SiteClock(context.wall_clock)
        self._terms = Terms(VERSION, options.order, options.delta, tuple(sorted(options.sites)))
        self._links: ILinks | None = None
        self._peers: dict[str, Hashable] = {}
        """By site."""
        self._statuses = dict.fromkeys(self._others, (LinkState.DISCONNECTED, ""))
        """State and reason of each site."""
        self._early: list[FlowBatch] | None = []
        """Own events that came before the end of the log was read."""
        self.missing = 0
        """Messages of other sites that will not come."""
        self._bounds = ClockBounds(self._clock_of)
        self.lost_sends = 0
        """Messages for which a link had no room: they come from the log."""
        self._certificates: SiteCertificates | None = None
        self._runner: CoreRunner[GroupEffect] = CoreRunner(context.clock, self._apply)

    @property
    def incarnation(self) -> int:
        """Incarnation of this process, for the links."""
        return self._state.incarnation

    @property
    def _others(self) -> list[str]:
        return [site for site in self._terms.sites if site != self._context.node]

    # ----------------------------------------------------------------- of the node

    def listen(self) -> None:
        context, options = self._context, self._options
        variant = VARIANTS[options.order]
        self._state = SiteState(context.folder, lead=LEADS.get(options.order))
        settings = OrderSettings(clock_delay=options.clock_delay, delta=options.delta)
        incarnation = self._state.incarnation
        core = variant.create_core(context.node, incarnation, settings, self._state.floor)
        self._group = Group(
            *(context.node, incarnation, self._terms.sites),
            [pattern.text for pattern in context.patterns],
            *(core, variant.create_codec(self._terms.sites)),
            Entries(GroupName(context.instance, options.order), core, self._bound_of),
            self._clock.read,
        )
        self._certificates = create_certificates(
            *(options, context.instance, context.node, incarnation),
            has_times=options.order in TIMED,
        )
        host, port = self._address
        self._links = context.open_links(options.listen or f"{host}:{port}", self)

    def start(self) -> None:
        cores = [] if self._certificates is None else [self._certificates]
        self._runner.start(self._group, *cores)
        joining = Deferred.fromCoroutine(self._join_group())
        joining.addErrback(self._failed)

    async def _join_group(self) -> None:
        """Connect to the other sites, after what earlier processes delivered and did not."""
        events = await self._context.read_log_end()
        entries = [decode_order_entry(event.annotation) for event in events]
        self._group.restore([entry for entry in entries if entry is not None])
        if self._certificates is not None:
            self._runner.call(self._certificates.restore, events)
        await self._context.release_earlier()
        if self._links is None:
            return
        early, self._early = self._early or [], None
        for batch in early:
            self._runner.call(self._group.publish, batch)
        for site in self._others:
            self._add_peer(site)

    def _add_peer(self, site: str) -> None:
        if self._links is None:
            return
        try:
            self._peers[site] = self._links.add_peer(self._options.address_of(site))
        except ConfigurationError as error:
            # Its name may resolve later.
            self.log.warn("no link to the site {site}, retrying: {e}", site=site, e=error)
            self._context.clock.callLater(RETRY_SECONDS, self._add_peer, site)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        self._context.fail(error if isinstance(error, Exception) else Closed(str(error)))

    def stop(self) -> Deferred[None]:
        self._runner.stop()
        links, self._links = self._links, None
        if links is not None:
            links.close()
        return succeed(None)

    def announce(self, key: str, interest: CarriedInterest) -> None:
        """Do nothing: all sites get all events (X17)."""

    def withdraw(self, key: str) -> None:
        """Do nothing, as for `announce`."""

    def annotate(self, events: Sequence[CarriedEvent]) -> Sequence[bytes]:
        most = self._context.clearance.rank
        cleared = [event for event in events if event.level <= most]
        entries = iter(self._group.stamp(cleared, self._now()))
        self._state.cover(self._group.core.floor)
        # Events above the level of the group have no place in its order.
        return [next(entries) if event.level <= most else b"" for event in events]

    def revoke(self) -> None:
        self._runner.call(self._group.revoke)

    def publish(self, batch: FlowBatch) -> None:
        if self._early is not None:
            self._early.append(batch)
        else:
            self._runner.call(self._group.publish, batch)

    def recovered(self, batch: FlowBatch) -> None:
        """Do nothing: `order` and `place` get all events."""

    def order(self, batch: FlowBatch, is_recovered: bool) -> None:
        self._runner.call(self._group.order, batch)

    def miss(self, flow: str) -> None:
        self._runner.call(self._group.miss, flow)

    def take_back(self, flow: str, after: Mark) -> None:
        taken = self._group.take_back(flow, after)
        if self._certificates is not None:
            self._runner.call(self._certificates.take_back, taken)

    def place(self, batch: FlowBatch) -> Sequence[bytes]:
        entries = self._group.place(batch)
        if self._certificates is not None:
            placed = map(CarriedEvent.with_annotation, batch.events, entries)
            self._runner.call(self._certificates.deliver, list(placed))
        return entries

    def prove(self, question: Mapping[str, str]) -> object:
        if self._certificates is None:
            raise ConfigurationError(f"stacks.{self._context.instance}: signing_key is not set")
        return answer_question(self._certificates, question, self._now())

    def snapshot(self) -> Mapping[str, object]:
        certificates = self._certificates
        totals = {} if certificates is None else certificates.snapshot()
        return {
            "order": self._options.order,
            "incarnation": self._state.incarnation,
            "lost_sends": self.lost_sends,
            "missing": self.missing,
            "peers": [self._describe_site(site) for site in self._others],
            **self._group.snapshot(),
            **totals,
        }

    def _describe_site(self, site: str) -> dict[str, object]:
        """Return status, its reason, and times in seconds from now on (N13)."""
        found: dict[str, object] = {"site": site, "status": self._statuses[site][0].value}
        if self._certificates is not None:
            found |= self._certificates.describe_site(site, self._now())
        if self._links is None or site not in self._peers:
            return found
        peer, now = self._peers[site], self._now()
        view, clock = self._links.view_of(peer), self._links.clock_of(peer)
        found |= {"reason": view.reason, "for": round(now - view.since, 3)}
        if view.until is not None:
            found["next_change_in"] = round(max(0.0, view.until - now), 3)
        if clock is not None:
            found["clock_offset"], found["clock_uncertainty"] = clock
        return found

    def _bound_of(self, site: str) -> int:
        is_timed = self._options.order in TIMED
        return self._bounds.bound_of(site, self._now()) if is_timed else 0

    def _clock_of(self, site: str) -> ClockOffset | None:
        peer = self._peers.get(site)
        return None if self._links is None or peer is None else self._links.clock_of(peer)

    # ----------------------------------------------------------------- of the links

    def own_link(self, node: str) -> ILinkOwner:
        if node not in self._statuses:
            raise NotAllowed(f"{node} is no site of the group {self._context.instance}")
        if self._early is not None:
            raise Closed("this site is starting")
        return LinkOwner(
            *(self._group, node, self._terms, self._context.origin),
            *(self._clock.read, self._connected),
        )

    def _connected(self, site: str, effects: list[GroupEffect]) -> None:
        status = ReportStatus(site, LinkState.CONNECTED, "")
        self._runner.apply_effects([status, *effects])
        if self._certificates is not None:
            self._runner.call(self._certificates.exchange.connect, site)

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        site = self._site_at(peer)
        # The handshake reports a connection (`own_link`).
        if site is None or self._links is None or state is LinkState.CONNECTED:
            return
        view = self._links.view_of(peer)
        if view.state is LinkState.CONNECTED:
            # A link without `keep` ended behind the handshake, because the other one is new.
            return
        status = ReportStatus(site, state, view.reason)
        effects = self._group.disconnect(site, state, self._now())
        self._runner.apply_effects([status, *effects])
        if self._certificates is not None:
            self._runner.call(self._certificates.exchange.disconnect, site)

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        site = self._site_at(peer)
        if site is None:
            return
        if any(each.startswith(MARK) for each in messages):
            packets = [each for each in messages if each.startswith(MARK)]
            messages = [each for each in messages if not each.startswith(MARK)]
            if self._certificates is not None:
                self._runner.call(self._certificates.exchange.receive, site, packets)
        self._runner.call(self._group.receive, site, messages)

    def _site_at(self, peer: Hashable) -> str | None:
        assert self._links is not None
        site = self._links.node_of(peer)
        return site if site in self._statuses else None

    # ----------------------------------------------------------------- of the group

    def _apply(self, effect: GroupEffect) -> None:
        links = self._links
        assert links is not None
        match effect:
            case SendData(data, sites):
                self._state.cover(self._group.core.floor)
                peers = [self._peers[site] for site in sites if site in self._peers]
                outcomes = links.send(data, peers)
                self.lost_sends += sum(
                    each is Outcome.FULL for one in outcomes for each in one.values()
                )
            case PassOn(batch):
                self._context.receive(batch)
            case DeliverBatch(batch):
                self._context.deliver(batch)
                if self._certificates is not None:
                    self._runner.call(self._certificates.deliver, batch.events)
            case SuspectSite(site, reason):
                self._report_status(site, LinkState.SUSPECTED, reason)
                if site in self._peers:
                    links.suspect(self._peers[site], reason)
            case ReportStatus(site, state, reason):
                self._report_status(site, state, reason)
            case EndLink(site, error):
                self._end_link(site, error)
            case ReportMissing(site, incarnation, first, last):
                self.missing += last - first + 1
                stack = self._context.instance
                missing = MissingMessages(stack, site, incarnation, first, last, "lost")
                self._context.notify(missing)
                if self._certificates is not None:
                    self._runner.call(self._certificates.miss, site, incarnation, last)
            case SendCertificates(site, data):
                if site in self._peers:
                    links.send([data], [self._peers[site]])

    def _report_status(self, site: str, state: LinkState, reason: str) -> None:
        if self._statuses.get(site) == (state, reason):
            # Each failed attempt to connect repeats it.
            return
        self._statuses[site] = state, reason
        assert self._links is not None
        now, wall = self._now(), self._context.wall_clock()
        until = None
        if state is LinkState.SUSPECTED and site in self._peers:
            until = self._links.view_of(self._peers[site]).until
        next_change = None if until is None else wall + round(max(0.0, until - now) * 1000)
        self._context.notify(
            SiteStatus(self._context.instance, site, state.value, reason, wall, next_change)
        )

    def _end_link(self, site: str, error: BrokerError) -> None:
        """End the link to a site, and begin a new one."""
        assert self._links is not None
        peer = self._peers.pop(site, None)
        if peer is None:
            # Both the order and the certificates have ended it.
            return
        self.log.warn(
            "the link to {site} for the stack {stack} is ended: {error}",
            site=site,
            stack=self._context.instance,
            error=error,
        )
        self._links.remove_peer(peer)
        # No change of the link follows.
        state = LinkState.DISCONNECTED
        effects = self._group.disconnect(site, state, self._now())
        self._runner.apply_effects([ReportStatus(site, state, f"ended: {error.code}"), *effects])
        if self._certificates is not None:
            self._runner.call(self._certificates.exchange.disconnect, site)
        self._context.clock.callLater(RETRY_SECONDS, self._add_peer, site)

    def _now(self) -> float:
        return float(self._context.clock.seconds())


@implementer(IPlugin, ITransportPlugin)
@attrs.frozen
class RcmPlugin:
    """Intermittent global order of all events of a group of sites (RCM R16)."""

    name: ClassVar[str] = "rcm"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "one order of events at all sites, through outages and partitions"
    options: ClassVar[type] = RcmOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.ONE_ORDER})
    links: ClassVar[str] = "rcm"

    def create(self, context: ITransportContext) -> IOrderingTransport:
        return RcmTransport(context)


rcm_transport = RcmPlugin()
