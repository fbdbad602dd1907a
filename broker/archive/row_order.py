"""Sorting rows by place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def sort_and_deduplicate(rows: pa.Table) -> pa.Table:
    """Sort rows by origin, epoch and offset; keep the first of each place."""
    rows = rows.unify_dictionaries()
    order, repeated, sorted_already = _sort_order(rows)
    if sorted_already and not repeated.any():
        return rows
    return rows.take(order[~repeated])


def is_strictly_ordered(rows: pa.Table) -> bool:
    _, repeated, sorted_already = _sort_order(rows)
    return sorted_already and not bool(repeated.any())


def _sort_order(rows: pa.Table) -> tuple[Any, Any, bool]:
    keys = _sort_keys(rows)
    order = np.lexsort(keys[::-1])
    repeated = np.ones(len(order), bool)
    repeated[:1] = False
    for key in keys:
        ordered = key[order]
        repeated[1:] &= ordered[1:] == ordered[:-1]
    return order, repeated, bool((order[1:] > order[:-1]).all())


def _sort_keys(rows: pa.Table) -> tuple[Any, Any, Any]:
    origins = rows.column("origin").combine_chunks()
    names = origins.dictionary.to_pylist()
    ranks = np.empty(len(names), np.int32)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return (
        ranks[origins.indices.to_numpy()],
        rows.column("epoch").to_numpy(),
        rows.column("offset").to_numpy(),
    )
