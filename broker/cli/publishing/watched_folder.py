"""Files of folders, each read when it is complete."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from broker.cli.publishing.document_reader import Item
from broker.cli.publishing.publication import PortionEnd, Refusal, SourceLocation
from broker.cli.publishing.published_table import PublishedTable, table_key
from broker.cli.publishing.source import list_files

#: Seconds between two scans.
SCAN_INTERVAL: Final = 1.0
#: Scans after which the entries of present files count as used: a full table drops others first.
REFRESH_SCANS: Final = 600
#: Files of one folder; further ones, by name, wait.
MAX_FILES: Final = 100_000


@attrs.frozen(order=True)
class FileState:
    modified_ns: int
    size: int


class CompleteFiles:
    """Finds files whose size and time are those of the scan before. Sans-I/O.

    Holds two states for each file of the last scan.
    """

    def __init__(self) -> None:
        self._previous: dict[str, FileState] = {}
        self._taken: dict[str, FileState] = {}

    def take(self, scan: Mapping[str, FileState]) -> list[str]:
        """Return complete files that were not returned in this state, the oldest first."""
        ready = [
            path
            for path, state in scan.items()
            if self._previous.get(path) == state and self._taken.get(path) != state
        ]
        self._previous = dict(scan)
        self._taken = {path: state for path, state in self._taken.items() if path in scan}
        self._taken.update((path, scan[path]) for path in ready)
        return sorted(ready, key=lambda path: (scan[path], path))


@attrs.define
class FolderWatch:
    """The option `--watch`."""

    folders: tuple[Path, ...]
    read_file: Callable[[str], Iterable[Item]]
    table: PublishedTable
    """Files in it are not read again, unless their size or time changes."""
    wait: Callable[[float], bool]
    """Blocks for so many seconds; returns True if the watch is to end."""
    options: bytes = b""
    """Digest of the options by which a file becomes events."""
    max_files: int = MAX_FILES
    refresh_scans: int = REFRESH_SCANS
    _problems: dict[Path, str] = attrs.field(factory=dict)

    def read(self) -> Generator[Item | PortionEnd, None, None]:
        files = CompleteFiles()
        for turn in itertools.count(1):
            scan: dict[str, FileState] = {}
            for folder in self.folders:
                yield from self._scan(folder, scan)
            for path in files.take(scan):
                yield from self._read_new(path, scan[path])
            if not turn % self.refresh_scans:
                for path, state in scan.items():
                    self.table.find(self._key_of(path, state))
            if self.wait(SCAN_INTERVAL):
                return

    def _key_of(self, path: str, state: FileState) -> bytes:
        numbers = f"{state.size} {state.modified_ns}"
        return table_key("file", os.fsencode(path), numbers, self.options)

    def _read_new(self, path: str, state: FileState) -> Iterator[Item | PortionEnd]:
        key = self._key_of(path, state)
        if self.table.find(key) is None:
            yield from self.read_file(path)
            yield PortionEnd(key)

    def _scan(self, folder: Path, scan: dict[str, FileState]) -> Iterator[Refusal | PortionEnd]:
        """Add the folder's files to `scan`, and yield a problem once."""
        problem = _find_problem(folder)
        paths = list_files(folder)
        for path in itertools.islice(paths, self.max_files):
            try:
                found = path.stat()
            except OSError:
                # It was removed meanwhile.
                continue
            # A writer may have created an empty file, and written nothing yet.
            if stat.S_ISREG(found.st_mode) and found.st_size:
                scan[str(path)] = FileState(found.st_mtime_ns, found.st_size)
        if next(paths, None) is not None:
            problem = f"more than {self.max_files} files: the last ones by name wait"
        if problem and problem != self._problems.get(folder):
            yield Refusal(SourceLocation(str(folder), 0), problem)
            yield PortionEnd(None)
        self._problems[folder] = problem


def _find_problem(folder: Path) -> str:
    try:
        os.scandir(folder).close()
    except OSError as error:
        return f"the folder can not be read now: {error.strerror}"
    return ""
