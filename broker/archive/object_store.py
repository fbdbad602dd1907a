"""The archive's objects: put atomically and durably, never changed.

A local object is written to a temporary file, synced and renamed, and its folder synced. Elsewhere
it is one upload, visible when complete.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import attrs
import pyarrow as pa
import pyarrow.fs

from broker.archive.disk import Disk
from broker.archive.layout import check_object_path, is_object_path
from broker.errors import (
    ArchiveCorrupt,
    ArchiveObjectMissing,
    ArchiveUnavailable,
    ConfigurationError,
)

#: Folder of objects being written; readers ignore it.
INCOMING: Final = "incoming"
_READ: Final = "read"
#: Attempts to create a folder: other processes remove empty ones.
_MAX_ATTEMPTS: Final = 5
#: Stores that show only complete objects, and have no folders.
_ATOMIC_STORES: Final = {"s3", "gcs", "abfs"}


@attrs.frozen
class StoredObject:
    path: str
    bytes: int
    modified: int
    """Time of the put by the store's clock, ms since 1970."""


class ObjectStore(Protocol):
    """A store of objects. Paths are relative, with `/`.

    All methods block and raise `ArchiveUnavailable`, or `ArchiveCorrupt` for a path that leads out
    of the store.
    """

    uri: str
    """URI of the root, in a form that Spark reads too."""
    access_uri: str
    """URI with which another process opens the same store."""

    def put(self, objects: Sequence[tuple[str, Any]]) -> None:
        """Put (path, buffer) objects durably, each atomically.

        After an error, any of them may exist.
        """

    def put_new(self, path: str, data: bytes) -> None:
        """Raises `ArchiveUnavailable` if the object exists, as far as the store can tell."""

    def get(self, path: str) -> bytes:
        """Raises `ArchiveObjectMissing`."""

    def open(self, path: str) -> pa.NativeFile:
        """Raises `ArchiveObjectMissing`."""

    def list_objects(self, folder: str) -> list[StoredObject]:
        """Return all objects below a folder, unsorted; none if it is missing.

        Other files, such as those with a blank in their names, are skipped.
        """

    def delete(self, paths: Sequence[str]) -> None:
        """Missing objects are ignored."""


def open_object_store(uri: str, disk: Disk | None = None) -> ObjectStore:
    """Open the store at a URI or local path.

    Raises `ConfigurationError` for an invalid URI, `ArchiveUnavailable` for an unreachable one.
    """
    if not uri:
        raise ConfigurationError("the archive's URI is empty")
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return LocalObjectStore(Path(uri), disk or Disk())
    if scheme == "file":
        return LocalObjectStore(Path(unquote(urlsplit(uri).path)), disk or Disk())
    try:
        system, root = pa.fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigurationError(f"{uri!r} is not a valid archive URI: {error}") from None
    except OSError as error:
        raise ArchiveUnavailable(f"{uri} cannot be reached: {error}") from None
    return RemoteObjectStore(system, root, uri)


class LocalObjectStore:
    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = root.absolute()
        self._disk = disk
        self.uri = self.access_uri = self._root.as_uri()

    def put(self, objects: Sequence[tuple[str, Any]]) -> None:
        written: list[tuple[Path, Path]] = []
        places = [self._place_of(path) for path, _ in objects]
        with _translate_errors("written"):
            try:
                for place, (_, data) in zip(places, objects, strict=True):
                    written.append((self._write_temporary(data), place))
                for temporary, new in written:
                    self._rename_into_place(self._disk.rename, temporary, new)
                for folder in {new.parent: None for _, new in written}:
                    self._disk.sync_folder(folder)
            except OSError:
                self._discard(temporary for temporary, _ in written)
                raise

    def put_new(self, path: str, data: bytes) -> None:
        new = self._place_of(path)
        with _translate_errors("written"):
            temporary = self._write_temporary(data)
            try:
                self._rename_into_place(self._disk.rename_new, temporary, new)
            except OSError:
                self._discard([temporary])
                raise
            self._disk.sync_folder(new.parent)

    def get(self, path: str) -> bytes:
        with _translate_errors(_READ):
            return self._disk.read(self._place_of(path))

    def open(self, path: str) -> pa.NativeFile:
        with _translate_errors(_READ):
            return self._disk.open(self._place_of(path))

    def list_objects(self, folder: str) -> list[StoredObject]:
        place = self._place_of(folder) if folder else self._root
        with _translate_errors("listed"):
            within = f"{folder}/" if folder else ""
            return [
                StoredObject(f"{within}{path}", size, modified)
                for path, size, modified in self._disk.list_files(place)
                if is_object_path(path)
            ]

    def delete(self, paths: Sequence[str]) -> None:
        with _translate_errors("deleted"):
            places = [self._place_of(path) for path in paths]
            for place in places:
                self._disk.remove(place)
            for folder in {place.parent for place in places}:
                self._remove_empty_folders(folder)

    def _place_of(self, path: str) -> Path:
        """Raises `ArchiveCorrupt` for a path that leads out of the root, also by a symbolic
        link."""
        place = self._root / check_object_path(path)
        if self._disk.is_link_below(self._root, place):
            raise ArchiveCorrupt(f"{path} is behind a symbolic link")
        return place

    def _write_temporary(self, data: Any) -> Path:
        folder = self._root / INCOMING
        self._make_folders(folder)
        temporary = folder / secrets.token_hex(8)
        try:
            self._disk.write(temporary, memoryview(data))
        except OSError:
            self._discard([temporary])
            raise
        return temporary

    def _rename_into_place(
        self, rename: Callable[[Path, Path], None], temporary: Path, new: Path
    ) -> None:
        for _ in range(_MAX_ATTEMPTS):
            self._make_folders(new.parent)
            try:
                return rename(temporary, new)
            except FileNotFoundError:
                # Another process may have removed the empty folder.
                continue
        raise FileNotFoundError(errno.ENOENT, "another process removes the folder repeatedly", new)

    def _discard(self, temporaries: Iterable[Path]) -> None:
        """On a full disk other writers need the space."""
        for temporary in temporaries:
            with suppress(OSError):
                self._disk.remove(temporary)

    def _make_folders(self, folder: Path) -> None:
        """Each folder is durable before anything is created in it."""
        missing: list[Path] = []
        while not self._disk.is_folder(folder):
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            self._disk.make_folder(each)
            self._disk.sync_folder(each.parent)

    def _remove_empty_folders(self, folder: Path) -> None:
        while folder != self._root and folder.parent != self._root:
            try:
                self._disk.remove_folder(folder)
            except OSError:
                return
            folder = folder.parent


class RemoteObjectStore:
    def __init__(self, system: pa.fs.FileSystem, root: str, uri: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._puts_atomically = system.type_name in _ATOMIC_STORES
        # Spark does not know pyarrow's options in the query.
        self.uri = uri.partition("?")[0].rstrip("/")
        self.access_uri = uri

    def put(self, objects: Sequence[tuple[str, Any]]) -> None:
        with _translate_errors("written"):
            for path, data in objects:
                self._put(path, data)

    def put_new(self, path: str, data: bytes) -> None:
        """Two concurrent puts are not detected."""
        with _translate_errors("written"):
            found = self._system.get_file_info(self._full_path(path))
            if found.type != pa.fs.FileType.NotFound:
                raise FileExistsError(f"{path} exists already")
            self._put(path, data)

    def get(self, path: str) -> bytes:
        with _translate_errors(_READ), self._system.open_input_file(self._full_path(path)) as file:
            data: bytes = file.read()
            return data

    def open(self, path: str) -> pa.NativeFile:
        with _translate_errors(_READ):
            return self._system.open_input_file(self._full_path(path))

    def list_objects(self, folder: str) -> list[StoredObject]:
        below = f"{self._root}/{folder}"
        selector = pa.fs.FileSelector(below, allow_not_found=True, recursive=True)
        with _translate_errors("listed"):
            found = self._system.get_file_info(selector)
        return [
            StoredObject(path, each.size, (each.mtime_ns or 0) // 1_000_000)
            for each in found
            if each.type == pa.fs.FileType.File
            and is_object_path(path := each.path[len(self._root) + 1 :])
        ]

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                self._system.delete_file(self._full_path(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ArchiveUnavailable(f"cannot delete from the archive: {error}") from None

    def _put(self, path: str, data: Any) -> None:
        place = self._full_path(path)
        if self._puts_atomically:
            self._upload(place, data)
            return
        temporary = self._full_path(f"{INCOMING}/{secrets.token_hex(8)}")
        for each in (temporary, place):
            self._system.create_dir(os.path.dirname(each), recursive=True)
        self._upload(temporary, data)
        self._system.move(temporary, place)

    def _upload(self, place: str, data: Any) -> None:
        with self._system.open_output_stream(place) as stream:
            stream.write(data)

    def _full_path(self, path: str) -> str:
        return f"{self._root}/{check_object_path(path)}"


@contextmanager
def _translate_errors(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and done == _READ:
            raise ArchiveObjectMissing(f"the archive has no such object: {error}") from None
        raise ArchiveUnavailable(f"the archive cannot be {done}: {error}") from None
