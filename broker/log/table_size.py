"""How much room a table of LMDB takes."""

from __future__ import annotations

from typing import Any

import lmdb


def table_bytes(txn: lmdb.Transaction, table: Any) -> int:
    """Bytes of the pages that hold it."""
    stat = txn.stat(table)
    pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    return int(pages * stat["psize"])
