"""Versions of the node protocol that changed frames and records."""

from __future__ import annotations

from typing import Final

from broker.event.record import ALL_FIELDS, ANNOTATED_FIELDS, RECORD_FIELDS

#: Links of a lower version get no frames of other flows than the default ones, and no annotations.
FLOW_VERSION: Final = 3
#: Links of a lower version get no proofs, and no statements of ranges. Version 4 had proofs of
#: another form, and is not spoken.
PROOF_VERSION: Final = 5
#: Links of a lower version get no signatures of pages in recovery.
SIGNED_PAGE_VERSION: Final = 6
#: Links of a lower version get no compressed records before plain documents.
PACKED_RECORDS_VERSION: Final = 6
#: Nodes of a lower version are refused as clones without a proof.
CLONE_PROOF_VERSION: Final = 6


def record_fields(version: int) -> int:
    """Return the most elements of a record on links of a version of the node protocol."""
    if version >= PROOF_VERSION:
        return ALL_FIELDS
    return ANNOTATED_FIELDS if version >= FLOW_VERSION else RECORD_FIELDS
