"""A site of a group without a node: its clients send and get messages in one order, no events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from broker.cluster.address import NETWORK, Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.config import Settings
from broker.config.stacks import Plugins, StackInstance
from broker.event.envelope import SecurityLevel
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.streams.connection_port import NodeIdentity
from broker.streams.contract import CarriedEvent, ILinkReceiver, ILinks, ITransportContext
from broker.streams.link_sockets import LinkSockets, open_on_reactor
from broker.streams.links import LinkOpener
from broker.streams.messaging import IGroupClient, Receive
from plugins.rcm.options import RcmOptions
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from plugins.rcm.transport import RcmPlugin, RcmTransport

#: A site without a log.
_NO_LOG: Final = "0" * 16


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class GroupSite:
    """One process of a site. Only one at a time uses its folder."""

    def __init__(
        self,
        name: str,
        options: RcmOptions,
        folder: Path,
        reactor: Any,
        *,
        group: str = "group",
        link_options: RcmLinkSettings | None = None,
        settings: Settings | None = None,
        sockets: LinkSockets | None = None,
        wall_clock: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        """`options.sites` has the name. The folder is for the state of the site.

        `settings` have the key or certificate of the site: without them all addresses must be those
        of the loopback interface. Simulations pass a `Clock` as reactor, and their sockets.
        """
        settings = settings or Settings()
        node = NodeDescriptor(Address(NETWORK, name), _NO_LOG, wall_clock(), PROTOCOL_VERSIONS)
        identity = NodeIdentity.from_settings(settings.network, lambda: node, lambda: None)
        random = Random()
        stack = StackInstance(group, "rcm", options=options, link_options=link_options)
        opener = LinkOpener(
            *(settings, identity, reactor, wall_clock, random),
            *(sockets or open_on_reactor(reactor, settings), _find_plugins),
        )
        services = _Services(
            *(group, name, options, reactor, random, wall_clock, folder),
            lambda listen, receiver: opener.open(stack, listen, receiver),
        )
        self.transport = RcmTransport(cast(ITransportContext, services))

    def start(self) -> None:
        """Raises `ConfigurationError` if it can not listen, or its state is damaged."""
        self.transport.listen()
        self.transport.start()

    def stop(self) -> Deferred[None]:
        return self.transport.stop()

    def open_client(self, name: str, receive: Receive | None = None) -> IGroupClient:
        """See `broker.streams.messaging.IMessagingTransport.open_client`."""
        return self.transport.open_client(name, receive)


@attrs.frozen
class _Services:
    """The part of `ITransportContext` that the transport uses without events."""

    log = Logger()

    instance: str
    node: str
    options: RcmOptions
    clock: Any
    random: Random
    wall_clock: Callable[[], int]
    folder: Path
    open_links: Callable[[str, ILinkReceiver], ILinks]
    origin: str = _NO_LOG
    patterns: Sequence[StreamPattern] = ()
    clearance: SecurityLevel = SecurityLevel.MED

    def read_log_end(self) -> Deferred[Sequence[CarriedEvent]]:
        return succeed(())

    def release_earlier(self) -> Deferred[None]:
        return succeed(None)

    def notify(self, notice: SiteNotice) -> None:
        """Do nothing: there are no subscriptions."""

    def fail(self, error: Exception) -> None:
        self.log.error("the site {site} can not start: {error}", site=self.node, error=error)


def _find_plugins(instance: StackInstance) -> Plugins:
    return RcmPlugin(), rcm_links
