"""How a node comes to be a member of a cluster: whom it asks, and what if nobody takes it (G3, G4).

It asks one node after the other, the seeds first, then those that were named instead. A cluster
that is full, or whose address rules exclude the node, has no place for it. When no cluster has one,
the node waits a moment and asks again, because others may be in the same position. If there is
still no place it founds a cluster beside the first that refused it, and is linked to it as a
gateway. When nobody answered, or the answer was another no, it asks again later.
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

#: Nodes asked in one round; who follows alternatives must come to an end.
MOST_ASKED = 64
#: Seconds between rounds: doubled up to the longest, of that half to all by chance.
SHORTEST_BACKOFF = 0.5
LONGEST_BACKOFF = 30.0
#: Seconds, by chance up to this, between a round without a place and the next: whoever wakes first
#: founds a cluster, and the others are told of it.
FOUNDING_DELAY = 3.0
#: Seconds without a link to any member after which a node asks anew: longer than a broken
#: connection needs to come back.
CUT_OFF_TIMEOUT = 5.0
#: Rounds without a place in any cluster, before one is founded.
ROUNDS_BEFORE_FOUNDING = 2
#: Refusals that asking again does not change.
_NO_ROOM = (ClusterFull, AddressNotAllowed)
_LONGEST_NAME = 64
_NO_SEEDS = "neither network.join nor network.discover has named a node that could be asked"


@attrs.frozen
class AskNode:
    """Dial this endpoint, greet as a member, and tell `accepted`, `refused` or `failed`."""

    endpoint: Endpoint


@attrs.frozen
class Joined:
    """The node is a member now. The link by which it came is up."""

    cluster: UnitPath
    admitted: int
    peer: NodeDescriptor
    members: tuple[NodeDescriptor, ...]


@attrs.frozen
class Founded:
    """The node is the first of a new cluster, and has to be linked to `beside` as its gateway."""

    cluster: UnitPath
    gateway: Endpoint


@attrs.frozen
class RoundFailed:
    """A round is over, and nobody has taken the node. It goes on by itself after `rest` seconds."""

    error: BrokerError
    wait: float
    asked: tuple[tuple[Endpoint, BrokerError], ...] = ()
    """Who was asked in this round, and why that came to nothing."""


Effect: TypeAlias = AskNode | Joined | Founded | RoundFailed


class JoiningState(enum.Enum):
    """How far the node is."""

    NOT_STARTED = enum.auto()
    """Not begun."""
    ASKING = enum.auto()
    """One node has been asked and has not answered."""
    WAITING = enum.auto()
    """Between two rounds."""
    MEMBER = enum.auto()
    """It is a member."""
    FOUNDER = enum.auto()
    """It is the first of its cluster, and may be alone."""


class Joining:
    """One node on its way into a cluster. Only one is asked at a time, so it is let in once."""

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
        """Clusters that have no place for this node, and who said so."""
        self._error: BrokerError = NotConnected(_NO_SEEDS)
        self._answers: list[tuple[Endpoint, BrokerError]] = []
        self._rounds = 0
        self._full_rounds = 0
        self._wake: float | None = None
        self._is_member = False
        """Whether a node has taken this one, and it has not left since."""

    def start(self, now: float) -> list[Effect]:
        """Become a member."""
        self._rounds = self._full_rounds = 0
        return self._start_round(now)

    def set_seeds(self, seeds: Iterable[Endpoint], now: float) -> list[Effect]:
        """Discovery has found these; they are the seeds from now on."""
        self._seeds = tuple(seeds)
        # The first answer of discovery need not wait for the end of a rest that began without it.
        if self.state is JoiningState.WAITING and not self._seen:
            return self._start_round(now)
        return []

    def join_accepted(self, accepted: Accepted, now: float) -> list[Effect]:
        """The node that was asked has taken this one."""
        if self.state is not JoiningState.ASKING:
            return []
        self.state, self._is_member = JoiningState.MEMBER, True
        # The connection may break before there is a link (T43).
        self._wake = now + CUT_OFF_TIMEOUT
        members = (accepted.peer, *accepted.members)
        self._known_members = tuple(node.tcp for node in members if node.tcp)[:MOST_ASKED]
        cluster = accepted.peer.address.unit
        return [Joined(cluster, accepted.admitted, accepted.peer, accepted.members)]

    def join_refused(self, refused: Refused, now: float) -> list[Effect]:
        """The greeting of the node that was asked has come to nothing."""
        if self.state is not JoiningState.ASKING or self._asked is None:
            return []
        self._record_answer(refused.error)
        if refused.by_peer:
            if isinstance(refused.error, _NO_ROOM) and refused.cluster:
                self._full_clusters.append((refused.cluster, self._asked))
            self._add_endpoints(alternative.endpoint for alternative in refused.alternatives)
        return self._ask_next(now)

    def dial_failed(self, error: BrokerError, now: float) -> list[Effect]:
        """The node that was asked could not be reached."""
        if self.state is not JoiningState.ASKING:
            return []
        self._record_answer(error)
        return self._ask_next(now)

    def set_member_links(self, member_links: int, now: float) -> None:
        """How many links to members of its cluster the node has now.

        Without any for `CUT_OFF_TIMEOUT` seconds it asks anew, first those that it knew as members. It is
        what it was until somebody has taken it, and serves its clients.
        """
        if member_links and self._is_member:
            # Also where a member came back by itself while others were asked.
            self.state, self._wake = JoiningState.MEMBER, None
        elif self.state is JoiningState.MEMBER:
            self._wake = now + CUT_OFF_TIMEOUT

    def rejoin(self, now: float) -> list[Effect]:
        """There is no room for the node in its cluster: it has left, and joins anew."""
        self._is_member = False
        return self.start(now)

    def handle_timeout(self, now: float) -> list[Effect]:
        """A rest is over, or the node is cut off."""
        if self._wake is None or now < self._wake:
            return []
        return self.start(now) if self.state is JoiningState.MEMBER else self._start_round(now)

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is due, in monotonic seconds; None: never."""
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
        self._asked = None
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
    """The name of the cluster that a node founds: no other node would give the same."""
    name = f"c-{founder}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"c-{hashlib.sha256(founder.encode()).hexdigest()[: _LONGEST_NAME - 2]}"
