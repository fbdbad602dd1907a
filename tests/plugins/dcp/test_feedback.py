"""Bodies of acknowledgements, keep-alives and NACKs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from plugins.dcp.feedback import MOST_ENDS, decode_ends, decode_nack, encode_ends, encode_nack
from plugins.dcp.parts import MOST_MISSING, MissingParts
from plugins.dcp.receiver import MOST_LISTED, Nack

ans = st.integers(0, 2**64 - 1)
spans = st.tuples(ans, ans)
ends_lists = st.lists(st.tuples(st.integers(0, 0xFFFF), ans), max_size=MOST_ENDS)
nacks = st.builds(Nack, ans, st.lists(spans, max_size=MOST_LISTED))
missing_parts = st.builds(
    MissingParts, ans, ans, st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=MOST_MISSING)
)


def test_the_bytes_of_places() -> None:
    body = encode_ends([(1, 0x0203), (0xA0B0, 2**63)])
    assert body == bytes.fromhex("0001 0000000000000203 a0b0 8000000000000000")


@given(ends_lists)
def test_places_round_trip(ends: list[tuple[int, int]]) -> None:
    assert decode_ends(encode_ends(ends)) == ends


@pytest.mark.parametrize("size", [1, 9, 11, 999])
def test_cut_places(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_ends(bytes(size))


def test_too_many_places() -> None:
    assert len(decode_ends(bytes(10 * MOST_ENDS))) == MOST_ENDS
    with pytest.raises(ProtocolError):
        decode_ends(bytes(10 * (MOST_ENDS + 1)))


def test_the_bytes_of_a_nack() -> None:
    body = encode_nack(Nack(5, [(7, 9)]), MissingParts(0x10, 0x20, [0, 0x0102]))
    assert body == bytes.fromhex(
        "01 0002"  # Counts of spans and parts.
        "0000000000000007 0000000000000009"  # A held span.
        "0000000000000010 0000000000000020 0000 0102"  # A range, and its missing parts.
    )
    assert encode_nack(Nack(5, []), None) == bytes(3)


@given(nacks, missing_parts | st.none())
def test_nacks_round_trip(nack: Nack, missing: MissingParts | None) -> None:
    assert decode_nack(nack.current, encode_nack(nack, missing)) == (nack, missing)


def test_missing_parts_without_numbers_are_not_sent() -> None:
    body = encode_nack(Nack(5, [(7, 9)]), MissingParts(10, 20, []))
    assert decode_nack(5, body) == (Nack(5, [(7, 9)]), None)


def test_too_many_held_ranges() -> None:
    def body_of(count: int) -> bytes:
        return struct.pack(">BH", count, 0) + bytes(16 * count)

    assert len(decode_nack(0, body_of(MOST_LISTED))[0].held) == MOST_LISTED
    with pytest.raises(ProtocolError):
        decode_nack(0, body_of(MOST_LISTED + 1))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_nack_without_counts(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_nack(0, bytes(size))


def test_a_nack_that_ends_within_a_number() -> None:
    body = encode_nack(Nack(5, [(7, 9), (11, 12)]), MissingParts(20, 30, [1, 2, 3]))
    # Within the counts, a held span, the range of the parts, and a part's number.
    for size in (2, 10, 20, 34, 36, 50, 52, 54, 56):
        with pytest.raises(ProtocolError):
            decode_nack(5, body[:size])


@given(nacks, missing_parts | st.none(), st.data())
def test_cut_nacks(nack: Nack, missing: MissingParts | None, drawn: st.DataObject) -> None:
    body = encode_nack(nack, missing)
    size = drawn.draw(st.integers(0, len(body) - 1))
    with pytest.raises(ProtocolError):
        decode_nack(nack.current, body[:size])


def test_a_nack_without_some_of_its_spans_or_parts() -> None:
    body = encode_nack(Nack(5, [(7, 9), (11, 12)]), None)
    whole_parts = encode_nack(Nack(5, []), MissingParts(20, 30, [1, 2, 3]))
    for cut in (body[:3], body[:19], whole_parts[:3], whole_parts[:19], whole_parts[:-2]):
        with pytest.raises(ProtocolError):
            decode_nack(5, cut)
    with pytest.raises(ProtocolError):
        decode_nack(5, whole_parts + b"\0\4")


@given(st.binary(max_size=120), st.integers(0, MOST_LISTED + 2), st.integers(0, 70))
def test_a_hostile_nack_is_bounded_or_a_protocol_error(
    rest: bytes, held_count: int, part_count: int
) -> None:
    try:
        nack, missing = decode_nack(9, struct.pack(">BH", held_count, part_count) + rest)
    except ProtocolError:
        return
    assert nack.current == 9
    assert len(nack.held) <= min(held_count, len(rest) // 16)
    assert (missing is None) == (part_count == 0)
    assert missing is None or len(missing.numbers) <= min(part_count, len(rest) // 2)


@given(st.binary(max_size=1_200))
def test_any_bytes_are_places_or_a_protocol_error(body: bytes) -> None:
    try:
        ends = decode_ends(body)
    except ProtocolError:
        assert len(body) % 10 or len(body) > 10 * MOST_ENDS
        return
    assert encode_ends(ends) == body


@given(st.binary(max_size=1_200))
def test_any_bytes_are_a_nack_or_a_protocol_error(body: bytes) -> None:
    try:
        nack, missing = decode_nack(0, body)
    except ProtocolError:
        return
    assert body[3:].startswith(encode_nack(nack, missing)[3:])
    assert len(nack.held) <= min(MOST_LISTED, body[0])
