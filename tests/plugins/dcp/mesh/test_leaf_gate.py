"""Clients of a mesh show tickets."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from broker.streams.ticket import (
    LEEWAY_SECONDS,
    ClientTicket,
    Ticket,
    TicketPolicy,
    encode_ticket,
    sign_ticket,
)
from plugins.dcp.connection import Connection
from plugins.dcp.control import (
    ControlMessage,
    Interest,
    Join,
    Leaving,
    Offer,
    TicketRenewal,
)
from plugins.dcp.leaf_peer import LeafPeer
from plugins.dcp.mesh.leaf_gate import JOIN_SECONDS, LeafGate, TicketRules
from plugins.dcp.mesh.leaf_proof import is_parent_proven
from tests.plugins.dcp.recording_connection import RecordingConnection

KEY, WALL = b"k" * 32, 1_000_000
ANY_ISSUER = TicketPolicy()
TICKET = Ticket("radar-mesh", "desk", ("radar.>",), 1, WALL + 10_000)


class Endpoint:
    def __init__(self) -> None:
        self.closed: list[tuple[object, str]] = []

    def close(self, connection: object, reason: str, now: float) -> None:
        self.closed.append((connection, reason))


class Router:
    """A gate for two clients, at the time 0."""

    def __init__(self, policy: TicketPolicy = ANY_ISSUER) -> None:
        self.endpoint = Endpoint()
        self.wall = WALL
        rules = TicketRules("radar-mesh", KEY, policy)
        self.gate = LeafGate(rules, 2, cast(Any, self.endpoint), lambda: self.wall)

    def connect(self, number: int = 1) -> RecordingConnection:
        peer = LeafPeer(("127.0.0.1", number))
        connection = RecordingConnection(peer, number, is_dialled=False)
        self.gate.connected(connection, 0.0)
        return connection

    def check(
        self, connection: RecordingConnection, message: ControlMessage, now: float = 0.0
    ) -> ControlMessage | None:
        return self.gate.check(connection, message, now)

    def join(self, number: int = 1, ticket: bytes = b"") -> RecordingConnection:
        connection = self.connect(number)
        self.check(connection, join_with(ticket or signed(), connection))
        return connection

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.endpoint.closed]


def signed(ticket: Ticket = TICKET, key: bytes = KEY, **changed: Any) -> bytes:
    fields = {name: getattr(ticket, name) for name in ticket.__struct_fields__}
    return encode_ticket(Ticket(**{**fields, **changed}), key)


def join_with(ticket: bytes, connection: Connection, key: bytes = KEY, level: int = 0) -> Join:
    proof = ClientTicket.derive(ticket, key).prove_client(connection.binding)
    return Join("desk#1", level, 2, ticket, proof=proof)


def renew_with(ticket: bytes, connection: Connection) -> TicketRenewal:
    proof = ClientTicket.derive(ticket, KEY).prove_client(connection.binding)
    return TicketRenewal(ticket, proof)


@pytest.mark.parametrize(("of_ticket", "rank"), [(0, 0), (1, 1), (2, 1)])
def test_a_join_counts_with_the_clearance_of_the_ticket_and_no_level(
    of_ticket: int, rank: int
) -> None:
    router = Router()
    connection, ticket = router.connect(), signed(clearance=of_ticket)
    proof = ClientTicket.derive(ticket, KEY).prove_parent(connection.binding)
    join = join_with(ticket, connection, level=7)
    # Links to clients are not encrypted: they never carry `high`.
    assert router.check(connection, join) == Join("desk#1", 0, rank, proof=proof)
    assert router.gate.leaves == 1 and router.reasons == []


def test_a_ticket_seen_on_the_wire_is_of_no_use_on_another_connection() -> None:
    router = Router()
    seen = join_with(signed(), router.connect())
    for join in (
        seen,
        Join("desk#1", 0, 2, signed()),
        join_with(signed(), router.connect(2), key=b"a guess"),
    ):
        connection = router.connect(3)
        assert router.check(connection, join) is None
        joined, renewal = router.join(4), TicketRenewal(join.ticket, join.proof)
        assert router.check(joined, renewal) is None
        router.gate.remove(joined)
    assert router.gate.refusals == {"ticket not proven": 6}


def test_a_parent_without_the_key_of_the_network_is_not_proven() -> None:
    connection, other = (Router().connect(number) for number in (1, 2))
    ticket = ClientTicket.derive(signed(), KEY)
    proof = ticket.prove_parent(connection.binding)
    assert is_parent_proven(ticket, connection, Offer("p", 1, (), (), proof))
    for forged in (b"", ticket.prove_client(connection.binding), bytes(32)):
        assert not is_parent_proven(ticket, connection, Offer("p", 1, (), (), forged))
    assert not is_parent_proven(ticket, other, Offer("p", 1, (), (), proof))


def test_nodes_need_no_ticket() -> None:
    router = Router()
    node = RecordingConnection("n1", 1, is_dialled=False)
    router.gate.connected(node, 0.0)
    join = Join("n1", 3)
    assert router.check(node, join) is join
    assert router.gate.next_timeout() is None


@pytest.mark.parametrize(
    ("ticket", "reason"),
    [
        (b"", "ticket missing"),
        (b"x", "ticket forged"),
        (signed(key=b"other"), "ticket forged"),
        (signed()[:-1] + b"?", "ticket forged"),
        (encode_ticket(cast(Any, ["radar-mesh"]), KEY), "ticket forged"),
        (signed(stack="boats-mesh"), "ticket of another mesh"),
        (signed(expires=WALL - int(1000 * LEEWAY_SECONDS)), "ticket expired"),
    ],
)
def test_a_bad_ticket_closes_the_connection_and_is_counted(ticket: bytes, reason: str) -> None:
    router = Router()
    connection = router.connect()
    assert router.check(connection, join_with(ticket, connection)) is None
    assert router.reasons == [reason] and router.gate.refusals == {reason: 1}
    assert router.gate.leaves == 0


def test_clients_beyond_the_setting_are_refused() -> None:
    router = Router()
    first, *_ = [router.join(number) for number in (1, 2, 3)]
    assert router.reasons == ["capacity"]
    router.gate.remove(first)
    router.join(4)
    assert router.reasons == ["capacity"]


def test_interest_beyond_the_ticket_is_refused() -> None:
    router = Router()
    connection = router.join()
    allowed = Interest(1, (("radar.zbw", "true()", ()), ("radar.>", "true()", ())))
    assert router.check(connection, allowed) is allowed
    for pattern in (">", "boats.zbw", "*.zbw", ""):
        assert router.check(connection, Interest(2, ((pattern, "true()", ()),))) is None
    assert router.gate.refusals == {"pattern": 4}
    stranger = router.connect(2)
    assert router.check(stranger, allowed) is None


def test_a_renewed_ticket_counts_from_then_on() -> None:
    router = Router()
    connection = router.join()
    router.wall += 5_000
    renewal = renew_with(signed(expires=WALL + 60_000), connection)
    assert router.check(connection, renewal, 5.0) is None
    router.gate.handle_timeout(10.0 + LEEWAY_SECONDS)
    assert router.reasons == [] and router.gate.next_timeout() == 60.0 + LEEWAY_SECONDS
    router.gate.handle_timeout(60.0 + LEEWAY_SECONDS)
    assert router.reasons == ["ticket expired"]


def test_a_renewed_ticket_may_be_of_another_node() -> None:
    router = Router()
    connection = router.join()
    for key in (SigningKey.generate(), SigningKey.generate()):
        origin = new_origin(WALL, key.public.raw)
        renewal = renew_with(encode_ticket(sign_ticket(TICKET, origin, key), KEY), connection)
        assert router.check(connection, renewal) is None
    assert router.reasons == []


def test_a_renewal_by_a_node_with_a_lower_clearance_is_refused() -> None:
    keys = [SigningKey.generate() for _ in range(3)]
    origins = [new_origin(WALL, key.public.raw) for key in keys]
    router = Router(TicketPolicy(clearance_of=lambda origin: int(origin != origins[2])))
    connection = router.join()
    for origin, key in zip(origins, keys, strict=True):
        assert router.reasons == []
        renewal = renew_with(encode_ticket(sign_ticket(TICKET, origin, key), KEY), connection)
        assert router.check(connection, renewal) is None
    assert router.reasons == ["another ticket"]


@pytest.mark.parametrize(
    ("ticket", "reason"),
    [
        (b"", "ticket missing"),
        (signed(client_id="other"), "another ticket"),
        (signed(clearance=2), "another ticket"),
        (signed(patterns=(">",)), "another ticket"),
        (signed(key=b""), "ticket forged"),
    ],
)
def test_a_renewal_with_other_rights_is_refused(ticket: bytes, reason: str) -> None:
    router = Router()
    connection = router.join()
    assert router.check(connection, renew_with(ticket, connection)) is None
    assert router.reasons == [reason]


def test_a_stranger_without_a_join_is_closed() -> None:
    router = Router()
    router.connect(1)
    router.join(2)
    message = Leaving()
    assert router.check(router.connect(3), message) is message
    router.gate.handle_timeout(JOIN_SECONDS)
    assert router.reasons == ["no ticket", "no ticket"]
    assert router.gate.refusals == {"no ticket": 2}
