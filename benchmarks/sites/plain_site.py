"""A site whose clients get messages as they come: links and multiplexer, without the order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from broker.streams.contract import ILinkReceiver, ITransportContext
from broker.transport.message import Message
from broker.transport.order import MessageId, Stamp
from broker.transport.view import LinkState
from plugins.rcm.clients.multiplexer import Multiplexer
from plugins.rcm.effects import DeliverMessage
from plugins.rcm.options import RcmOptions
from plugins.rcm.payload import Channel
from plugins.rcm.site_links import SiteLinks


@implementer(ILinkReceiver)
class PlainSite:
    def __init__(self, context: ITransportContext) -> None:
        options = context.options
        assert isinstance(options, RcmOptions)
        sites = tuple(sorted(options.sites))
        self._context = context
        self._address = options.listening_address(context.node)
        others = {site: options.sites[site] for site in sites if site != context.node}
        self._links = SiteLinks(context, others, lambda status: None)
        self._clients = Multiplexer(context.node, sites, self._send_copies, context.clock)
        self.open_client = self._clients.open_client
        self._sent = 0
        self._received = dict.fromkeys(others, 0)

    def listen(self) -> None:
        self._links.open(self._context.open_links(self._address, self))

    def start(self) -> None:
        self._clients.start()
        for site in self._links.sites:
            self._links.connect(site)

    def stop(self) -> Deferred[None]:
        self._links.close()
        self._clients.close()
        return succeed(None)

    def snapshot(self) -> dict[str, object]:
        now = self._context.clock.seconds()
        peers = [self._links.describe(site, now) for site in self._links.sites]
        return {"peers": peers, "lost_sends": self._links.lost_sends, **self._clients.snapshot()}

    def _send_copies(self, data: bytes, copies: Sequence[Message]) -> None:
        self._sent += 1
        for copy in copies:
            sites = [str(site) for site in copy.destinations]
            copy.outcomes.update(self._links.send([copy.payload], sites))
            self._clients.sent(copy)
        self._deliver(self._context.node, self._sent, data)

    def _deliver(self, site: str, number: int, data: bytes) -> None:
        id, stamp = MessageId(site, 1, number), Stamp(number, site)
        self._clients.deliver(DeliverMessage(Channel.CLIENTS, id, stamp, None, data, False))

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        site = self._links.site_at(peer)
        for message in () if site is None else messages:
            assert site is not None
            self._received[site] += 1
            self._deliver(site, self._received[site], message)

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        site = self._links.site_at(peer)
        if site is not None:
            self._links.report(site, state, "")
