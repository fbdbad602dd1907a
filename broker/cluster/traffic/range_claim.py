"""Claims of ranges: what the origin signs of each, and which ranges claim nothing.

A range claims that its destination needs no other event of its places. The hash of a claim covers
the range and the places of its events, by level:

    claim: SHA-256(range as in the frame, without its proof | H0)
    H0:    SHA-256(H1 | 0 | places of the events with rank 0), where rank 0 is the lowest level
    Hr:    SHA-256(H(r+1) | r | places of the events with rank r); H(r+1) without events of rank r
    H3:    16 zero bytes

All hashes have 16 bytes, places 12: epoch u32 and offset u64. A link that is not cleared for a rank
removes its events and all above, and sends the hash of their places instead. So the top levels can
be absent, but no single event, and nothing of the lowest level.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import starmap
from typing import Final, TypeAlias

from broker.cluster.traffic.frame_range import Range, RangeProof
from broker.errors import BadSignature
from broker.event.place import Mark
from broker.signatures.range_statement import (
    CLAIM_BYTES,
    MOST_CLAIMS,
    ClaimHash,
    RangeStatement,
)
from broker.wire.codec import pack

#: (count, indices of the ranges with these events)
_RecipientRun: TypeAlias = tuple[int, tuple[int, ...]]
#: (first index, count) of events
_Part: TypeAlias = tuple[int, int]

_PLACE: Final = struct.Struct(">IQ")
_TOP_RANK: Final = 3
_NO_EVENTS: Final = bytes(CLAIM_BYTES)
_PROOF_FIELD: Final = Range._fields.index("proof")


class RangeEvents:
    """Places and ranks of the events of some ranges, which have the same."""

    def __init__(self, marks: Sequence[Mark], ranks: Sequence[int]) -> None:
        self.marks = marks
        self._ranks = ranks
        self._hashes: dict[tuple[int, bytes, int], bytes] = {}

    @property
    def highest_rank(self) -> int:
        return max(self._ranks, default=0)

    def hash_levels(self, proof: RangeProof | None, *, down_to: int) -> bytes:
        """Return the hash of the levels from the removed ones down to a rank."""
        found, top = _NO_EVENTS, _TOP_RANK
        if proof is not None and proof.rank:
            found, top = proof.removed, proof.rank
        key = top, found, down_to
        if key not in self._hashes:
            self._hashes[key] = self._hash_levels(*key)
        return self._hashes[key]

    def _hash_levels(self, top: int, found: bytes, down_to: int) -> bytes:
        present = set(self._ranks)
        for rank in range(top - 1, down_to - 1, -1):
            if rank in present or not rank:
                ranked = zip(self._ranks, self.marks, strict=True)
                places = starmap(_PLACE.pack, [mark for each, mark in ranked if each == rank])
                found = _hash(b"".join((found, bytes((rank,)), *places)))
        return found


class FrameEvents:
    """Places and ranks of the events of each range of a frame."""

    def __init__(
        self, marks: Sequence[Mark], ranks: Sequence[int], runs: Sequence[_RecipientRun]
    ) -> None:
        self._marks = marks
        self._ranks = ranks
        self._parts: dict[int, list[_Part]] = {}
        self._found: dict[tuple[_Part, ...], RangeEvents] = {}
        start = 0
        for count, indices in runs:
            for index in set(indices):
                self._parts.setdefault(index, []).append((start, count))
            start += count

    def of_range(self, index: int) -> RangeEvents:
        """Ranges with the same events share one result."""
        parts = tuple(self._parts.get(index, ()))
        found = self._found.get(parts)
        if found is None:
            chosen = [each for start, count in parts for each in range(start, start + count)]
            found = self._found[parts] = RangeEvents(
                [self._marks[each] for each in chosen], [self._ranks[each] for each in chosen]
            )
        return found


def claims_nothing(span: Range, marks: Sequence[Mark]) -> bool:
    """Return True for a range with an event at each of its places: its events prove it.

    Offsets continue through epochs. An empty range claims the mark at its end.
    """
    if span.unavailable_upto is not None or span.dropped or not marks:
        return False
    first, last = span.after[1] + 1, span.upto[1]
    return (
        len(marks) == last - first + 1
        and marks[0] > span.after
        and marks[-1] == span.upto
        and [offset for _, offset in marks] == list(range(first, last + 1))
    )


def hash_claim(span: Range, events: RangeEvents) -> ClaimHash:
    """Raises `BadSignature` for events that the range's proof names as removed."""
    proof = span.proof
    if proof is not None and proof.rank and events.highest_rank >= proof.rank:
        raise BadSignature("a range has events that its proof names as removed")
    return _hash(pack(span[:_PROOF_FIELD]) + events.hash_levels(proof, down_to=0))


def without_levels(span: Range, events: RangeEvents, max_rank: int) -> Range:
    """Return the range for a link that is not cleared for events above `max_rank`."""
    if span.proof is None or events.highest_rank <= max_rank:
        return span
    removed = events.hash_levels(span.proof, down_to=max_rank + 1)
    return span._replace(proof=span.proof._replace(rank=max_rank + 1, removed=removed))


def number_claims(ranges: Sequence[Range], claiming: Sequence[int]) -> list[Range]:
    """Return the ranges with proofs for those whose claims a statement has, in their order."""
    proofs = {index: RangeProof(n // MOST_CLAIMS) for n, index in enumerate(claiming)}
    return [each._replace(proof=proofs.get(index)) for index, each in enumerate(ranges)]


def without_other_groups(
    statement: RangeStatement | None, ranges: Sequence[Range]
) -> tuple[RangeStatement | None, Sequence[Range]]:
    """Return the part of a statement that belongs to some of its ranges, and these ranges."""
    if statement is None:
        return None, ranges
    used = sorted({each.proof.group for each in ranges if each.proof is not None})
    if not used:
        return None, ranges
    groups = statement.groups
    if len(used) == len(groups) or used[-1] >= len(groups):
        return statement, ranges
    numbers = {group: number for number, group in enumerate(used)}
    chosen = statement._replace(groups=tuple([groups[each] for each in used]))
    return chosen, [_renumbered(each, numbers) for each in ranges]


def _renumbered(span: Range, numbers: Mapping[int, int]) -> Range:
    proof = span.proof
    return (
        span if proof is None else span._replace(proof=proof._replace(group=numbers[proof.group]))
    )


def _hash(data: bytes) -> bytes:
    return sha256(data).digest()[:CLAIM_BYTES]
