"""Sources of documents, opened one after the other.

A file's first bytes decide its form: XML, JSON lines, a tar archive, or one of these compressed.
Nothing is unpacked to disk.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

import attrs

from broker.cli.publishing.publication import Refusal, SourceLocation

_CHUNK: Final = 64 * 1024
_OPENERS: Final = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
_TAR_MAGIC: Final = (257, b"ustar")
_BLOCK: Final = tarfile.BLOCKSIZE
_DIGITS: Final = tuple(b"%d" % digit for digit in range(10))
_BLANK: Final = b" \t\r\n"
_JSON_STARTS: Final = (*(b"{", b"[", b'"', b"-", b"true", b"false", b"null"), *_DIGITS)
_UTF_16: Final = (b"\xfe\xff", b"\xff\xfe", b"\x00<", b"<\x00")
READ_ERRORS: Final = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)

Form = Literal["xml", "json", "utf-16", "tar", "compressed", "empty", "unknown"]


class ByteBound:
    """Bound of the bytes that are unpacked from one stream, read or skipped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def apply(self, stream: IO[bytes]) -> IO[bytes]:
        return cast(IO[bytes], _Counted(stream, self))

    def count(self, size: int) -> None:
        """Raises `OSError` beyond the bound."""
        self._left -= size
        if self._left < 0:
            raise OSError(errno.EFBIG, f"it is larger than {self._most} bytes, unpacked")


@attrs.frozen
class OpenedSource:
    """Read it to its end before the next."""

    name: str
    form: Form
    stream: IO[bytes]

    def read_portions(self) -> Iterator[bytes]:
        while portion := _read_some(self.stream):
            yield portion


def open_sources(
    arguments: tuple[str, ...], stdin: Callable[[], IO[bytes]]
) -> Iterator[OpenedSource | Refusal]:
    """Files of a folder are sorted by name."""
    for argument in arguments:
        if argument == "-":
            yield from open_stream("stdin", stdin())
            continue
        path = Path(argument)
        for file in list_files(path) if path.is_dir() else [path]:
            try:
                with open(file, "rb") as stream:
                    yield from open_stream(str(file), stream)
            except OSError as error:
                yield Refusal(SourceLocation(str(file), 1), f"can not be read: {error.strerror}")


def list_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def open_stream(
    name: str, stream: IO[bytes], bound: ByteBound | None = None, *, compressions: int = 0
) -> Iterator[OpenedSource | Refusal]:
    try:
        head = _read_head(stream)
    except READ_ERRORS as error:
        yield Refusal(SourceLocation(name, 1), f"can not be read: {describe_error(error)}")
        return
    whole: Any = io.BufferedReader(_PushedBack(head, stream), _CHUNK)
    form = _detect_form(head)
    if form == "empty" and len(head) >= _BLOCK:
        form = "xml"
    if form == "compressed" and compressions < 2:
        opener: Any = next(opener for magic, opener in _OPENERS if head.startswith(magic))
        with opener(whole) as unpacked:
            counted = unpacked if bound is None else bound.apply(unpacked)
            yield from open_stream(name, counted, bound, compressions=compressions + 1)
    elif form == "tar":
        yield from _open_members(name, whole, bound)
    elif form in ("unknown", "compressed"):
        shown = head[:24].decode("utf-8", "backslashreplace")
        reason = f"this is neither XML nor JSON lines nor a tar archive: it begins with {shown!r}"
        yield Refusal(SourceLocation(name, 1), reason)
    elif form != "empty":
        try:
            yield OpenedSource(name, form, whole)
        finally:
            whole.detach()


def _open_members(
    name: str, stream: IO[bytes], bound: ByteBound | None
) -> Iterator[OpenedSource | Refusal]:
    watched = _TailRecorder(stream)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], watched), mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    with closing(content):
                        yield from open_stream(
                            f"{name}: {member.name}", content, bound, compressions=1
                        )
        # tarfile accepts an archive that stops between two files.
        if any(watched.tail):
            yield Refusal(
                SourceLocation(name, 1), "the archive is cut short: its end mark is missing"
            )
    except READ_ERRORS as error:
        yield Refusal(
            SourceLocation(name, 1), f"the archive is damaged or cut short: {describe_error(error)}"
        )


def _read_head(stream: IO[bytes]) -> bytes:
    """A slow pipe is not read beyond what shows the form."""
    head = b""
    while len(head) < _BLOCK and _detect_form(head) in ("empty", "unknown"):
        portion = _read_some(stream)
        if not portion:
            break
        head += portion
    return head


def _read_some(stream: Any) -> bytes:
    """Read at least one byte, except at the end: a pipe need not fill a buffer."""
    read = getattr(stream, "read1", stream.read)
    return cast(bytes, read(_CHUNK))


def _detect_form(head: bytes) -> Form:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK)
    if not text:
        return "empty"
    if head.startswith(_UTF_16):
        return "utf-16"
    if any(head.startswith(magic) for magic, _ in _OPENERS):
        return "compressed"
    offset, magic = _TAR_MAGIC
    if head[offset : offset + len(magic)] == magic:
        return "tar"
    if text.startswith(b"<"):
        return "xml"
    return "json" if text.startswith(_JSON_STARTS) else "unknown"


def describe_error(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class _PushedBack(io.RawIOBase):
    """A stream with its first bytes put back."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head:
            self._head = _read_some(self._rest)
        portion, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(portion)] = portion
        return len(portion)


class _Counted:
    """A stream whose bytes a `ByteBound` counts."""

    def __init__(self, stream: IO[bytes], bound: ByteBound) -> None:
        self._stream = stream
        self._bound = bound

    def read(self, size: int = _CHUNK) -> bytes:
        data = self._stream.read(size)
        self._bound.count(len(data))
        return data

    def read1(self, size: int = _CHUNK) -> bytes:
        data = _read_some(self._stream)
        self._bound.count(len(data))
        return data


class _TailRecorder:
    """Records the last block that tarfile reads."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.tail = b""

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.tail = (self.tail + data)[-_BLOCK:]
        return data
