"""How large a document may be."""

from __future__ import annotations

import attrs

#: libxml2's own, without `huge_tree`.
LIBXML2_MAX_DEPTH = 256
#: Levels of elements that few documents exceed.
SHALLOW_DEPTH = 16


def _within_libxml2(_instance: object, _attribute: object, value: int) -> None:
    if not 1 <= value <= LIBXML2_MAX_DEPTH:
        raise ValueError(f"max_depth must be 1 to {LIBXML2_MAX_DEPTH}, libxml2's own limit")


@attrs.frozen
class DocumentLimits:
    """The node's limits for one event; what exceeds them is refused with `TooLarge`.

    `max_bytes` is looked at before anything else; `max_depth` counts elements inside each other,
    the envelope included; `max_attributes` counts those of one element.
    """

    max_bytes: int = 1024 * 1024
    max_depth: int = attrs.field(default=LIBXML2_MAX_DEPTH, validator=_within_libxml2)
    max_attributes: int = 256
