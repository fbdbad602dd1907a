"""The size of an LMDB table."""

from __future__ import annotations

from typing import Any

import lmdb


def table_bytes(txn: lmdb.Transaction, table: Any) -> int:
    """Return the bytes of an LMDB table's pages."""
    stat = txn.stat(table)
    pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    return int(pages * stat["psize"])
