"""The archives that a node has written to. A missing one is an error.

An unmounted file system leaves an empty folder. With a new archive there, retention would remove
events that the real archive never receives.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.archive.archive import Archive
from broker.archive.object_store import open_object_store
from broker.errors import ArchiveUnavailable
from broker.private_files import open_private

#: One URI per line.
FILE_NAME: Final = "archives"


def open_archive(uri: str, folder: Path) -> Archive:
    """Open an archive; create it if the node has never used it.

    `folder` has the node's log. Raises `ArchiveUnavailable` if a known archive is missing.
    """
    list_file = folder / FILE_NAME
    known_uris = list_file.read_text().splitlines() if list_file.exists() else []
    archive = Archive(open_object_store(uri))
    if not archive.exists():
        if uri in known_uris:
            raise ArchiveUnavailable(
                f"there is no archive at {uri}, where this node wrote before: is it mounted? To "
                f"begin a new one, remove {list_file}"
            )
        archive.create_if_missing()
    if uri not in known_uris:
        with suppress(OSError):
            # A full disk must not stop archiving. The next start tries again.
            _write_list(list_file, [*known_uris, uri])
    return archive


def _write_list(list_file: Path, known_uris: list[str]) -> None:
    temporary = list_file.with_name(f"{FILE_NAME}.new")
    with open(temporary, "w", opener=open_private) as file:
        file.write("\n".join([*known_uris, ""]))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, list_file)
