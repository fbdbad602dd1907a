"""Limits on incoming handshakes, and leases for admitted nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs

from broker.cluster.address import Address
from broker.cluster.admission import AdmissionContext, AdmissionRules, find_refusal, is_same_node
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_core import Admission, Refusal
from broker.cluster.handshake_messages import MEMBER, NodeHello
from broker.errors import Overloaded

MOST_HANDSHAKES = 16
#: Of one host, at an address for links of transports: their peers are rarely on one host.
MOST_HANDSHAKES_PER_HOST = 8
#: Average per second, and the largest burst.
HANDSHAKES_PER_SECOND = 20.0
HANDSHAKE_BURST = 64
#: Seconds; the first table of an admitted node takes a round trip.
LEASE = 30.0


@attrs.frozen
class _Lease:
    node: NodeDescriptor
    ends: float


class Acceptor:
    """Admission decisions, with limits on incoming handshakes (T44).

    An admitted node appears on the map only when its table arrives; until then a lease reserves its
    place. So two simultaneous handshakes get different places, and a reconnecting node gets its own
    again (T43).
    """

    def __init__(
        self,
        rules: AdmissionRules,
        context: Callable[[], AdmissionContext],
        most_per_host: int = MOST_HANDSHAKES,
    ) -> None:
        """`most_per_host` bounds the handshakes of one host at a time."""
        self._rules = rules
        self._context = context
        self._most_per_host = most_per_host
        self._under_way: Counter[str] = Counter()
        """By host."""
        self._allowance = float(HANDSHAKE_BURST)
        self._counted_at: float | None = None
        self._leases: dict[str, _Lease] = {}

    def start_handshake(self, now: float, host: str) -> Overloaded | None:
        """Close the connection on an error; else call `end_handshake` at the end."""
        if self._counted_at is not None:
            earned = (now - self._counted_at) * HANDSHAKES_PER_SECOND
            self._allowance = min(HANDSHAKE_BURST, self._allowance + earned)
        self._counted_at = now
        hosts = self._under_way
        is_full = hosts.total() >= MOST_HANDSHAKES or hosts[host] >= self._most_per_host
        if is_full or self._allowance < 1:
            return Overloaded("too many nodes connect at once: try again later")
        self._allowance -= 1
        self._under_way[host] += 1
        return None

    def end_handshake(self, host: str) -> None:
        self._under_way -= Counter((host,))

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
