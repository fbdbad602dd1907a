"""Tickets with the signature of a node."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from broker.errors import AuthenticationFailed
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from broker.streams.ticket import (
    Issuer,
    Ticket,
    TicketPolicy,
    encode_ticket,
    read_ticket,
    sign_ticket,
)

SECRET = b"s" * 32
KEY, OTHER = SigningKey.generate(), SigningKey.generate()
ORIGIN = new_origin(1_700_000_000_000, KEY.public.raw)
PLAIN = Ticket("radar-mesh", "desk", ("radar.>",), 1, 10_000)
SIGNED = sign_ticket(PLAIN, ORIGIN, KEY)
ACCEPTS, STRICT = TicketPolicy(), TicketPolicy(must_sign=True)


class EarlierTicket(msgspec.Struct, array_like=True, frozen=True):
    """As decoded by nodes before signatures."""

    stack: str
    client_id: str
    patterns: tuple[str, ...]
    clearance: int
    expires: int


def with_issuer(**changed: object) -> Ticket:
    assert SIGNED.issuer is not None
    return replace(SIGNED, issuer=replace(SIGNED.issuer, **changed))


def test_a_signed_ticket_is_accepted_after_the_wire() -> None:
    found = read_ticket(encode_ticket(SIGNED, SECRET), SECRET)
    assert found == SIGNED and found.issuer is not None
    assert (found.issuer.origin, found.issuer.key) == (ORIGIN, KEY.public.raw)
    assert STRICT.find_refusal(found) == ""


def test_nodes_of_earlier_versions_read_signed_tickets_and_theirs_are_not_signed() -> None:
    data = encode_ticket(SIGNED, SECRET)
    earlier = msgspec.msgpack.decode(data[:-32], type=EarlierTicket)
    assert msgspec.structs.astuple(earlier) == msgspec.structs.astuple(PLAIN)[:5]
    contents = msgspec.msgpack.encode(earlier)
    tag = encode_ticket(msgspec.msgpack.decode(contents), SECRET)[-32:]
    found = read_ticket(contents + tag, SECRET)
    assert found == PLAIN
    assert (ACCEPTS.find_refusal(found), STRICT.find_refusal(found)) == ("", "ticket not signed")


@pytest.mark.parametrize(
    "ticket",
    [
        replace(SIGNED, stack="boats-mesh"),
        replace(SIGNED, client_id="other"),
        replace(SIGNED, patterns=(">",)),
        replace(SIGNED, clearance=2),
        replace(SIGNED, expires=20_000),
        with_issuer(signature=bytes(64)),
        with_issuer(key=OTHER.public.raw),
        with_issuer(key=b"\xff" * 32),
        with_issuer(origin=new_origin(1_700_000_001_000, KEY.public.raw)),
        # The key of another node signs for this log.
        replace(
            PLAIN,
            issuer=Issuer(
                ORIGIN,
                OTHER.public.raw,
                OTHER.sign(
                    b"xmlbroker mesh ticket 1\0"
                    + ORIGIN.encode()
                    + b"\0"
                    + msgspec.msgpack.encode(PLAIN)
                ),
            ),
        ),
    ],
)
def test_a_changed_ticket_or_another_key_is_forged(ticket: Ticket) -> None:
    assert ACCEPTS.find_refusal(ticket) == "ticket forged"


def test_tickets_of_a_revoked_log_are_refused() -> None:
    assert TicketPolicy(revoked=[ORIGIN]).find_refusal(SIGNED) == "ticket of a revoked log"
    assert TicketPolicy(revoked=[ORIGIN]).find_refusal(PLAIN) == ""


def test_a_node_whose_log_is_not_signed_issues_tickets_without_a_signature() -> None:
    assert sign_ticket(PLAIN, "0123456789abcdef", KEY) == PLAIN
    assert sign_ticket(PLAIN, ORIGIN, OTHER) == PLAIN


def test_a_tag_of_another_network_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="wrong tag"):
        read_ticket(encode_ticket(SIGNED, SECRET), b"other")


def test_the_signed_bytes_are_as_documented() -> None:
    assert SIGNED.issuer is not None
    statement = b"xmlbroker mesh ticket 1\0" + ORIGIN.encode() + b"\0"
    fields = ["radar-mesh", "desk", ["radar.>"], 1, 10_000, None]
    statement += msgspec.msgpack.encode(fields)
    assert KEY.public.has_signed(SIGNED.issuer.signature, statement)
