"""Sites of a group without a node: their clients send and get messages in one order, no events."""

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
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.order_certificates.signing_key import PinnedKeys, SigningKey
from broker.queue_memory import QueueMemory
from broker.signatures.node_key import load_node_key, read_public_keys
from broker.streams.connection_port import NodeIdentity
from broker.streams.contract import CarriedEvent, ILinkReceiver, ILinks, ITransportContext
from broker.streams.link_sockets import LinkSockets, open_on_reactor
from broker.streams.links import LinkOpener
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from plugins.rcm.transport import RcmTransport

#: The log of a site that has none.
_NO_LOG: Final = "0" * 16


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def create_site(
    name: str, options: RcmOptions, folder: Path, reactor: Any, **further: Any
) -> RcmTransport:
    """Return one process of a site, with `create_context`: call `listen`, `start` and `stop`.

    `open_client` returns its clients (`broker.streams.messaging`).
    """
    return RcmTransport(create_context(name, options, folder, reactor, **further))


def create_context(
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
) -> ITransportContext:
    """Return what a node gives to its transports, as far as `rcm` uses it without events.

    `options.sites` has the name. The folder is for the state of the site; one process at a time
    uses it. `settings` have the key or certificate of the site: without them all addresses must be
    those of the loopback interface. Simulations pass a `Clock` as reactor, and their sockets.
    """
    settings = settings or Settings()
    node = NodeDescriptor(Address(NETWORK, name), _NO_LOG, wall_clock(), PROTOCOL_VERSIONS)
    identity = NodeIdentity.from_settings(settings.network, lambda: node, lambda: None)
    random = Random()
    stack = StackInstance(group, "rcm", options=options, link_options=link_options)
    opener = LinkOpener(
        *(settings, identity, reactor, wall_clock, random),
        *(sockets or open_on_reactor(reactor, settings), _find_plugins),
        QueueMemory(settings.queue.total_bytes),
    )
    context = _Context(
        *(group, name, options, reactor, random, wall_clock, folder),
        lambda listen, receiver: opener.open(stack, listen, receiver),
        read_public_keys(settings.network.public_keys, name, load_node_key(folder)),
    )
    return cast(ITransportContext, context)


@attrs.frozen
class _Context:
    log = Logger()

    instance: str
    node: str
    options: RcmOptions
    clock: Any
    random: Random
    wall_clock: Callable[[], int]
    folder: Path
    open_links: Callable[[str, ILinkReceiver], ILinks]
    public_keys: PinnedKeys
    origin: str = _NO_LOG
    patterns: Sequence[StreamPattern] = ()
    clearance: SecurityLevel = SecurityLevel.MED

    @property
    def signing_key(self) -> SigningKey:
        return load_node_key(self.folder)

    def read_log_end(self) -> Deferred[Sequence[CarriedEvent]]:
        return succeed(())

    def coverage_of(self, flow: str) -> Mark:
        return 0, 0

    def may_have_log(self, node: str, origin: str) -> bool:
        return True

    def must_prove_log(self, node: str, origin: str) -> bool:
        return False

    def release_earlier(self) -> Deferred[None]:
        return succeed(None)

    def refuse(self, reason: str) -> None:
        """Do nothing: clients are refused by the transport."""

    def notify(self, notice: SiteNotice) -> None:
        """Do nothing: there are no subscriptions."""

    def fail(self, error: Exception) -> None:
        self.log.error("the site {site} can not start: {error}", site=self.node, error=error)


def _find_plugins(instance: StackInstance) -> Plugins:
    return rcm_transport, rcm_links
