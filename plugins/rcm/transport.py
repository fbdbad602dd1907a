"""The `rcm` transport: events of a group of sites, which see one order (RCM R33-R36)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError, Closed, ConfigurationError, ProtocolError
from broker.event.place import Mark
from broker.event.site_notice import MissingMessages, SiteNotice
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    ILinkReceiver,
    IOrderingTransport,
    ITransportContext,
)
from broker.streams.group_operation import IProvingTransport, ISitesTransport
from broker.streams.messaging import IGroupClient, IMessagingTransport, Receive
from broker.transport.core_runner import CoreRunner
from broker.transport.message import Message, Outcome, Peer
from broker.transport.monitor import ILinkOwner, ILinkOwners
from broker.transport.order import VARIANTS, Instant, OrderSettings, Stamp
from broker.transport.site_clock import SiteClock
from broker.transport.view import LinkState
from plugins.rcm.certificates.configuration import create_certificates
from plugins.rcm.certificates.question import answer_question
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.clients.multiplexer import Multiplexer
from plugins.rcm.clock_bounds import ClockBounds
from plugins.rcm.comparison.configuration import create_comparison
from plugins.rcm.coverage.configuration import create_coverage
from plugins.rcm.effects import (
    DeliverBatch,
    DeliverMessage,
    EndLink,
    GroupEffect,
    IChannelReceiver,
    MoveMessage,
    PassNotice,
    PassOn,
    ReportMissing,
    ReportStatus,
    SendData,
    SendMessages,
    SendPacket,
    SuspectSite,
)
from plugins.rcm.entries import Entries, GroupName
from plugins.rcm.group import Group
from plugins.rcm.handshake import VERSION, Terms
from plugins.rcm.link_owner import LinkOwner
from plugins.rcm.membership import Membership
from plugins.rcm.move_notices import MoveNotices
from plugins.rcm.observer import Observers, is_marked
from plugins.rcm.options import TIMED, RcmOptions
from plugins.rcm.payload import Channel
from plugins.rcm.site_exchange import SiteExchange
from plugins.rcm.site_logs import SiteLogs
from plugins.rcm.site_state import LEADS, SiteState


@implementer(ILinkReceiver, ILinkOwners, IOrderingTransport)
@implementer(IProvingTransport, IMessagingTransport, ISitesTransport)
class RcmTransport:
    log = Logger()

    def __init__(self, context: ITransportContext) -> None:
        options = context.options
        assert isinstance(options, RcmOptions)
        self._context = context
        self._options = options
        self._listening_address = options.listening_address(context.node)
        self._clock = SiteClock(context.wall_clock)
        self._terms = Terms(VERSION, options.order, options.delta)
        self._clients = Multiplexer(
            context.node, tuple(sorted(options.sites)), self._send_copies, context.clock
        )
        self._receivers: dict[Channel, IChannelReceiver] = {Channel.CLIENTS: self._clients}
        self._closers: list[Callable[[], object]] = [self._clients.close]
        self._early: list[FlowBatch] | None = []
        """Own events that came before the end of the log was read."""
        self.missing = 0
        """Messages of other sites that will not come."""
        self._moves = MoveNotices(context.instance, context.clock, self._notify)
        bounds = ClockBounds(lambda site: self._sites.clock_of(site), context.clock)
        self._bound_of = bounds.bound_of if options.order in TIMED else lambda _: 0
        self._certificates: SiteCertificates | None = None
        self._runner: CoreRunner[GroupEffect] = CoreRunner(context.clock, self._apply)
        self._observers = Observers(self._runner)

    @property
    def incarnation(self) -> int:
        """Incarnation of this process, for the links."""
        return self._state.incarnation

    # ----------------------------------------------------------------- of the node

    def listen(self) -> None:
        context, options = self._context, self._options
        variant = VARIANTS[options.order]
        self._state = SiteState(context.folder, lead=LEADS.get(options.order))
        incarnation = self._state.incarnation
        self._membership = Membership(context, incarnation, options.sites, self, self._notify)
        self._closers.append(self._membership.close)
        self._receivers[Channel.SITES] = self._membership
        self._sites = self._membership.links
        self._exchange = SiteExchange(self._membership)
        settings = OrderSettings(clock_delay=options.clock_delay, delta=options.delta)
        sites = tuple(self._membership.sites.members)
        core = variant.create_core(context.node, incarnation, settings, self._state.floor)
        self._group = Group(
            *(context.node, incarnation, sites),
            [pattern.text for pattern in context.patterns],
            *(core, variant.create_codec(sites)),
            Entries(GroupName(context.instance, options.order), core, self._bound_of),
            *(self._clock.read, context.coverage_of),
        )
        self._set_sites()
        self._certificates = create_certificates(
            options, context, incarnation, has_times=options.order in TIMED
        )
        comparison = create_comparison(
            *(options, context.instance, context.node, sites, incarnation, core),
            *(self._clock.read, self._sites.clock_of, self._now()),
        )
        coverage = create_coverage(context, incarnation, self._group.losses)
        self._logs = SiteLogs(context, self._group.origins)
        self._observers.add(self._logs, self._exchange, self._certificates, comparison, coverage)
        self._sites.open(context.open_links(self._listening_address, self))

    def start(self) -> None:
        self._runner.start(self._group, *self._observers)
        joining = Deferred.fromCoroutine(self._join_group())
        joining.addErrback(self._failed)

    async def _join_group(self) -> None:
        """Connect to the other sites, after what earlier processes delivered and did not."""
        events = await self._context.read_log_end()
        self._group.restore(events)
        runs = self._group.read_runs(events)
        self._observers.call(lambda each, now: each.restore(runs, now))
        await self._context.release_earlier()
        if self._sites.is_closed:
            return
        early, self._early = self._early or [], None
        for batch in early:
            self._runner.call(self._group.publish, batch)
        self._clients.start()
        for site in self._sites.sites:
            self._sites.connect(site)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        self._context.fail(error if isinstance(error, Exception) else Closed(str(error)))

    def stop(self) -> Deferred[None]:
        self._runner.stop()
        for close in self._closers:
            close()
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

    def take_back(self, flow: str, after: Mark, upto: Mark | None = None) -> None:
        taken = self._group.take_back(flow, after, upto)
        # With `upto` they were delivered: none is queued.
        self._observers.take_back(taken, None if upto else (flow, after))

    def place(self, batch: FlowBatch, is_recovered: bool) -> Sequence[bytes]:
        placed = self._group.place(batch, self._now(), is_recovered=is_recovered)
        self._state.cover(self._group.core.floor)
        self._observers.deliver(batch.flow, self._group.read_runs(placed))
        return [event.annotation for event in placed]

    def prove(self, question: Mapping[str, str]) -> object:
        if self._certificates is None:
            raise ConfigurationError(f"stacks.{self._context.instance}: certificates is off")
        return answer_question(self._certificates, question, self._now())

    def snapshot(self) -> Mapping[str, object]:
        return {
            "order": self._options.order,
            "incarnation": self._state.incarnation,
            "lost_sends": self._sites.lost_sends,
            "missing": self.missing,
            "peers": [self._describe_site(site) for site in self._sites.sites],
            **self._clients.snapshot(),
            **self._group.snapshot(),
            **self._observers.snapshot(),
        }

    def _describe_site(self, site: str) -> dict[str, object]:
        now = self._now()
        return {**self._sites.describe(site, now), **self._observers.describe_site(site, now)}

    # ----------------------------------------------------------------- of applications

    def open_client(self, name: str, receive: Receive | None = None) -> IGroupClient:
        return self._clients.open_client(name, receive)

    def _send_copies(self, data: bytes, copies: Sequence[Message]) -> None:
        self._runner.call(self._group.send_copies, Channel.CLIENTS, data, copies)

    def _notify(self, notice: SiteNotice) -> None:
        """Tell subscriptions and clients."""
        self._context.notify(notice)
        self._clients.notify(notice)

    # ----------------------------------------------------------------- of the links

    def own_link(self, node: str) -> ILinkOwner:
        if self._early is not None:
            raise Closed("this site is starting")
        if self._membership.accepts(node):
            self._sites.check_address(node)
        return LinkOwner(
            *(self._group, node, self._terms, self._membership, self._context.origin),
            *(self._clock.read, self._connected),
        )

    def _connected(self, site: str, effects: list[GroupEffect]) -> None:
        self._runner.apply_effects(effects)
        self._observers.call(lambda each, now: each.connect(site, now))

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        site, reason = self._sites.site_at(peer), self._sites.reason_of(peer, state)
        if site is None:
            self._sites.forget_soon(peer)
        elif reason is not None:
            self._disconnected(site, state, reason)

    def _disconnected(self, site: str, state: LinkState, reason: str) -> None:
        effects = self._group.disconnect(site, state, self._now())
        self._runner.apply_effects([ReportStatus(site, state, reason), *effects])
        self._observers.disconnect(site)

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        site = self._sites.site_at(peer)
        if site is None:
            return
        try:
            self._membership.check_log(site, self._group.origins.get(site, ""))
        except BrokerError as error:
            # Since the handshake this node has got to know whose log it is.
            self._end_link(site, error)
            return
        if any(map(is_marked, messages)):
            self._observers.receive(site, messages)
            messages = [one for one in messages if not is_marked(one)]
        self._runner.call(self._group.receive, site, messages)

    # ----------------------------------------------------------------- of the group

    def _apply(self, effect: GroupEffect) -> None:
        match effect:
            case DeliverMessage() as message:
                try:
                    if message.data:
                        self._receivers[message.channel].deliver(message)
                except ProtocolError as error:
                    self._group.count_rejected()
                    self._end_link(message.id.site, error)
                self._observers.call(lambda each, now: each.deliver_message(message, now))
            case SendData(data, sites):
                self._send_ordered(data, sites)
            case SendMessages(part, sites, copies):
                self._send_copied(part, sites, copies)
            case PassOn(batch) if self._logs.may_state(batch.sender):
                self._context.receive(batch)
            case DeliverBatch(batch):
                if not effect.is_taken_back:
                    # Before the delivery, which may be taken back at once.
                    self._observers.deliver(batch.flow, effect.runs)
                self._context.deliver(batch)
            case MoveMessage(id, before, stamp, late):
                self._moves.add_move(id, stamp, late)
                self._observers.call(lambda each, now: each.move(id, before, stamp, now))
            case SuspectSite(site, reason):
                self._sites.report(site, LinkState.SUSPECTED, reason)
                self._sites.suspect(site, reason)
            case ReportStatus(site, state, reason):
                self._sites.report(site, state, reason)
            case EndLink(site, error):
                self._end_link(site, error)
            case ReportMissing(site, incarnation, first, last):
                self.missing += last - first + 1
                numbers = site, incarnation, first, last
                self._notify(MissingMessages(self._context.instance, *numbers, "lost"))
                self._observers.call(lambda each, now: each.miss(*numbers, now))
            case PassNotice(notice):
                self._context.notify(notice)
            case SendPacket(data, sites):
                self._send([data], sites)

    def _send_ordered(self, data: Sequence[bytes], sites: Sequence[str]) -> Mapping[Peer, Outcome]:
        """Send packets of the order, whose clock is stored before."""
        self._state.cover(self._group.core.floor)
        outcomes = self._send(data, sites)
        self._observers.call(lambda each, now: each.send(data, sites, now))
        return outcomes

    def _send_copied(self, part: bytes, sites: Sequence[str], copies: Sequence[Message]) -> None:
        if any(map(self._clients.has_copy, copies)):
            # They are in no log.
            self._sites.drops_unsent = False
        outcomes = self._send_ordered([part], sites)
        for copy in copies:
            copy.outcomes.update(outcomes)
            self._clients.sent(copy)

    def _send(self, data: Sequence[bytes], sites: Sequence[str]) -> Mapping[Peer, Outcome]:
        outcomes = self._sites.send(data, sites)
        for site in sites:
            if outcomes[site] is not Outcome.SENT:
                keeps_earlier = not self._sites.drops_unsent
                self._group.losses.record_loss(site, keeps_earlier=keeps_earlier)
        return outcomes

    # ----------------------------------------------------------------- of the sites

    def change_sites(self, action: str, site: str, address: str) -> Deferred[object]:
        if self._early is not None:
            raise Closed("this site is starting")
        return self._membership.change(action, site, address)

    def send_change(self, data: bytes) -> None:
        self._runner.call(self._group.send, Channel.SITES, data)

    def sites_changed(self, gone: Collection[str]) -> None:
        self._set_sites()
        for site in gone:
            self._runner.call(self._group.disconnect, site, LinkState.DISCONNECTED)
            self._observers.disconnect(site)
        self._exchange.plan(self._now())
        # The runner arms its timer.
        self._runner.apply_effects()

    def check_stamp(self, site: str, stamp: Stamp) -> None:
        now = self._now()
        self._group.core.check_stamp(site, stamp, Instant(now, self._clock.read(now)))

    def _set_sites(self) -> None:
        sites, refusal = self._membership.sites, self._membership.refusal
        self._group.set_sites(sites.members, sites.changes)
        self._clients.set_sites(sites.members, refusal)
        self._context.refuse(refusal)

    # ----------------------------------------------------------------- links that are ended

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
