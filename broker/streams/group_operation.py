"""Interfaces of transports whose groups are operated from a shell (`xmlbroker order`)."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from broker.streams.contract import IStreamTransport


class IProvingTransport(IStreamTransport):
    """A transport that proves the order of its events to clients (`xmlbroker order verify`)."""

    def prove(question: Mapping[str, str]) -> object:
        """Return a proof as plain values; None if there is none. Raises `BrokerError`.

        The client may read all streams of the instance.
        """


class ISitesTransport(IStreamTransport):
    """A transport whose sites an operator changes while they run (`xmlbroker order admit`)."""

    def change_sites(action: str, site: str, address: str) -> Deferred[object]:
        """Admit a site at an address (`admit`), or remove it (`remove`).

        Fires when the change counts here, with its description as plain values. Raises
        `BrokerError`, or fires with one.
        """
