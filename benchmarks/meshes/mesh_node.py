"""A router of a mesh with its clock and timer, in virtual time or on a socket."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Final

from benchmarks.meshes.documents import FLOW, PATTERN
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.streams.contract import CarriedInterest, FlowBatch
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from plugins.dcp.router import Router
from plugins.dcp.settings import DcpSettings

#: Queries of the fake matching: each event, or those whose AN is a multiple of `SELECTED`.
EVERYTHING: Final = "true()"
TENTH: Final = "AN mod 10 = 0"
SELECTED: Final = 10


class LinkLoss:
    """Independent loss of the datagrams that one node receives from another one."""

    def __init__(self, share: float, seed: str) -> None:
        self._share = share
        self._random = Random(seed)

    def is_lost(self) -> bool:
        return self._random.random() < self._share


class MeshNode:
    """A router with its clock and timer (`IRouterHost`), which asks only the given parents.

    Matching is a fake: it knows two queries. The owner sets `transmit` before it calls `start`.
    """

    def __init__(
        self,
        name: str,
        clock: IClock,
        settings: DcpSettings,
        parents: Sequence[Hashable],
        seed: int,
    ) -> None:
        """Without `parents` it is a root."""
        self.name = name
        self.origin = f"log-of-{name}"
        self.patterns = [PATTERN]
        self.parent_count = settings.parents if parents else 0
        self.transmit: Callable[[list[bytes], Hashable], object] = lambda packets, peer: None
        self.on_delivery: Callable[[FlowBatch], object] = lambda batch: None
        self.losses: dict[Hashable, LinkLoss] = {}
        """By the address of the sender."""
        self._clock = clock
        self._queries: dict[Hashable, dict[str, str]] = {}
        self._links_of_all: frozenset[Hashable] = frozenset()
        """Links behind which each event is selected."""
        self._links_of_tenth: frozenset[Hashable] = frozenset()
        """Links that get a selected event."""
        self._timer = DeadlineTimer(clock, self._handle_timeout)
        self.router = Router(
            *(self, settings, Random(f"ids {seed} {name}").randbytes, parents),
            *(Random(f"mesh {seed} {name}"), self._wall_clock, clock.seconds()),
            is_root=not parents,
        )

    # ------------------------------------------------------------------ for the experiment

    def start(self) -> None:
        self._changed()

    def subscribe(self, query: str) -> None:
        interest = CarriedInterest(StreamPattern.parse(PATTERN), query, {})
        self.router.announce("subscription", interest, lambda marks: None)
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
        everything, selected = self._links_of_all, self._links_of_tenth
        if everything == selected:
            return [everything] * len(batch.events)
        return [everything if each.mark[1] % SELECTED else selected for each in batch.events]

    def deliver(self, batch: FlowBatch) -> None:
        self.on_delivery(batch)

    def set_link_interest(
        self,
        link: Hashable,
        key: str,
        interest: CarriedInterest | None,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        queries = self._queries.setdefault(link, {})
        if interest is None:
            queries.pop(key, None)
        else:
            queries[key] = interest.query
        found = self._queries.items()
        self._links_of_all = frozenset(k for k, each in found if EVERYTHING in each.values())
        self._links_of_tenth = frozenset(k for k, each in found if each)
        if interest is not None:
            on_active({})

    def describe_peer(self, peer: Hashable) -> str:
        return str(peer)

    def find_peer(self, address: str) -> Hashable | None:
        """Return None: a node asks only the parents that the experiment gives it."""
        return None

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
