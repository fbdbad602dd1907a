"""A router of a mesh with its clock and timer, in virtual time or on a socket."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random

from benchmarks.meshes.documents import FLOW, PATTERN
from benchmarks.meshes.matching import FakeMatching, ILinkMatching
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.streams.contract import CarriedInterest, FlowBatch
from broker.streams.ticket import ClientTicket
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from plugins.dcp.mesh.leaf_gate import TicketRules
from plugins.dcp.router import Router
from plugins.dcp.settings import DcpSettings


class LinkLoss:
    """Independent loss of the datagrams that one node receives from another one."""

    def __init__(self, share: float, seed: str) -> None:
        self._share = share
        self._random = Random(seed)

    def is_lost(self) -> bool:
        return self._random.random() < self._share


class MeshNode:
    """A router with its clock and timer (`IRouterHost`).

    The owner sets `transmit`, and perhaps `matching`, before it calls `start`.
    """

    def __init__(
        self,
        name: str,
        clock: IClock,
        settings: DcpSettings,
        parents: Sequence[Hashable],
        seed: int,
        roots: Sequence[Hashable] = (),
    ) -> None:
        """Without `parents` it is one of the `roots`, whose number is its resilience."""
        self.name = name
        self.origin = f"log-of-{name}"
        self.ticket: ClientTicket | None = None
        self.tickets = TicketRules()
        self.patterns = [PATTERN]
        self.parent_count = settings.parents if parents else 0
        self.transmit: Callable[[list[bytes], Hashable], object] = lambda packets, peer: None
        self.on_delivery: Callable[[FlowBatch], object] = lambda batch: None
        self.matching: ILinkMatching = FakeMatching()
        self.searches = False
        """True if it also asks nodes that others name; their addresses must be names."""
        self.losses: dict[Hashable, LinkLoss] = {}
        """By the address of the sender."""
        self._clock = clock
        self._timer = DeadlineTimer(clock, self._handle_timeout)
        self.router = Router(
            *(self, settings, Random(f"ids {seed} {name}").randbytes, parents or roots),
            *(Random(f"mesh {seed} {name}"), self._wall_clock, clock.seconds()),
            is_root=not parents,
        )

    # ------------------------------------------------------------------ for the experiment

    def start(self) -> None:
        self._changed()

    def subscribe(self, *queries: str) -> None:
        for number, query in enumerate(queries):
            interest = CarriedInterest(StreamPattern.parse(PATTERN), query, {})
            self.router.announce(f"subscription-{number}", interest, lambda marks: None)
        self._changed()

    def publish(self, batch: FlowBatch) -> None:
        """At a root, send a batch to the children."""
        self.router.publish(batch)
        self._changed()

    def receive(self, datagrams: Sequence[tuple[bytes, Hashable]]) -> None:
        """Handle one read of the socket, except for the lost datagrams."""
        now = self._clock.seconds()
        for data, source in datagrams:
            loss = self.losses.get(source)
            if loss is None or not loss.is_lost():
                self.router.receive(source, (data,), now)
        self._changed()

    def stop(self) -> None:
        self._timer.arm(None)

    @property
    def is_whole(self) -> bool:
        """True if all parents send their events."""
        return len(self.router.parents.paths) >= self.parent_count

    @property
    def current(self) -> int:
        """The AN up to which the node waits for no event."""
        receivers = [each.receiver for each in self.router.sequences]
        return max((each.current or 0 for each in receivers if each is not None), default=0)

    # ------------------------------------------------------------------ the router's host

    def send(self, peer: Hashable, packets: list[bytes]) -> None:
        self.transmit(packets, peer)

    def report(self, alarm: str) -> None:
        """Do nothing: a mesh without spare parents has alarms."""

    def open_peer(self, peer: Hashable) -> None:
        """Do nothing, as the next two: each node reaches each other one."""

    def keep_peer(self, peer: Hashable) -> None:
        """Do nothing."""

    def close_peer(self, peer: Hashable) -> None:
        """Do nothing."""

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        return self.matching.match(batch)

    def deliver(self, batch: FlowBatch) -> None:
        self.on_delivery(batch)

    def has_interest(self, batch: FlowBatch) -> Sequence[bool]:
        return [False for _ in batch.events]

    def set_link_interest(
        self,
        link: Hashable,
        key: str,
        interest: CarriedInterest | None,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        self.matching.set_interest(link, key, interest)
        if interest is not None:
            on_active({})

    def describe_peer(self, peer: Hashable) -> str:
        return str(peer)

    def find_peer(self, address: str) -> Hashable | None:
        """Return None, unless the node `searches`: it asks only the parents of the experiment."""
        return address if self.searches and address != self.name else None

    # ------------------------------------------------------------------ time

    def _wall_clock(self) -> int:
        return int(self._clock.seconds() * 1000)

    def _handle_timeout(self) -> None:
        self.router.handle_timeout(self._clock.seconds())
        self._changed()

    def _changed(self) -> None:
        self.router.flush(self._clock.seconds())
        self._timer.arm(self.router.next_timeout())


def ans_of(batch: FlowBatch) -> list[int]:
    """Return the ANs of a batch's events. Raises ValueError for another flow."""
    if batch.flow != FLOW:
        raise ValueError(f"the flow {batch.flow}")
    return [event.mark[1] for event in batch.events]
