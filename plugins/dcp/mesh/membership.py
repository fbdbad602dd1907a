"""A node's place in its mesh: parents it searches, children it admits, and its standing.

(DCP D57-D71; X5.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Final

from broker.errors import ProtocolError
from broker.transport.backoff import Backoff
from plugins.dcp.children import Children
from plugins.dcp.connection import Connection
from plugins.dcp.control import (
    MOST_CANDIDATES,
    MOST_LEVEL,
    Beacon,
    ControlMessage,
    Interest,
    Join,
    Leaving,
    Offer,
    ParentState,
    Query,
    Refused,
    Reinitialise,
)
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.leaf_peer import LeafPeer
from plugins.dcp.mesh.admission import Admission
from plugins.dcp.mesh.alarms import BEACON_SECONDS, describe_cycle, find_alarms, joint_alarms
from plugins.dcp.mesh.beacons import Beacons
from plugins.dcp.mesh.leaf_proof import make_join
from plugins.dcp.mesh.parent_count import ParentCount
from plugins.dcp.mesh.peers import IPeers
from plugins.dcp.mesh.reinitialisation import Reinitialisation
from plugins.dcp.mesh.replacement import Replacement
from plugins.dcp.mesh.search import ParentSearch
from plugins.dcp.mesh.selection import Candidate, GuardedSelector
from plugins.dcp.mesh.standing import (
    Standing,
    derive_standing,
    elements_of,
    encode_standing,
    root_standing,
)
from plugins.dcp.parents import Parent, Parents
from plugins.dcp.settings import DcpSettings

#: Seconds between two statements of the own standing.
_STATE_SECONDS: Final = BEACON_SECONDS


class Membership:
    def __init__(
        self,
        host: IPeers,
        settings: DcpSettings,
        endpoint: Endpoint,
        parents: Parents,
        children: Children,
        roots: Sequence[Hashable],
        random: Random,
        wall_clock: Callable[[], int],
        now: float,
        *,
        is_root: bool,
    ) -> None:
        self.is_root, self.name = is_root, host.name
        self.cycles = 0
        """Parents in whose path this node was."""
        self._cycle: tuple[float, str] | None = None
        """Time and parent of the last one."""
        self.has_left = False
        """True after `leave`: the node accepts no children until `rebalance`."""
        self.admission = Admission(settings.children)
        self.reinitialisation = Reinitialisation(random)
        self._host = host
        self._settings = settings
        self._endpoint = endpoint
        self._parents = parents
        self._children = children
        self.diversity, self._root_count = settings.diversity, len(roots)
        self._selector = GuardedSelector(settings.selector)
        self._is_rebalancing = False
        self._fixed_level: int | None = None
        """None while the node has no children."""
        self._stated: Standing | None = None
        self._state_at = now + random.uniform(0.0, _STATE_SECONDS)
        self.parent_count = ParentCount(settings.parents, settings.loss_target, parents.losses)
        self._replacement = Replacement(endpoint, parents, lambda: self.parent_count.count, now)
        self.beacons = Beacons(host.name, wall_clock, is_root=is_root)
        self.search = ParentSearch(
            *(endpoint, [] if is_root else roots, Backoff(0.25, 5.0, random)),
            *(self._count_missing, self._choose, self._confirm),
        )

    def set_roots(self, roots: Sequence[Hashable], now: float) -> None:
        """Search from other nodes on; at a root only their number counts."""
        self._root_count = len(roots)
        if not self.is_root:
            self.search.set_roots(roots, now)

    # ------------------------------------------------------------------ standing

    @property
    def standing(self) -> Standing:
        name, diversity = self._host.name, self.diversity
        if self.is_root:
            return root_standing(name, diversity, self._root_count)
        standings = [each.standing for each in self._parents]
        return derive_standing(name, diversity, standings, self._fixed_level)

    @property
    def level(self) -> int:
        return self.standing.level

    def find_alarms(self, now: float) -> list[str]:
        """Return a sentence for each alarm about the redundancy of this node."""
        if self.is_root:
            return []
        own = elements_of(self._host.name, self.diversity)
        target = self.parent_count.count
        alarms = find_alarms(self._parents, self.standing, own, target, now)
        cycle = describe_cycle(self._cycle, now)
        others = cycle, self._selector.find_alarm(now), self.parent_count.find_alarm()
        return [*alarms, *joint_alarms(self._parents), *filter(None, others)]

    @property
    def is_ready(self) -> bool:
        """True if the node has the parents that it can have for now."""
        if self.is_root:
            return True
        is_whole = not self.search.is_searching or self.search.has_ended_pass
        return bool(self._parents.paths) and is_whole

    @property
    def refusal(self) -> str:
        """Reason for which the node accepts no children now; empty: it accepts them."""
        if self.has_left:
            return "leaving"
        return "" if self.is_ready else "not ready"

    @property
    def is_moving(self) -> bool:
        """True while parents are compared or replaced."""
        return self._is_rebalancing or any(each.is_leaving for each in self._parents)

    def _state_standing(self, now: float) -> None:
        """State the standing to the children, if it has changed."""
        standing = self.standing
        if self._fixed_level is not None:
            self._fixed_level = standing.level
        if standing != self._stated:
            self._stated = standing
            for child in self._children:
                child.connection.send_control(encode_standing(standing))

    # ------------------------------------------------------------------ as a child

    def connected(self, connection: Connection, now: float) -> None:
        if connection.is_dialled:
            level = self._fixed_level or 0
            connection.send_control(make_join(self._host, self._settings, level, connection))

    def rebalance(self, now: float) -> None:
        """Search for better parents. The present ones end when the new ones have proven
        themselves (D67). After `leave` the node accepts children again."""
        self.has_left = False
        if not self.is_root:
            self._is_rebalancing = True
            self.search.begin_pass(now)

    def _count_missing(self) -> int:
        if self.is_root:
            return 0
        if self._is_rebalancing:
            return self.parent_count.count
        present = sum(not each.is_leaving for each in self._parents)
        return max(0, self.parent_count.count - present)

    def _choose(self, offers: Sequence[Candidate], now: float) -> Sequence[Candidate]:
        """Choose new parents among the offers; in a rebalance, beside the present ones."""
        staying = [each for each in self._parents if not each.is_leaving]
        present = [each.as_candidate() for each in staying]
        if not self._is_rebalancing:
            return self._selector.select(offers, present, self._count_missing(), now)
        self._is_rebalancing = False
        best = self._selector.select([*present, *offers], (), self.parent_count.count, now)
        for parent, candidate in zip(staying, present, strict=True):
            if not any(candidate is each for each in best):
                self._prepare_end(parent, now)
        return [each for each in best if any(each is offer for offer in offers)]

    def _confirm(self, connection: Connection, candidate: Candidate, now: float) -> None:
        """Take the place that a node offers."""
        level = self._fixed_level
        if level is not None and candidate.level >= level:
            # The node has got children since it asked: a circle could close (D64).
            self._endpoint.close(connection, "level", now)
            return
        self._parents.add(connection, candidate, now)
        connection.send_control(self._parents.interest)

    def _adapt_parent_count(self, now: float) -> None:
        """Seek one parent more, or give up one that is not needed, if the number is not fixed."""
        parents = list(self._parents)
        if not self.parent_count.is_due(now) or self.is_moving:
            return
        candidates = [each.as_candidate() for each in parents]
        best = self._selector.select(candidates, (), len(candidates), now)
        places = {id(each): number for number, each in enumerate(candidates)}
        ranked = [parents[places[id(each)]].connection for each in best]
        spare = self.parent_count.judge(ranked, now)
        for each in parents:
            if each.connection is spare:
                self._prepare_end(each, now)

    def _prepare_end(self, parent: Parent, now: float, *, asks_permission: bool = False) -> None:
        """Look for another parent before this one ends."""
        self._replacement.begin(parent, now, asks_permission=asks_permission)
        self.search.begin_pass(now)

    # ------------------------------------------------------------------ as a parent

    def leave(self, now: float) -> None:
        """Let the children find other parents, and accept no further ones. Without children,
        nothing goes through this node any more. It keeps its own parents.

        A repeated call has no effect.
        """
        if self.has_left:
            return
        self.has_left = True
        for child in self._children:
            child.connection.send_control(Leaving())

    def _answer_join(self, connection: Connection, join: Join, now: float) -> None:
        peers = [each.connection.peer for each in self._children]
        nodes = [each for each in peers if not isinstance(each, LeafPeer)]
        children = tuple([self._host.describe_peer(each) for each in nodes[:MOST_CANDIDATES]])
        # Clients have places of their own.
        taken = None if isinstance(connection.peer, LeafPeer) else len(nodes)
        reason = self.admission.reserve(
            *(connection, join, self.level, taken, now),
            refusal=self.refusal,
        )
        if reason:
            connection.send_control(Refused(reason, children))
            return
        diversity = tuple(sorted(self.diversity.items()))
        connection.send_control(Offer(self._host.name, self.level, diversity, children, join.proof))

    def _admit(self, connection: Connection, message: Interest) -> None:
        level = self.level
        join, reason = self.admission.take(connection, level)
        if self.has_left:
            reason = "leaving"
        if not reason and not self._covers(message.queries):
            reason = "content"
        if reason:
            connection.send_control(Refused(reason, ()))
            return
        self._fixed_level = level
        clearance = min(join.clearance, self._settings.clearance)
        self._children.add(connection, join.name, clearance, join.multicast, join.takes_late)
        connection.send_control(encode_standing(self.standing))
        self._children.set_interest(*(connection, message.epoch, message.queries, message.queue))

    def _covers(self, queries: Sequence[Query]) -> bool:
        """Return whether the node may serve these queries, or request them first (D16, D17)."""
        present = self._parents.queries
        is_any = self.is_root or self._settings.widens
        return is_any or all({each, (each[0], "true()", ())} & present for each in queries)

    def _drop_children(self, now: float) -> None:
        """Let the level rise, and search again."""
        for child in self._children:
            self._endpoint.close(child.connection, "reinitialising", now)
        self._fixed_level = None
        self.search.begin_pass(now)

    # ------------------------------------------------------------------ messages

    def receive(self, connection: Connection, message: ControlMessage, now: float) -> bool:
        """Handle a message about the mesh. Return False for another one.

        Raises `ProtocolError` for one that does not fit, and as `Children.set_interest`.
        """
        if isinstance(message, Interest) and connection in self.admission:
            self._admit(connection, message)
        elif isinstance(message, Join) and not connection.is_dialled:
            if connection in self._children or connection in self.admission:
                raise ProtocolError("a second join on one connection")
            self._answer_join(connection, message, now)
        elif isinstance(message, Offer | Refused) and connection.is_dialled:
            self._receive_answer(connection, message, now)
        elif isinstance(message, Reinitialise) and connection in self._children:
            self.reinitialisation.permit(connection)
        elif isinstance(message, ParentState | Beacon | Leaving | Reinitialise):
            parent = self._parents.get(connection)
            if parent is not None:
                self._receive_from_parent(parent, message, now)
        else:
            return False
        return True

    def _receive_answer(self, connection: Connection, message: Offer | Refused, now: float) -> None:
        children = self._find_peers(message.children)
        if isinstance(message, Offer):
            if connection in self._parents:
                raise ProtocolError("a parent offers its place again")
            candidate = Candidate(message.name, message.level, dict(message.diversity))
            self.search.offered(connection, candidate, children, now)
            return
        self.search.refused(connection.peer, message.reason, children, now)
        self._endpoint.close(connection, "refused", now)

    def _find_peers(self, addresses: Iterable[str]) -> list[Hashable]:
        found = [self._host.find_peer(each) for each in addresses]
        return [each for each in found if each is not None]

    def _receive_from_parent(
        self,
        parent: Parent,
        message: ParentState | Beacon | Leaving | Reinitialise,
        now: float,
    ) -> None:
        if isinstance(message, ParentState):
            level = self._fixed_level
            parent.standing = Standing(message.level, message.paths, frozenset(message.shared))
            if level is not None and message.level >= level:
                self._endpoint.close(parent.connection, "level", now)
        elif isinstance(message, Beacon):
            self._receive_beacon(parent, message, now)
        elif isinstance(message, Leaving):
            self._prepare_end(parent, now)
        else:
            self._prepare_end(parent, now, asks_permission=True)

    def _receive_beacon(self, parent: Parent, beacon: Beacon, now: float) -> None:
        if self._host.name in beacon.path or len(beacon.path) >= MOST_LEVEL:
            self.cycles += 1
            self._cycle = now, parent.candidate.name
            self._endpoint.close(parent.connection, "cycle", now)
            return
        loss = parent.connection.liveness.loss
        parent.beacon_at, parent.path_loss = now, 1 - beacon.survival * (1 - loss)
        onward = self.beacons.receive(beacon, loss)
        if onward is not None:
            self._send_beacon(onward)

    def _send_beacon(self, beacon: Beacon) -> None:
        for child in self._children:
            child.connection.send_control(beacon)

    def disconnected(self, connection: Connection, now: float) -> None:
        """Handle the end of a connection, which `Children` and `Parents` do not have any more."""
        self.admission.remove(connection)
        self.reinitialisation.permit(connection)
        self._replacement.remove(connection)
        if not len(self._children):
            self._fixed_level = None

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float:
        times = (
            *(self.search.next_timeout(), self.admission.next_timeout()),
            *(self.reinitialisation.next_timeout(), self._state_at),
            self._replacement.next_timeout(),
        )
        return min(each for each in times if each is not None)

    def handle_timeout(self, now: float) -> None:
        for connection in self.admission.take_expired(now):
            self._endpoint.close(connection, "no answer", now)
        self.search.handle_timeout(now)
        self._is_rebalancing &= not self.search.has_ended_pass
        self._replacement.end_replaced(now)
        self._adapt_parent_count(now)
        self._consider_reinitialisation(now)
        if now >= self._state_at:
            self._state_at = now + _STATE_SECONDS
            self._state_standing(now)
            if self.is_root:
                self._send_beacon(self.beacons.make())

    def _consider_reinitialisation(self, now: float) -> None:
        plan = self.reinitialisation
        is_short = self._fixed_level is not None and len(self._parents) < self._settings.parents
        plan.consider(is_short and self.search.needs_higher_level, now)
        children = [each.connection for each in self._children]
        if plan.take_due(children, now):
            for connection in children:
                connection.send_control(Reinitialise())
        if plan.take_permitted(now):
            self._drop_children(now)
