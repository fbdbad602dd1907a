"""Network of core nodes in virtual time: real cores of state and traffic, no sockets.

Links are FIFO and lossless while they are up, but drop frames when many are in transit. Events are
numbers, interests are ranges of numbers.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from broker.cluster.address import Address, UnitPath
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.messages import Message, decode, encode
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame import decode_frame as decode_frame
from broker.testing.core_node import CoreNode

#: In order.
Pair = tuple[str, str]


@attrs.define
class _Link:
    slowest: float
    clearance: int
    generation: int
    last: dict[str, float] = attrs.field(factory=dict)
    """Arrival time of each sender's newest message."""
    frames: Counter[str] = attrs.field(factory=Counter)
    """In transit, by sender."""


class CoreNetwork:
    """`slowest` is the longest link delay, `commit` the longest commit, in seconds. With `wire` all
    messages are encoded and decoded."""

    def __init__(
        self,
        seed: int,
        *,
        slowest: float = 0.02,
        commit: float = 0.01,
        capacity: int = 64,
        wire: bool = True,
    ) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.nodes: dict[str, CoreNode] = {}
        self.links: dict[Pair, _Link] = {}
        self.commit_failure_rate = 0.0
        """Probability that a commit of other nodes' events fails."""
        self.late_entry_rate = 0.0
        """Probability that transit traffic does not wait for local matching."""
        self.counts: Counter[str] = Counter()
        """`control` messages, `frames`, `dropped` frames, and `bytes` with `wire`."""
        self.on_frame: Callable[[str, str, Frame], None] = lambda sender, receiver, frame: None
        self._slowest, self._commit, self._capacity, self._wire = slowest, commit, capacity, wire
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._generation = itertools.count()

    # ------------------------------------------------------------------ what happens

    def add_node(self, name: str, unit: UnitPath, clearance: int = 2) -> CoreNode:
        node = NodeDescriptor(
            Address(unit, name), f"{len(self.nodes):016x}", 1, (1,), clearance=clearance
        )
        made = self.nodes[name] = CoreNode(self, node)
        made.start()
        return made

    def link_nodes(
        self, one: str, other: str, clearance: int = 2, slowest: float | None = None
    ) -> None:
        pair = (min(one, other), max(one, other))
        nodes = [self.nodes[name] for name in pair]
        if pair in self.links or not all(node.is_alive for node in nodes):
            return
        delay = self.random.uniform(0.0, self._slowest) if slowest is None else slowest
        self.links[pair] = _Link(delay, clearance, next(self._generation))
        for node, far in (nodes, nodes[::-1]):
            node.link_up(far.descriptor, clearance)

    def cut_link(self, one: str, other: str) -> None:
        """Messages in transit are lost."""
        pair = (min(one, other), max(one, other))
        if self.links.pop(pair, None) is None:
            return
        for name, peer in (pair, pair[::-1]):
            if self.nodes[name].is_alive:
                self.nodes[name].link_down(peer)

    def kill_node(self, name: str) -> None:
        """Links break; the log keeps durable events."""
        self.nodes[name].kill()
        for pair in [pair for pair in self.links if name in pair]:
            self.cut_link(*pair)

    # ------------------------------------------------------------------ time

    def call_at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._queue, (time, next(self._order), call, args))

    def draw_commit_end(self) -> float:
        return self.now + self.random.uniform(0.0, self._commit)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        queue = self._queue
        while queue and queue[0][0] <= end:
            time, _, call, args = heapq.heappop(queue)
            self.now = max(self.now, time)
            call(*args)
        self.now = end

    # ------------------------------------------------------------------ links

    def send(self, sender: str, receiver: str, message: Message | Frame) -> None:
        """Send a message, which is lost if the link is down."""
        pair = (min(sender, receiver), max(sender, receiver))
        link = self.links.get(pair)
        if link is None:
            return
        is_frame = isinstance(message, Frame)
        if is_frame and link.frames[sender] >= self._capacity:
            self.counts["dropped"] += 1
            return
        self.counts["frames" if is_frame else "control"] += 1
        if is_frame:
            link.frames[sender] += 1
            self.on_frame(sender, receiver, message)  # type: ignore[arg-type]
        data: Any = message
        if self._wire:
            data = message.encode() if isinstance(message, Frame) else encode(message)
            self.counts["bytes"] += len(data)
        delay = self.random.uniform(link.slowest / 2, link.slowest)
        arrival = max(self.now + delay, link.last.get(sender, 0.0))
        link.last[sender] = arrival
        self.call_at(arrival, self._arrive, pair, link.generation, sender, receiver, data, is_frame)

    def _arrive(
        self, pair: Pair, generation: int, sender: str, receiver: str, data: Any, is_frame: bool
    ) -> None:
        link = self.links.get(pair)
        if link is None or link.generation != generation:
            return
        if is_frame:
            link.frames[sender] -= 1
        if self._wire:
            data = decode_frame(data) if is_frame else decode(data)
        self.nodes[receiver].receive(sender, data)
