"""The keeper's side: copies of neighbours' events, and what is done with them when one is gone."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.cluster.address import Address
from broker.cluster.replicas.messages import AskKeeper, KeeperHas, decode_keep
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import Kept
from broker.errors import BrokerError, LogUnavailable, ProtocolError
from broker.event.place import Mark
from broker.log.event_log import EventLog

#: Origins that are kept for neighbours at once; more are not taken.
MOST_OWNERS = 64


class Keeper:
    """Keeps what neighbours send it."""

    def __init__(
        self,
        event_log: EventLog,
        tell: Callable[[str, KeeperHas], object],
        kept: Callable[[Kept], object],
        own: Callable[[], Address | None],
    ) -> None:
        """`tell` answers a neighbour, `kept` tells one what has become durable."""
        self._log = event_log
        self._tell = tell
        self._kept = kept
        self._own = own
        self._owners: dict[str, str] = {}
        """By neighbour: whose events it sends."""
        self._addresses = {
            origin: Address.parse(span.owner)
            for origin, span in event_log.kept.items()
            if span.owner
        }
        self.replaced: set[str] = set()
        """Origins of which there are copies here, whose nodes have come with another log since."""
        self._taken: dict[str, Mark | None] = {}
        """By origin: up to where events are on their way to the disk; None: they begin anywhere.
        Of others nothing is taken until their owner asks what is here."""

    @property
    def owners(self) -> dict[str, Address]:
        """By origin: whose events are kept, as far as they are not `replaced`."""
        return dict(self._addresses)

    def asked(self, neighbour: Address, ask: AskKeeper) -> None:
        """A neighbour wants its events to be kept."""
        if neighbour.node not in self._owners and len(self._owners) >= MOST_OWNERS:
            return
        if any(
            name != neighbour.node and origin == ask.origin for name, origin in self._owners.items()
        ):
            raise ProtocolError("AskKeeper for the events of another node")
        self._owners[neighbour.node] = ask.origin
        self.linked(neighbour.node, ask.origin)
        self._addresses[ask.origin] = neighbour
        span = self._log.kept.get(ask.origin)
        after, upto = ((0, 0), (0, 0)) if span is None else (span.after, span.upto)
        self._taken[ask.origin] = None
        self._tell(neighbour.node, KeeperHas(ask.origin, after, upto))

    def linked(self, neighbour: str, log: str) -> None:
        """A neighbour has a log with this origin now: that of another may have been its own."""
        for origin, address in list(self._addresses.items()):
            if address.node == neighbour and origin != log:
                del self._addresses[origin]
                self.replaced.add(origin)
        self.replaced &= self._log.kept.keys()

    def keep(self, neighbour: Address, data: bytes) -> None:
        """Events of a neighbour. Raises `ProtocolError` if it has not asked, or they are none."""
        origin = self._owners.get(neighbour.node)
        if origin is None:
            raise ProtocolError("KEEP of a node that has not asked for a keeper")
        keeping = attrs.evolve(decode_keep(data, origin), owner=str(neighbour))
        if origin not in self._taken or self._taken[origin] not in (None, keeping.after):
            # Something before it could not be written: its owner will ask what is here.
            return
        self._taken[origin] = keeping.upto

        def done(error: BrokerError | None) -> None:
            own = self._own()
            if error is not None or own is None:
                self._taken.pop(origin, None)
                return
            self._kept(Kept(neighbour, own, MAX_HOPS, origin, keeping.upto))

        try:
            self._log.keep(keeping, done)
        except LogUnavailable:
            self._taken.pop(origin, None)

    def neighbour_gone(self, neighbour: str) -> None:
        """The link is down: it has to ask anew."""
        self._owners.pop(neighbour, None)
