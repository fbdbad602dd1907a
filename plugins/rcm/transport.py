"""The `rcm` transport: events of a group of sites, which see one order (RCM R33-R36)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
from broker.event.site_notice import MissingMessages
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    Guarantee,
    ILinkReceiver,
    IOrderingTransport,
    IProvingTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.transport.core_runner import CoreRunner
from broker.transport.monitor import ILinkOwner, ILinkOwners
from broker.transport.order import VARIANTS, OrderSettings
from broker.transport.site_clock import SiteClock
from broker.transport.view import LinkState
from plugins.rcm.certificates.configuration import create_certificates
from plugins.rcm.certificates.question import answer_question
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.clock_bounds import ClockBounds
from plugins.rcm.effects import (
    DeliverBatch,
    EndLink,
    GroupEffect,
    MoveMessage,
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
from plugins.rcm.move_notices import MoveNotices
from plugins.rcm.observer import IGroupObserver, is_marked
from plugins.rcm.options import RcmOptions
from plugins.rcm.site_links import SiteLinks
from plugins.rcm.site_state import LEADS, SiteState

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
        others = [site for site in self._terms.sites if site != context.node]
        self._sites = SiteLinks(context, others, options.address_of)
        self._early: list[FlowBatch] | None = []
        """Own events that came before the end of the log was read."""
        self.missing = 0
        """Messages of other sites that will not come."""
        self._moves = MoveNotices(context.instance, context.clock, context.notify)
        self._bounds = ClockBounds(self._sites.clock_of)
        self._certificates: SiteCertificates | None = None
        self._observers: list[IGroupObserver] = []
        self._runner: CoreRunner[GroupEffect] = CoreRunner(context.clock, self._apply)

    @property
    def incarnation(self) -> int:
        """Incarnation of this process, for the links."""
        return self._state.incarnation

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
        if self._certificates is not None:
            self._observers.append(self._certificates)
        host, port = self._address
        self._sites.open(context.open_links(options.listen or f"{host}:{port}", self))

    def start(self) -> None:
        self._runner.start(self._group, *self._observers)
        joining = Deferred.fromCoroutine(self._join_group())
        joining.addErrback(self._failed)

    async def _join_group(self) -> None:
        """Connect to the other sites, after what earlier processes delivered and did not."""
        events = await self._context.read_log_end()
        entries = [decode_order_entry(event.annotation) for event in events]
        self._group.restore([entry for entry in entries if entry is not None])
        self._observe(lambda each: each.restore(events, self._now()))
        await self._context.release_earlier()
        if self._sites.is_closed:
            return
        early, self._early = self._early or [], None
        for batch in early:
            self._runner.call(self._group.publish, batch)
        for site in self._sites.sites:
            self._sites.connect(site)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        self._context.fail(error if isinstance(error, Exception) else Closed(str(error)))

    def stop(self) -> Deferred[None]:
        self._runner.stop()
        self._sites.close()
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
        self._observe(lambda each: each.take_back(taken, self._now()))

    def place(self, batch: FlowBatch) -> Sequence[bytes]:
        entries = self._group.place(batch, self._now())
        self._state.cover(self._group.core.floor)
        if self._observers:
            placed = list(map(CarriedEvent.with_annotation, batch.events, entries))
            self._observe(lambda each: each.deliver(placed, self._now()))
        return entries

    def prove(self, question: Mapping[str, str]) -> object:
        if self._certificates is None:
            raise ConfigurationError(f"stacks.{self._context.instance}: signing_key is not set")
        return answer_question(self._certificates, question, self._now())

    def snapshot(self) -> Mapping[str, object]:
        observers = [each.snapshot() for each in self._observers]
        return {
            "order": self._options.order,
            "incarnation": self._state.incarnation,
            "lost_sends": self._sites.lost_sends,
            "missing": self.missing,
            "peers": [self._describe_site(site) for site in self._sites.sites],
            **self._group.snapshot(),
            **{name: value for one in observers for name, value in one.items()},
        }

    def _describe_site(self, site: str) -> dict[str, object]:
        now = self._now()
        found = self._sites.describe(site, now)
        for each in self._observers:
            found |= each.describe_site(site, now)
        return found

    def _bound_of(self, site: str) -> int:
        is_timed = self._options.order in TIMED
        return self._bounds.bound_of(site, self._now()) if is_timed else 0

    # ----------------------------------------------------------------- of the links

    def own_link(self, node: str) -> ILinkOwner:
        if node not in self._sites:
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
        self._observe(lambda each: each.connect(site, self._now()))

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        site, reason = self._sites.site_at(peer), self._sites.reason_of(peer, state)
        if site is not None and reason is not None:
            self._disconnected(site, state, reason)

    def _disconnected(self, site: str, state: LinkState, reason: str) -> None:
        effects = self._group.disconnect(site, state, self._now())
        self._runner.apply_effects([ReportStatus(site, state, reason), *effects])
        self._observe(lambda each: each.disconnect(site, self._now()))

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        site = self._sites.site_at(peer)
        if site is None:
            return
        if any(map(is_marked, messages)):
            # Packets for parts that this site does not run are dropped.
            for each in self._observers:
                packets = [one for one in messages if one.startswith(each.mark)]
                self._runner.call(each.receive, site, packets)
            messages = [one for one in messages if not is_marked(one)]
        self._runner.call(self._group.receive, site, messages)

    def _observe(self, call: Callable[[IGroupObserver], Iterable[GroupEffect]]) -> None:
        """Call a method of each observer, and apply its effects."""
        for each in self._observers:
            self._runner.apply_effects(call(each))

    # ----------------------------------------------------------------- of the group

    def _apply(self, effect: GroupEffect) -> None:
        match effect:
            case SendData(data, sites):
                self._state.cover(self._group.core.floor)
                self._sites.send(data, sites)
            case PassOn(batch):
                self._context.receive(batch)
            case DeliverBatch(batch):
                self._context.deliver(batch)
                self._observe(lambda each: each.deliver(batch.events, self._now()))
            case MoveMessage(id, before, stamp):
                self._moves.add_move(id, stamp)
                self._observe(lambda each: each.move(id, before, stamp, self._now()))
            case SuspectSite(site, reason):
                self._sites.report(site, LinkState.SUSPECTED, reason)
                self._sites.suspect(site, reason)
            case ReportStatus(site, state, reason):
                self._sites.report(site, state, reason)
            case EndLink(site, error):
                self._end_link(site, error)
            case ReportMissing(site, incarnation, first, last):
                self.missing += last - first + 1
                stack = self._context.instance
                missing = MissingMessages(stack, site, incarnation, first, last, "lost")
                self._context.notify(missing)
                now = self._now()
                self._observe(lambda each: each.miss(site, incarnation, last, now))
            case SendCertificates(site, data):
                self._sites.send([data], [site])

    def _end_link(self, site: str, error: BrokerError) -> None:
        """End the link to a site, and begin a new one."""
        if not self._sites.remove(site):
            # Both the order and the certificates have ended it.
            return
        self.log.warn(
            "the link to {site} for the stack {stack} is ended: {error}",
            site=site,
            stack=self._context.instance,
            error=error,
        )
        self._disconnected(site, LinkState.DISCONNECTED, f"ended: {error.code}")
        self._sites.connect_later(site)

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
