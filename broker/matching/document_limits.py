"""Limits on the size of a document."""

from __future__ import annotations

import attrs

#: The limit of libxml2 without `huge_tree`.
LIBXML2_MAX_DEPTH = 256
#: Few documents have more levels of elements.
SHALLOW_DEPTH = 16


def _within_libxml2(_instance: object, _attribute: object, value: int) -> None:
    if not 1 <= value <= LIBXML2_MAX_DEPTH:
        raise ValueError(f"max_depth must be 1 to {LIBXML2_MAX_DEPTH}, libxml2's own limit")


@attrs.frozen
class DocumentLimits:
    """Limits for one event. Events beyond them are refused with `TooLarge`.

    `max_depth` includes the envelope's elements. `max_attributes` holds for one element.
    """

    max_bytes: int = 1024 * 1024
    max_depth: int = attrs.field(default=LIBXML2_MAX_DEPTH, validator=_within_libxml2)
    max_attributes: int = 256
