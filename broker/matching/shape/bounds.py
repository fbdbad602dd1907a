"""Bounds on learning shapes, and the conditions under which it pauses."""

from __future__ import annotations

import attrs

#: libxml2 refuses longer texts and values. No document within the bounds can contain one.
_LIBXML2_MAX_TEXT = 10_000_000


@attrs.frozen
class ShapeBounds:
    """Bounds of a document, a type and the whole cache. Documents beyond them are parsed."""

    max_document_bytes: int = attrs.field(
        default=256 * 1024, validator=attrs.validators.in_(range(_LIBXML2_MAX_TEXT))
    )
    """Longer documents are neither learnt nor recognised."""

    max_slots: int = 2048
    """Per shape. Compiling takes about 30 microseconds for each slot."""

    max_slots_compiled: int = 128
    """Slots whose expression one document compiles. The next documents of the shape compile the
    rest, and are parsed until then."""

    max_tags: int = 2500
    """Tags of a document. Cutting takes about 4 microseconds for each."""

    max_constant_bytes: int = 64 * 1024
    """Per shape."""

    max_shapes: int = 1024
    max_shapes_of_type: int = 512
    max_bytes: int = 64 * 1024 * 1024
    """Approximate memory of all shapes. Beyond any of these three bounds the least recently used
    shape is dropped."""

    max_types: int = 256
    """Beyond it the oldest type is dropped with its shapes."""

    max_signatures: int = 4096
    """Per type: documents seen once. Beyond it all are dropped."""

    max_variants: int = 8
    """Per skeleton. Beyond it varying attributes become slots."""

    window: int = 512
    """Unrecognised documents of a type between two checks of its hit rate."""

    min_hit_rate: float = 0.1
    """Share of recognised documents below which a type is suspended."""

    pause: int = 1024
    max_pause: int = 65_536
    """Documents for which a type is suspended. The number doubles each time in a row."""

    hits_per_miss: int = 16
    """With so many recognised documents for each other one, it learns at first sight."""

    credit: int = 128
    hits_per_credit: int = 64
    """A type may learn `credit` shapes, and one more for each `hits_per_credit` hits. A suspended
    type starts again with a quarter of the credit."""
