"""State machine by which a node joins a cluster (G3, G4).

It asks the seeds, then the alternatives that they name. A cluster has no room if it is full, or if
its address rules exclude the node. Without room anywhere the node founds a cluster beside the first
that refused it, and becomes a gateway to that. It waits before, because other nodes may be founding
one.
"""

from __future__ import annotations

import enum
import hashlib
import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Accepted, Refused
from broker.errors import AddressNotAllowed, BrokerError, ClusterFull, NotConnected
from broker.transport.backoff import backoff_wait

#: It bounds chains of alternatives.
MOST_ASKED = 64
#: Seconds between rounds.
SHORTEST_BACKOFF = 0.5
LONGEST_BACKOFF = 30.0
#: Seconds. The first node to wake founds a cluster, and the others find it.
FOUNDING_DELAY = 3.0
#: Seconds without a link to any member; longer than a reconnection.
CUT_OFF_TIMEOUT = 5.0
ROUNDS_BEFORE_FOUNDING = 2
_NO_ROOM = (ClusterFull, AddressNotAllowed)
_LONGEST_NAME = 64
_NO_SEEDS = "network.join and network.discover name no node to ask"


@attrs.frozen
class AskNode:
    """Dial and ask for membership. Report `join_accepted`, `join_refused` or `dial_failed`."""

    endpoint: Endpoint


@attrs.frozen
class Joined:
    """The node is a member, and the link to `peer` is up."""

    cluster: UnitPath
    admitted: int
    peer: NodeDescriptor
    members: tuple[NodeDescriptor, ...]


@attrs.frozen
class Founded:
    """First of a new cluster. The node must link to `gateway` as a gateway."""

    cluster: UnitPath
    gateway: Endpoint


@attrs.frozen
class RoundFailed:
    """No node admitted this one. The next round starts after `wait` seconds."""

    error: BrokerError
    wait: float
    asked: tuple[tuple[Endpoint, BrokerError], ...] = ()


Effect: TypeAlias = AskNode | Joined | Founded | RoundFailed


class JoiningState(enum.Enum):
    NOT_STARTED = enum.auto()
    ASKING = enum.auto()
    WAITING = enum.auto()
    MEMBER = enum.auto()
    FOUNDER = enum.auto()
    """First of its cluster, possibly its only member."""


class Joining:
    """Joins a cluster. It asks one node at a time, so it is admitted once."""

    def __init__(self, name: str, seeds: Sequence[Endpoint], rng: random.Random) -> None:
        self._name = name
        self._rng = rng
        self._seeds = tuple(seeds)
        self._known_members: tuple[Endpoint, ...] = ()
        self.state = JoiningState.NOT_STARTED
        self._to_ask: deque[Endpoint] = deque()
        self._seen: set[Endpoint] = set()
        self._asked: Endpoint | None = None
        self._full_clusters: list[tuple[UnitPath, Endpoint]] = []
        """Each with the node that refused."""
        self._error: BrokerError = NotConnected(_NO_SEEDS)
        self._answers: list[tuple[Endpoint, BrokerError]] = []
        self._rounds = 0
        self._full_rounds = 0
        self._wake: float | None = None
        self._is_member = False
        """Admitted, and not left since."""

    def start(self, now: float) -> list[Effect]:
        self._rounds = self._full_rounds = 0
        return self._start_round(now)

    def set_seeds(self, seeds: Iterable[Endpoint], now: float) -> list[Effect]:
        self._seeds = tuple(seeds)
        # The first seeds have come.
        if self.state is JoiningState.WAITING and not self._seen:
            return self._start_round(now)
        return []

    def join_accepted(self, accepted: Accepted, now: float) -> list[Effect]:
        if self.state is not JoiningState.ASKING:
            return []
        self.state, self._is_member = JoiningState.MEMBER, True
        # The connection may break before the link is up (T43).
        self._wake = now + CUT_OFF_TIMEOUT
        members = (accepted.peer, *accepted.members)
        self._known_members = tuple(node.tcp for node in members if node.tcp)[:MOST_ASKED]
        cluster = accepted.peer.address.unit
        return [Joined(cluster, accepted.admitted, accepted.peer, accepted.members)]

    def join_refused(self, refused: Refused, now: float) -> list[Effect]:
        if self.state is not JoiningState.ASKING or self._asked is None:
            return []
        self._record_answer(refused.error)
        if refused.by_peer:
            if isinstance(refused.error, _NO_ROOM) and refused.cluster:
                self._full_clusters.append((refused.cluster, self._asked))
            self._add_endpoints(alternative.endpoint for alternative in refused.alternatives)
        return self._ask_next(now)

    def dial_failed(self, error: BrokerError, now: float) -> list[Effect]:
        if self.state is not JoiningState.ASKING:
            return []
        self._record_answer(error)
        return self._ask_next(now)

    def set_member_links(self, member_links: int, now: float) -> None:
        """Set the number of links to members.

        After `CUT_OFF_TIMEOUT` seconds without any, the node asks again, known members first. It
        stays a member until it is admitted elsewhere.
        """
        if member_links and self._is_member:
            # A member may also reconnect by itself while other nodes are asked.
            self.state, self._wake = JoiningState.MEMBER, None
        elif self.state is JoiningState.MEMBER:
            self._wake = now + CUT_OFF_TIMEOUT

    def rejoin(self, now: float) -> list[Effect]:
        """Join again, after leaving an overfull cluster."""
        self._is_member = False
        return self.start(now)

    def handle_timeout(self, now: float) -> list[Effect]:
        if self._wake is None or now < self._wake:
            return []
        return self.start(now) if self.state is JoiningState.MEMBER else self._start_round(now)

    def next_timeout(self) -> float | None:
        return self._wake

    def _start_round(self, now: float) -> list[Effect]:
        self._wake = None
        self._to_ask.clear()
        self._seen.clear()
        self._full_clusters.clear()
        self._answers.clear()
        self._error = NotConnected(_NO_SEEDS)
        self._add_endpoints(self._known_members)
        self._add_endpoints(self._seeds)
        return self._ask_next(now)

    def _add_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        for endpoint in endpoints:
            if endpoint not in self._seen and len(self._seen) < MOST_ASKED:
                self._seen.add(endpoint)
                self._to_ask.append(endpoint)

    def _record_answer(self, error: BrokerError) -> None:
        self._error = error
        if self._asked is not None:
            self._answers.append((self._asked, error))

    def _ask_next(self, now: float) -> list[Effect]:
        if not self._to_ask:
            return self._end_round(now)
        self.state = JoiningState.ASKING
        self._asked = self._to_ask.popleft()
        return [AskNode(self._asked)]

    def _end_round(self, now: float) -> list[Effect]:
        self._rounds += 1
        if self._full_clusters:
            self._full_rounds += 1
            if self._full_rounds >= ROUNDS_BEFORE_FOUNDING:
                (unit, gateway) = self._full_clusters[0]
                self.state = JoiningState.FOUNDER
                self._known_members = (gateway,)
                return [Founded((*unit[:-1], cluster_name(self._name)), gateway)]
            rest = self._rng.uniform(0.0, FOUNDING_DELAY)
        else:
            rest = backoff_wait(self._rounds - 1, SHORTEST_BACKOFF, LONGEST_BACKOFF, self._rng)
        self.state = JoiningState.WAITING
        self._wake = now + rest
        return [RoundFailed(self._error, rest, tuple(self._answers))]


def cluster_name(founder: str) -> str:
    name = f"c-{founder}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"c-{hashlib.sha256(founder.encode()).hexdigest()[: _LONGEST_NAME - 2]}"
