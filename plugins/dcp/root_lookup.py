"""Roots of a mesh by a DNS name that has an address record for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address

from twisted.internet.defer import Deferred
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.seed_poller import SeedPoller
from broker.cluster.discovery.seed_source import ISeedSource
from broker.config.value_kind import split_host_port
from broker.streams.contract import ITransportContext
from broker.transport.socket.udp import format_address
from plugins.dcp.options import DcpOptions


@implementer(ISeedSource)
class RootLookup:
    """Looks the addresses of `root_name` up again and again.

    The last answer with an address counts while DNS does not answer, or names none.
    """

    def __init__(
        self,
        context: ITransportContext,
        options: DcpOptions,
        on_changed: Callable[[Sequence[str]], object],
    ) -> None:
        """`on_changed` gets the addresses of the family of `udp`, when they differ."""
        host, port = split_host_port(options.udp)
        self._version = ip_address(host).version
        self._name, self._port = options.root_name, options.root_port or port
        self._context = context
        self._on_changed = on_changed
        self._found: tuple[str, ...] = ()
        failure = f"{context.instance}: the roots of {self._name} are not found"
        poller = SeedPoller(self, context.clock, self._set_found, failure)
        self.start, self.stop, self.hasten = poller.start, poller.stop, poller.hasten

    @property
    def has_answer(self) -> bool:
        return bool(self._found)

    def find_seeds(self) -> Deferred[Sequence[Endpoint]]:
        found = self._context.find_addresses(self._name, self._port)
        return found.addCallback(self._select_family)

    def _select_family(self, found: Sequence[tuple[str, int]]) -> Sequence[Endpoint]:
        return [Endpoint(*each) for each in found if ip_address(each[0]).version == self._version]

    def _set_found(self, endpoints: Sequence[Endpoint]) -> None:
        addresses = tuple(sorted(map(format_address, endpoints)))
        if addresses and addresses != self._found:
            self._found = addresses
            self._on_changed(addresses)
