"""Ranges of a frame, and the events that queue policies dropped from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from broker.cluster.address import Address, UnitPath
from broker.cluster.traffic.version import FLOW_VERSION, PROOF_VERSION
from broker.event.place import Mark
from broker.signatures.range_statement import CLAIM_BYTES, MOST_GROUPS
from broker.streams.dropped_count import DroppedCount
from broker.wire.codec import Count, Rank, WireMark

#: Security levels, each with events that newer ones replaced and others.
_MOST_DROPPED = 6


class RangeProof(NamedTuple):
    """Part of a range in the statement of its frame."""

    group: Annotated[int, msgspec.Meta(ge=0, lt=MOST_GROUPS)]
    """Of the statement's claims, from 0."""
    rank: Rank = 0
    """Links that are not cleared have removed events from this rank on; 0: none."""
    removed: Annotated[bytes, msgspec.Meta(max_length=CLAIM_BYTES)] = b""
    """Hash of the places of the removed events."""


class Range(NamedTuple):
    """The places (after, upto] of an origin, with all matching events for one destination."""

    destination: Address
    """With an empty node name all nodes of a unit."""
    after: Mark
    upto: Mark
    unavailable_upto: Mark | None = None
    """Events up to there are in no log any more and not in the frame."""
    has_more: bool = False
    """In a page: the reader can request the next one."""
    first_after: Mark | None = None
    """A node without events of this origin starts here; None: at `after`."""
    is_unfiltered: bool = False
    """The frame also has events outside the destination's interest."""
    dropped: tuple[DroppedCount, ...] = ()
    """A queue policy dropped the unavailable events; or `QUEUE_FULL`."""
    proof: RangeProof | None = None
    """None: the origin has not signed this range."""

    @property
    def is_announcement(self) -> bool:
        """True if it only shows how far a log goes, such as that of a replica."""
        return self.after == self.upto and self.unavailable_upto is None and not self.dropped

    def can_follow(self, position: Mark) -> bool:
        """Return whether a node at a position misses no event before this range."""
        is_lost = self.unavailable_upto is not None and not self.dropped
        return self.after <= position or is_lost


class WireRange(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A range as its frame has it."""

    destination: tuple[UnitPath, Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{0,64}\Z")]]
    """The name may be empty."""
    after: WireMark
    upto: WireMark
    unavailable_upto: WireMark | None
    has_more: bool
    first_after: WireMark | None
    is_unfiltered: bool
    dropped: Annotated[
        tuple[tuple[Rank, Count, bool], ...], msgspec.Meta(max_length=_MOST_DROPPED)
    ] = ()
    """Since version 3."""
    proof: RangeProof | None = None
    """Since version 5."""


def read_range(fields: WireRange) -> Range:
    """Raises `ValueError`."""
    span = Range(
        Address(*fields.destination),
        fields.after,
        fields.upto,
        fields.unavailable_upto,
        fields.has_more,
        fields.first_after,
        fields.is_unfiltered,
        tuple([DroppedCount(*each) for each in fields.dropped]),
        fields.proof,
    )
    if span.upto < span.after or (span.first_after or span.after) > span.after:
        raise ValueError("range ends before it begins")
    if span.unavailable_upto is not None and span.unavailable_upto > span.upto:
        raise ValueError("unavailable places exceed the range")
    if span.proof is not None and len(span.proof.removed) != CLAIM_BYTES * bool(span.proof.rank):
        raise ValueError("removed events without their hash")
    if span.unavailable_upto is None and any(each.events for each in span.dropped):
        raise ValueError("dropped events without their places")
    return span


def wire_ranges(ranges: Sequence[Range], version: int) -> list[tuple[object, ...]]:
    """Return the ranges for a header of a version, without trailing fields that are not needed."""
    return [each[: _field_count(each, version)] for each in ranges]


def _field_count(span: Range, version: int) -> int:
    if version >= PROOF_VERSION and span.proof is not None:
        return len(span)
    return len(span) - (1 if version >= FLOW_VERSION and span.dropped else 2)
