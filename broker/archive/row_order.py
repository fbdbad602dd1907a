"""Sorting rows by place.

An event whose message has moved in the order of its group is archived again. Of the rows of one
place the one with the lowest stamp counts, as in the order itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from broker.archive.table import has_values


def sort_and_deduplicate(rows: pa.Table) -> pa.Table:
    """Sort rows by origin, epoch and offset; keep the one of each place with the lowest stamp."""
    rows = rows.unify_dictionaries()
    order, repeated, sorted_already = _sort_order(rows)
    if sorted_already and not repeated.any():
        return rows
    return rows.take(order[~repeated])


def is_strictly_ordered(rows: pa.Table) -> bool:
    _, repeated, sorted_already = _sort_order(rows)
    return sorted_already and not bool(repeated.any())


def sort_by_stamp(rows: pa.Table) -> pa.Table:
    """Sort rows by their stamps; those without one stay in their sequence, behind the others."""
    if not has_values(rows, "stack_order"):
        return rows
    return rows.take(np.lexsort(_stamp_keys(rows)[::-1]))


def _sort_order(rows: pa.Table) -> tuple[Any, Any, bool]:
    keys = _sort_keys(rows)
    stamps = _stamp_keys(rows) if has_values(rows, "stack_order") else ()
    order = np.lexsort((*keys, *stamps)[::-1])
    repeated = np.ones(len(order), bool)
    repeated[:1] = False
    for key in keys:
        ordered = key[order]
        repeated[1:] &= ordered[1:] == ordered[:-1]
    return order, repeated, bool((order[1:] > order[:-1]).all())


def _sort_keys(rows: pa.Table) -> tuple[Any, Any, Any]:
    return (
        rank_names(rows.column("origin")),
        rows.column("epoch").to_numpy(),
        rows.column("offset").to_numpy(),
    )


def _stamp_keys(rows: pa.Table) -> tuple[Any, Any, Any]:
    orders = rows.column("stack_order")
    sites = rows.column("stack_site") if "stack_site" in rows.schema.names else None
    return (
        orders.is_null().to_numpy(),
        orders.fill_null(0).to_numpy(),
        np.zeros(rows.num_rows) if sites is None else rank_names(sites),
    )


def rank_names(column: pa.ChunkedArray) -> Any:
    """Return the ranks of names; null is before all others."""
    names = column.combine_chunks()
    if not pa.types.is_dictionary(names.type):
        names = names.dictionary_encode()
    known = names.dictionary.to_pylist()
    ranks = np.empty(len(known), np.int32)
    ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
    codes = names.indices.fill_null(-1).to_numpy()
    return np.where(codes < 0, -1, ranks[codes]) if len(known) else codes
