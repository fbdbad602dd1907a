"""Signing of own events that are archived before another node gets them."""

from __future__ import annotations

import pyarrow as pa

from broker.archive.table import column_values, encode_records
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.leaf import PlacedEvent

_PROOF = "proof"


def sign_rows(rows: pa.RecordBatch, signer: BatchSigner) -> pa.RecordBatch:
    """Return rows of one origin with a proof in each. Raises ValueError for an invalid row."""
    found = rows.column(_PROOF)
    if not found.null_count:
        return rows
    unsigned = rows.filter(found.is_null()) if found.null_count < len(rows) else rows
    marks = zip(column_values(unsigned, "epoch"), column_values(unsigned, "offset"), strict=True)
    headers = encode_records(unsigned.drop_columns(["annotation", _PROOF]))
    documents = column_values(unsigned, "document")
    proofs = iter(signer.sign(list(map(PlacedEvent.of, marks, headers, documents))))
    column = [next(proofs) if each is None else each for each in found.to_pylist()]
    return rows.set_column(
        rows.schema.get_field_index(_PROOF),
        rows.schema.field(_PROOF),
        pa.array(column, pa.binary()),
    )
