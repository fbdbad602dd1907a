"""The archives to which a node has written. If one of them is missing, it is not made anew.

The folder in which a file system is mounted is empty while the file system is away. An archiver
that began an archive there would let retention take events that the archive itself never gets.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.archive.archive import Archive
from broker.archive.objects import objects_at
from broker.errors import ArchiveUnavailable

#: In the folder of the log, a URI a line.
KNOWN: Final = "archives"


def opened_archive(uri: str, folder: Path) -> Archive:
    """Open a node's archive; `folder` is that of its log. An archive is made where the node has
    never seen one, else `ArchiveUnavailable` is raised."""
    noted = folder / KNOWN
    known = noted.read_text().splitlines() if noted.exists() else []
    archive = Archive(objects_at(uri))
    if not archive.is_there():
        if uri in known:
            raise ArchiveUnavailable(
                f"there is no archive at {uri}, where this node wrote before: is it mounted? To "
                f"begin a new one, remove {noted}"
            )
        archive.make()
    if uri not in known:
        with suppress(OSError):
            # A full disk is no reason to archive nothing. The next start tries it again.
            _write(noted, [*known, uri])
    return archive


def _write(noted: Path, known: list[str]) -> None:
    temporary = noted.with_name(f"{KNOWN}.new")
    with open(temporary, "w") as file:
        file.write("\n".join([*known, ""]))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, noted)
