"""Limits on incoming handshakes, and leases for admitted nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs

from broker.cluster.address import Address
from broker.cluster.admission import AdmissionContext, AdmissionRules, find_refusal, is_same_node
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_core import Admission, Refusal
from broker.cluster.handshake_messages import MEMBER, NodeHello
from broker.limit_registry import Limit
from broker.transport.pending_connections import PendingConnections, address_group
from broker.transport.token_bucket import TokenBucket

MOST_HANDSHAKES = 64
#: Of one address: nodes of a cluster may be on one host.
MOST_HANDSHAKES_PER_HOST = 16
#: At an address for links of transports: their peers are rarely on one host.
MOST_LINK_HANDSHAKES_PER_HOST = 8
#: Of one address: average per second, and the largest burst.
HANDSHAKES_PER_SECOND = 20.0
HANDSHAKE_BURST = 64
#: Addresses whose rate is measured; the one that connected least recently leaves first.
MAX_MEASURED_ADDRESSES = 1024
#: Seconds; the first table of an admitted node takes a round trip.
LEASE = 30.0

#: A connection.
C = TypeVar("C", bound=Hashable)


@attrs.frozen
class _Lease:
    node: NodeDescriptor
    ends: float


class Acceptor(Generic[C]):
    """Admission decisions, with limits on incoming handshakes (T44).

    An admitted node appears on the map only when its table arrives; until then a lease reserves its
    place. So two simultaneous handshakes get different places, and a reconnecting node gets its own
    again (T43).
    """

    def __init__(
        self,
        rules: AdmissionRules,
        context: Callable[[], AdmissionContext],
        most_per_host: int = MOST_HANDSHAKES_PER_HOST,
    ) -> None:
        """`most_per_host` bounds the handshakes of one address at a time."""
        self._rules = rules
        self._context = context
        self._most_per_host = most_per_host
        self.pending: PendingConnections[C] = PendingConnections()
        self._rates: OrderedDict[str, TokenBucket] = OrderedDict()
        """By address."""
        self._leases: dict[str, _Lease] = {}
        self.dropped = 0
        """Handshakes refused or ended at a bound."""
        self.limit: Limit | None = None
        """Of all handshakes, for `status`."""

    @property
    def under_way(self) -> int:
        return len(self.pending)

    def start_handshake(self, connection: C, host: str, now: float) -> list[C]:
        """Return connections to close, perhaps this one; call `end_handshake` for the others.

        `PendingConnections` has the rules. An address beyond its rate is refused.
        """
        dropped = [connection]
        if self._take_token(address_group(host), now):
            dropped = self.pending.add(
                *(connection, host, now), most=MOST_HANDSHAKES, most_of_address=self._most_per_host
            )
        self.dropped += len(dropped)
        if dropped and self.limit is not None:
            self.limit.count_reached(len(dropped))
        return dropped

    def end_handshake(self, connection: C, accepted_host: str = "") -> None:
        """`accepted_host` is the address of an accepted node: it counts as known from now on."""
        self.pending.remove(connection)
        if accepted_host:
            self.pending.add_known_address(accepted_host)

    def _take_token(self, address: str, now: float) -> bool:
        bucket = self._rates.get(address)
        if bucket is None:
            bucket = self._rates[address] = TokenBucket(HANDSHAKES_PER_SECOND, HANDSHAKE_BURST, now)
        self._rates.move_to_end(address)
        if len(self._rates) > MAX_MEASURED_ADDRESSES:
            self._rates.popitem(last=False)
        if bucket.tokens_at(now) < 1:
            return False
        bucket.take(1, now)
        return True

    def decide_admission(
        self, hello: NodeHello, host: str, transport: str, now: float, wall_ms: int
    ) -> Admission | Refusal:
        """Accept or refuse a node; lease a place to a new member. `wall_ms`: ms since 1970."""
        context = self._context_with_leases(now)
        refusal = find_refusal(hello, host, transport, self._rules, context)
        if refusal:
            return refusal
        if hello.purpose != MEMBER:
            return Admission(hello.node)
        known = context.members.get(hello.node.name)
        again = known is not None and is_same_node(known, hello.node)
        peer = hello.node._replace(
            address=Address(context.own.address.unit, hello.node.name),
            admitted=known.admitted if known and again else self._admission_time(hello, wall_ms),
        )
        self._leases[peer.name] = _Lease(peer, now + LEASE)
        return Admission(peer, tuple(context.members.values()))

    def _admission_time(self, hello: NodeHello, wall_ms: int) -> int:
        # A returning member keeps its time of admission; a configured member has none (0).
        own_unit = self._context().own.address.unit
        return hello.node.admitted if hello.node.address.unit == own_unit else wall_ms

    def _context_with_leases(self, now: float) -> AdmissionContext:
        context = self._context()
        self._leases = {
            name: lease
            for name, lease in self._leases.items()
            if lease.ends > now and name not in context.members
        }
        leased = {name: lease.node for name, lease in self._leases.items()}
        return attrs.evolve(context, members={**context.members, **leased})
