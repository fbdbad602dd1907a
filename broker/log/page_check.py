"""Checks that LMDB can read all pages of a log file as they were written.

LMDB's pages have no checksums, but redundant data: page numbers, the bounds of each branch, and
each table's counts of pages and entries. Each page is in one table, or free. The newest free entry
has the transaction that wrote the meta page.
"""

from __future__ import annotations

import struct
from pathlib import Path

from broker.errors import LogCorrupt
from broker.log.page_file import FILE, FREE_FLAGS, Meta, PageFile

REPAIR_ADVICE = (
    "stop the node, keep a copy of the folder, and run `xmlbroker log verify --repair`: what can "
    "be read is saved, and the node asks others for the rest"
)


def check_pages(file: PageFile, meta: Meta) -> None:
    """Check pages without values; damage is among the file's problems."""
    used = bytearray(file.pages)
    tables = file.tables(meta)
    _mark_used(file, used, "main")
    for name, tree in tables.items():
        table = name.decode(errors="replace")
        for _ in file.nodes(tree, table, values=False):
            pass
        _mark_used(file, used, table)
    _check_free(file, meta, used)
    if any(used[max(meta.last_page + 1, 2) :]):
        file.add_problem("main", "pages behind the last one")


def _mark_used(file: PageFile, used: bytearray, table: str) -> None:
    before, seen = (int.from_bytes(each, "little") for each in (used, file.seen or b""))
    if both := before & seen:
        number = (both & -both).bit_length() // 8
        file.add_problem(table, f"page {number} is in two tables, or free")
    used[:] = (before | seen).to_bytes(len(used), "little")


def _check_free(file: PageFile, meta: Meta, used: bytearray) -> None:
    beyond = meta.last_page + 1 - file.pages
    for _, value, _ in file.nodes(meta.free, "free", FREE_FLAGS):
        count, *numbers = struct.unpack_from(f"<{len(value) // 8}Q", value) or (0,)
        numbers = numbers[:count]
        if count > len(numbers) or numbers != sorted(set(numbers), reverse=True):
            file.add_problem("free", "a list of pages that can not be")
        for number in numbers:
            if not 2 <= number <= meta.last_page:
                file.add_problem("free", f"page {number} is none")
            elif number >= file.pages:
                beyond -= 1
            elif used[number]:
                file.add_problem("free", f"page {number} is in use, or free twice")
            else:
                used[number] = 1
    _mark_used(file, used, "free")
    if beyond > 0:
        file.add_problem("main", "the file is shorter than its header says")


def check_transaction(file: PageFile, meta: Meta) -> int:
    """Return the transaction that wrote a meta page's tables. If the page names another one, LMDB
    may use the older of two. The first transactions free no page."""
    keys = [key for key, _, _ in file.nodes(meta.free, "free", FREE_FLAGS, values=False)]
    found = int.from_bytes(keys[-1], "little") if keys else meta.transaction
    if found != meta.transaction:
        file.add_problem("meta", f"meta page {meta.index} names another transaction than it is of")
    return found


def check_file(folder: Path, *, was_used: bool) -> None:
    """Raise `LogCorrupt`, with advice, if LMDB would crash or read other data. The file has no
    writer. An empty file that `was_used` was truncated."""
    path = folder / FILE
    if not path.exists():
        return
    if path.stat().st_size == 0:
        if was_used:
            raise LogCorrupt(
                f"{path} was cut short: it is empty; restore the folder, or move it away"
            )
        return
    check_metas(folder)
    file = PageFile(path)
    try:
        newest = file.newest
        stated_size = (newest.last_page + 1) * file.page_size
        check_pages(file, newest)
        # Freed pages at the end may never have been written.
        if file.problems and file.size < stated_size:
            raise LogCorrupt(
                f"{path} was cut short: it has {file.size} bytes, its header says {stated_size}; "
                f"{REPAIR_ADVICE}"
            )
        if file.problems:
            raise LogCorrupt(f"{path} has damaged pages: {file.problems[0]}; {REPAIR_ADVICE}")
        for meta in file.metas:
            check_transaction(file, meta)
        if file.problems:
            raise LogCorrupt(
                f"a meta page of {path} is damaged: {file.problems[0]}; {REPAIR_ADVICE}"
            )
    finally:
        file.close()


def check_metas(folder: Path) -> None:
    """Check only the meta pages: a node may write the file. Raises `LogCorrupt`."""
    file = PageFile(folder / FILE)
    file.close()
    if len(file.metas) < 2 or not all(meta.is_valid for meta in file.metas):
        raise LogCorrupt(f"a meta page of {file.path} is damaged; {REPAIR_ADVICE}")
