"""Disk in memory that loses unsynced data, fails at a chosen step, and can be full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import attrs
import pyarrow as pa

from broker.archive.disk import Disk


class SimulatedCrash(BaseException):
    """End of the simulated process: later calls have no effect."""


@attrs.define(eq=False)
class _File:
    data: bytes
    modified: int
    synced: bool = False


class FragileDisk(Disk):
    """Each change is a step; `write` has three: begin, half, and synced.

    Names are durable when their folder is synced. After a loss of power each unsynced change of a
    name is present or absent at random.
    """

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns ms since 1970."""
        self._wall_clock = wall_clock
        self._folders: set[Path] = {Path("/")}
        self._files: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._durable_folders: set[Path] = {Path("/")}
        self.step_count = 0
        self.crash_step: int | None = None
        self.free_bytes: int | None = None
        """Until the disk is full; None: unlimited."""
        self.is_dead = False

    # ------------------------------------------------------------------ after the end

    def disk_after_kill(self) -> FragileDisk:
        """Return a disk with all changes."""
        return self._copy(dict(self._files), set(self._folders))

    def disk_after_power_loss(self, random: Random) -> FragileDisk:
        folders = {
            each for each in self._folders if each in self._durable_folders or random.random() < 0.5
        }
        files: dict[Path, _File] = {}
        for path in sorted(self._files.keys() | self._durable.keys()):
            newer, older = self._files.get(path), self._durable.get(path)
            file = newer if newer is older or random.random() < 0.5 else older
            if file is not None and all(parent in folders for parent in path.parents):
                files[path] = file if file.synced else self._truncate(file, random)
        return self._copy(files, folders)

    def with_files_of(self, disk: FragileDisk) -> FragileDisk:
        """Return a disk with another one's content and this one's clock."""
        return self._copy(dict(disk._files), set(disk._folders))

    def _copy(self, files: dict[Path, _File], folders: set[Path]) -> FragileDisk:
        disk = FragileDisk(self._wall_clock)
        disk._files, disk._folders = files, folders
        disk._durable, disk._durable_folders = dict(files), set(folders)
        return disk

    def _truncate(self, file: _File, random: Random) -> _File:
        return _File(file.data[: random.randrange(len(file.data) + 1)], file.modified, True)

    # ------------------------------------------------------------------ as a disk

    def write(self, path: Path, data: bytes | memoryview) -> None:
        self._step()
        if path in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._check_folder(path.parent)
        whole = bytes(data)
        file = self._files[path] = _File(b"", self._wall_clock())
        self._step()
        taken = whole[: len(whole) // 2] if self.free_bytes is None else whole[: self.free_bytes]
        file.data = taken
        if self.free_bytes is not None:
            self.free_bytes -= len(taken)
            if len(taken) < len(whole):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self._step()
        file.data = whole
        file.synced = True

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        self._check_folder(new.parent)
        self._files[new] = self._get_file(old)
        del self._files[old]

    def rename_new(self, old: Path, new: Path) -> None:
        self._step()
        self._check_folder(new.parent)
        if new in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        self._files[new] = self._get_file(old)
        self._step()
        del self._files[old]

    def remove(self, path: Path) -> None:
        self._step()
        file = self._files.pop(path, None)
        if file is not None and self.free_bytes is not None:
            self.free_bytes += len(file.data)

    def remove_folder(self, path: Path) -> None:
        self._step()
        self._check_folder(path)
        if any(path in each.parents for each in (*self._files, *self._folders)):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._folders.discard(path)
        self._durable_folders.discard(path)

    def make_folder(self, path: Path) -> None:
        self._step()
        self._check_folder(path.parent)
        self._folders.add(path)

    def sync_folder(self, path: Path) -> None:
        self._step()
        self._check_folder(path)
        # `Path.parent` makes an object for each file of a large archive.
        folder = str(path)
        for each in self._files.keys() | self._durable.keys():
            if os.path.dirname(each) == folder:
                if each in self._files:
                    self._durable[each] = self._files[each]
                else:
                    del self._durable[each]
        self._durable_folders |= {each for each in self._folders if each.parent == path}

    def read(self, path: Path) -> bytes:
        return self._get_file(path).data

    def open(self, path: Path) -> pa.NativeFile:
        return pa.BufferReader(self._get_file(path).data)

    def is_link_below(self, root: Path, path: Path) -> bool:
        return False

    def is_folder(self, path: Path) -> bool:
        self._check_alive()
        return path in self._folders

    def list_files(self, folder: Path) -> Iterator[tuple[str, int, int]]:
        self._check_alive()
        above = f"{folder}/"
        for path, file in list(self._files.items()):
            name = str(path)
            if name.startswith(above):
                yield name.removeprefix(above), len(file.data), file.modified

    # ------------------------------------------------------------------ damage

    def damage_file(self, path: Path, damage: Callable[[bytes], bytes]) -> None:
        self._files[path].data = damage(self._files[path].data)

    # ------------------------------------------------------------------ steps

    def _step(self) -> None:
        self._check_alive()
        if self.step_count == self.crash_step:
            self.is_dead = True
            raise SimulatedCrash
        self.step_count += 1

    def _check_alive(self) -> None:
        if self.is_dead:
            raise SimulatedCrash

    def _check_folder(self, folder: Path) -> None:
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)

    def _get_file(self, path: Path) -> _File:
        self._check_alive()
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[path]
