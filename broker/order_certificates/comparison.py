"""Comparison of the order at two sites, by certificates and then by leaves."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

from broker.order_certificates.certificate import Certificate
from broker.order_certificates.leaf import Leaf


class Verdict(enum.Enum):
    """Result for one block at two sites."""

    EQUAL = "equal"
    #: One of the sites may not have all events of the block.
    MISSING = "missing"
    DIFFERENT = "different"


class Kind(enum.Enum):
    """Kind of a difference."""

    #: The event has other bytes there.
    CHANGED = "changed"
    #: Another event has its place there, or it has another place.
    SWAPPED = "swapped"
    #: It is not there.
    DROPPED = "dropped"
    #: It is not here.
    ADDED = "added"
    #: It has another place there too.
    DOUBLED = "doubled"


@attrs.frozen
class Difference:
    """The first event of a block, in its order, that differs between two sites."""

    kind: Kind
    leaf: Leaf
    """Its place here; there, if it is not here."""


def compare_certificates(own: Certificate, other: Certificate) -> Verdict:
    """Compare two certificates of the same block."""
    is_equal = (own.root, own.count) == (other.root, other.count)
    if is_equal and (own.previous == other.previous or None in (own.previous, other.previous)):
        return Verdict.EQUAL
    if own.has_missing or other.has_missing:
        return Verdict.MISSING
    return Verdict.DIFFERENT


def find_difference(own: Sequence[Leaf], other: Sequence[Leaf]) -> Difference | None:
    """Return the first difference of two sorted sequences of leaves; None for equal ones."""
    pairs = zip(own, other, strict=False)
    index = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
    if index is None:
        index = min(len(own), len(other))
        if len(own) == len(other):
            return None
    ours = own[index] if index < len(own) else None
    theirs = other[index] if index < len(other) else None
    if ours is not None and theirs is not None and ours.key == theirs.key:
        is_changed = ours.event_id == theirs.event_id
        return Difference(Kind.CHANGED if is_changed else Kind.SWAPPED, ours)
    if theirs is None or (ours is not None and ours.key < theirs.key):
        assert ours is not None
        is_there = any(each.event_id == ours.event_id for each in other)
        if not is_there:
            return Difference(Kind.DROPPED, ours)
        # It has two places here, or other ones at both sites.
        count = sum(each.event_id == ours.event_id for each in own)
        return Difference(Kind.DOUBLED if count > 1 else Kind.SWAPPED, ours)
    places = [each for each in own if each.event_id == theirs.event_id]
    if not places:
        return Difference(Kind.ADDED, theirs)
    is_doubled = any(each.key == places[0].key for each in other)
    return Difference(Kind.DOUBLED if is_doubled else Kind.SWAPPED, places[0])
