"""What an origin signs of a range holds for each part of its frame, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import attrs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.address import Address
from broker.cluster.range_check import FrameSource, check_ranges
from broker.cluster.traffic.frame import Frame, decode_frame
from broker.cluster.traffic.frame_merge import merge_frames
from broker.cluster.traffic.frame_range import Range, RangeProof
from broker.cluster.traffic.own_frames import OwnFrames, sign_ranges
from broker.cluster.traffic.range_claim import claims_nothing
from broker.errors import BadSignature, ProtocolError
from broker.event.origin import new_origin
from broker.event.place import Mark, NamedHistory
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.range_statement import CLAIM_BYTES, MOST_CLAIMS, RangeSigner
from broker.streams.dropped_count import QUEUE_FULL
from tests.cluster.traffic.frames import frame, node, unit

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
ORIGIN = new_origin(1_700_000_000_000, KEY.public.raw)
HISTORY = (1, 7, (0, 0))


def signed(
    ranges: Sequence[Range],
    events: Sequence[tuple[Mark, bytes, int]] = (),
    runs: Sequence[tuple[int, tuple[int, ...]]] = (),
    key: SigningKey = KEY,
) -> Frame:
    found = frame(ranges, events, runs, origin=ORIGIN)
    found.history = HISTORY
    sign_ranges(found, RangeSigner(key))
    return decode_frame(found.encode())


def is_accepted(
    part: Frame,
    own: Address,
    *,
    is_inside: bool = False,
    is_origin_inside: bool = False,
    may_lose_statements: bool = False,
) -> bool:
    source = FrameSource(own, is_inside, is_origin_inside, may_lose_statements)
    try:
        check_ranges(part, source)
    except BadSignature:
        return False
    return True


def far(number: int) -> Range:
    """Return a range for a unit, with a place without an event."""
    return Range(unit(f"u{number}"), (1, 0), (1, 9))


EVENTS = [((1, 2), b"low", 0), ((1, 3), b"med", 1), ((1, 5), b"high", 2), ((1, 7), b"low", 0)]


@given(st.data())
def test_each_part_of_a_frame_is_accepted_at_its_destination(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 2, 5, MOST_CLAIMS, MOST_CLAIMS + 1, 3 * MOST_CLAIMS]))
    recipients = st.lists(st.sampled_from(range(count)), min_size=1, max_size=5, unique=True)
    runs = [(1, tuple(sorted(data.draw(recipients)))) for _ in EVENTS]
    part = signed([far(number) for number in range(count)], EVENTS, runs)
    for _ in range(data.draw(st.integers(0, 3))):
        chosen = st.lists(st.sampled_from(range(len(part.ranges))), min_size=1, unique=True)
        caps = {index: data.draw(st.integers(0, 2)) for index in data.draw(chosen)}
        part = decode_frame(part.restricted_to(caps).encode())
    for span in part.ranges:
        own = Address(span.destination.unit, "n")
        assert is_accepted(part, own)
        if any(part.recipient_runs):
            other = part.with_only_events(range(part.event_count - 1))
            mine = part.event_indices_for(part.ranges.index(span))
            assert is_accepted(other, own) == (part.event_count - 1 not in mine)
    assert part.statement is not None and len(part.statement.groups) <= len(part.ranges)


FORGERIES: dict[str, Callable[[Range], Range]] = {
    "begins earlier": lambda span: span._replace(after=(1, 0)),
    "ends later": lambda span: span._replace(upto=(1, 10)),
    "events removed by retention": lambda span: span._replace(unavailable_upto=(1, 9)),
    "another page": lambda span: span._replace(has_more=True),
    "another start": lambda span: span._replace(first_after=(1, 0)),
    "has all events": lambda span: span._replace(is_unfiltered=True),
    "dropped events": lambda span: span._replace(unavailable_upto=(1, 9), dropped=QUEUE_FULL),
    "no proof": lambda span: span._replace(proof=None),
    "a group that is not there": lambda span: span._replace(proof=proof_of(span, group=1)),
    "removed levels": lambda span: span._replace(
        proof=proof_of(span, rank=1, removed=b"x" * CLAIM_BYTES)
    ),
}


def proof_of(span: Range, **changes: Any) -> RangeProof:
    assert span.proof is not None
    return span.proof._replace(**changes)


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_changed_range_is_rejected(kind: str) -> None:
    own, other = Range(unit("b"), (1, 1), (1, 9)), far(2)
    made = signed([own, other], [((1, 2), b"x", 0)], [(1, (0, 1))])
    here = Address(("b",), "n")
    assert is_accepted(made, here)
    changed = attrs.evolve(made, ranges=[FORGERIES[kind](made.ranges[0]), made.ranges[1]])
    assert not is_accepted(changed, here)
    # The other one is not this node's.
    changed = attrs.evolve(made, ranges=[made.ranges[0], FORGERIES[kind](made.ranges[1])])
    assert is_accepted(changed, here)


def test_the_range_of_another_destination_or_flow_is_rejected() -> None:
    made = signed([Range(unit("b"), (1, 0), (1, 9)), Range(unit("c"), (1, 0), (1, 9))])
    renamed = [made.ranges[1]._replace(destination=unit("b"))]
    assert is_accepted(attrs.evolve(made, ranges=renamed), Address(("c",), "n"))
    same = attrs.evolve(made, ranges=[made.ranges[0]._replace(destination=unit("d"))])
    assert not is_accepted(same, Address(("d",), "n"))
    assert not is_accepted(attrs.evolve(made, origin=f"{ORIGIN}/x.>"), Address(("b",), "n"))


def test_another_key_can_not_sign_for_an_origin() -> None:
    assert not is_accepted(signed([far(1)], key=SigningKey.generate()), Address(("u1",), "n"))


def test_only_the_top_levels_can_be_absent() -> None:
    made = signed([far(1)], EVENTS, [(len(EVENTS), (0,))])
    own = Address(("u1",), "n")
    for cap, left in ((1, 3), (0, 2)):
        part = made.restricted_to({0: cap})
        assert part.event_count == left and is_accepted(part, own)
        assert not is_accepted(part.with_only_events([]), own)
    low = made.restricted_to({0: 0})
    # The hash of removed levels does not cover the lowest one.
    proof = low.ranges[0].proof
    assert proof is not None and proof.rank == 1
    for removed in ([0], [1], [0, 1]):
        rest = [each for each in range(2) if each not in removed]
        assert not is_accepted(low.with_only_events(rest), own)
    mixed = made.restricted_to({0: 1})
    proof = mixed.ranges[0].proof
    assert proof is not None and proof.rank == 2
    claimed = mixed.ranges[0]._replace(proof=proof._replace(rank=1))
    assert not is_accepted(attrs.evolve(mixed, ranges=[claimed]), own)


def test_a_range_with_all_its_places_needs_no_signature() -> None:
    near, low = Range(node("n1"), (1, 1), (1, 3)), [((1, 2), b"x", 0), ((1, 3), b"x", 0)]
    assert signed([near], low, [(2, (0,))]).statement is None
    high = [((1, 2), b"x", 1), ((1, 3), b"x", 0)]
    assert signed([near], high, [(2, (0,))]).statement is None
    elsewhere = near._replace(destination=unit("b"))
    assert signed([elsewhere], low, [(2, (0,))]).statement is None
    assert signed([elsewhere], high, [(2, (0,))]).statement is not None
    assert signed([near], low[1:], [(1, (0,))]).statement is not None


@pytest.mark.parametrize(
    ("span", "marks"),
    [
        (Range(node("n"), (1, 1), (1, 1)), []),
        (Range(node("n"), (1, 1), (9, 1)), []),
        (Range(node("n"), (1, 1), (1, 3)), [(1, 3)]),
        (Range(node("n"), (1, 1), (2, 3)), [(1, 2), (1, 3)]),
        (Range(node("n"), (5, 1), (9, 3)), [(1, 2), (1, 3)]),
        (Range(node("n"), (1, 1), (1, 2), unavailable_upto=(1, 1)), [(1, 2)]),
        (Range(node("n"), (1, 0), (1, 1 << 62)), [(1, 1)]),
    ],
)
def test_a_range_beyond_its_events_claims_something(span: Range, marks: list[Mark]) -> None:
    assert not claims_nothing(span, marks)


def test_a_range_over_a_restart_can_have_all_its_places() -> None:
    assert claims_nothing(Range(node("n"), (1, 1), (4, 3)), [(1, 2), (4, 3)])


def test_ranges_of_other_nodes_are_accepted_where_they_are_made() -> None:
    """`HOME`, the origin's node, is in the unit `a`."""
    to_node = frame([Range(node("n", "b"), (1, 1), (1, 9))], origin=ORIGIN)
    own = node("n", "b")
    # A node where the events entered the cluster, or with a replica.
    assert is_accepted(to_node, own, is_inside=True)
    assert not is_accepted(to_node, own, is_inside=True, is_origin_inside=True)
    assert not is_accepted(to_node, own)
    assert is_accepted(to_node, own, may_lose_statements=True)
    # Another cluster of the unit around.
    inner = frame([Range(unit("z", "b"), (1, 1), (1, 9))], origin=ORIGIN)
    assert is_accepted(inner, Address(("z", "b"), "n"))
    inner.origin_node = Address(("z", "a"), "n0")
    assert not is_accepted(inner, Address(("z", "b"), "n"))
    outer = frame([Range(unit("z"), (1, 1), (1, 9))], origin=ORIGIN)
    assert not is_accepted(outer, Address(("z", "b"), "n"))


def test_an_unsigned_log_has_no_statements() -> None:
    assert is_accepted(frame([far(1)]), Address(("u1",), "n"))


def test_merged_frames_have_the_statement_of_one() -> None:
    made = signed([far(1), far(2)], EVENTS, [(4, (0, 1))]).restricted_to({0: 1})
    inside = frame([Range(node("n1"), (1, 0), (1, 9))], EVENTS, [(4, (0,))], origin=ORIGIN)
    inside.history = HISTORY
    for one, other in ((made, inside), (inside, made)):
        merged = merge_frames(one, other)
        assert merged is not None
        received = decode_frame(merged.encode())
        assert is_accepted(received, Address(("u1",), "n"))
    assert merge_frames(made, made) is None


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_links_of_earlier_versions_get_no_statements(version: int) -> None:
    made = signed([far(1)], EVENTS, [(4, (0,))])
    old = decode_frame(made.encode(version))
    assert old.statement is None and old.ranges[0].proof is None
    assert not is_accepted(old, Address(("u1",), "n"))
    assert is_accepted(old, Address(("u1",), "n"), may_lose_statements=True)


def test_removed_levels_without_their_hash_are_malformed() -> None:
    made = signed([far(1)])
    wrong: list[dict[str, Any]] = [{"rank": 1}, {"removed": b"x"}, {"rank": 1, "removed": b"x"}]
    for changes in wrong:
        changed = made.ranges[0]._replace(proof=proof_of(made.ranges[0], **changes))
        with pytest.raises(ProtocolError):
            decode_frame(attrs.evolve(made, ranges=[changed]).encode())


@attrs.frozen
class Log:
    signing_key: SigningKey | None = KEY
    origin: str = ORIGIN
    current_history: NamedHistory = HISTORY


@attrs.frozen
class Link:
    version: int
    up: bool = True


@pytest.mark.parametrize(
    ("log", "links", "is_signed"),
    [
        (Log(), [Link(3), Link(5)], True),
        (Log(), [], False),
        (Log(), [Link(3), Link(5, up=False)], False),
        (Log(signing_key=None), [Link(5)], False),
        (Log(signing_key=SigningKey.generate()), [Link(5)], False),
    ],
)
def test_a_node_signs_ranges_of_its_own_log_for_links_that_carry_them(
    log: Log, links: list[Link], is_signed: bool
) -> None:
    made = frame([far(1)], origin=ORIGIN)
    OwnFrames(log, links).complete(made)
    assert made.history == HISTORY and (made.statement is not None) == is_signed


def test_statements_have_the_same_bytes() -> None:
    """A change of hashes or bytes needs another version of the node protocol."""
    made = signed([far(1), far(2)], EVENTS, [(1, (0,)), (2, (0, 1)), (1, (1,))])
    part = made.restricted_to({0: 1, 1: 0}).encode()
    assert (
        sha256(part).hexdigest()
        == "b95c9dcc90918fddd1b235c303b17e447a1e8c18cd8f01d872ceff93f5eb2b72"
    )
    assert decode_frame(part).encode() == part
