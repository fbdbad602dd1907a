"""How much may be learnt, and when learning does not pay."""

from __future__ import annotations

import attrs

#: libxml2 refuses longer texts and values; a document of this size can not hold one.
_LIBXML2_MAX_TEXT = 10_000_000


@attrs.frozen
class ShapeBounds:
    """What a document, a type and the whole cache may take. What exceeds them is parsed."""

    max_document_bytes: int = attrs.field(
        default=256 * 1024, validator=attrs.validators.in_(range(_LIBXML2_MAX_TEXT))
    )
    #: A longer document is neither learnt nor recognised.

    max_slots: int = 2048
    #: Of one shape. Compiling its expression takes about 30 microseconds for each slot.

    max_constant_bytes: int = 64 * 1024
    #: Of one shape.

    max_shapes: int = 1024
    max_shapes_of_type: int = 512
    max_bytes: int = 64 * 1024 * 1024
    #: Memory of all shapes, about: expressions, and 320 bytes a node. At either of these three
    #: bounds the shape that was met least recently is forgotten.

    max_types: int = 256
    #: Types with a record of their own; at the bound the oldest goes, with its shapes.

    max_signatures: int = 4096
    #: Signatures of documents met once, for each type; at the bound all are dropped.

    max_variants: int = 8
    #: Of one skeleton, before attributes that vary become slots.

    window: int = 512
    #: After so many documents of a type that were not recognised, it is looked at whether its
    #: shapes recur.

    min_hit_rate: float = 0.1
    #: Share of recognised documents below which a type is suspended.

    pause: int = 1024
    max_pause: int = 65_536
    #: Documents for which a type is suspended: doubled each time in a row, up to the second.

    hits_per_miss: int = 16
    #: Documents recognised for each that was not, from which on a type learns at first sight.

    credit: int = 128
    hits_per_credit: int = 64
    #: A type may learn `credit` shapes, and one more for each `hits_per_credit` hits: what a shape
    #: costs to learn, about so many recognitions save. A type that was suspended starts again with
    #: a quarter of the credit.
