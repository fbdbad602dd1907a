"""An XML Schema with all files that it names, packed into one line of a type's text."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import attrs
import msgspec
from lxml import etree

from broker.canonical_base64 import decode_base64, encode_base64
from broker.errors import BadDtd

#: Bytes of a packed schema: with its DTD, it fits into a text of 256 KiB.
MAX_PACKED: Final = 160 * 1024
#: Bytes of all files together.
MAX_EXPANDED: Final = 4 * 1024 * 1024
MAX_FILES: Final = 200
_MAX_NAME: Final = 255
#: `*.xsd` files below a folder that are looked at.
_MAX_CANDIDATES: Final = 1_000
_FORMAT: Final = 1

_INSTRUCTION: Final = re.compile(r"<\?payload-schema ([0-9]{1,9}) ([A-Za-z0-9+/=]*)\?>")
INSTRUCTION_START: Final = "<?payload-schema"
_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
_REFERENCES: Final = tuple(f"{_XSD}{name}" for name in ("include", "import", "redefine"))
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


@attrs.frozen
class SchemaBundle:
    """`files` has names, relative and with `/`, and contents; the first one is the main file."""

    files: tuple[tuple[str, bytes], ...]

    def pack(self) -> bytes:
        """Equal files give equal bytes. Raises `BadDtd` if they are too large."""
        size = sum(len(content) for _, content in self.files)
        if size > MAX_EXPANDED:
            raise BadDtd(f"the schema files have {size:,} bytes, more than {MAX_EXPANDED:,}")
        packed = zlib.compress(msgspec.msgpack.encode(self.files), 9)
        if len(packed) > MAX_PACKED:
            raise BadDtd(
                f"the schema files have {len(packed):,} bytes compressed, more than {MAX_PACKED:,}"
            )
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> SchemaBundle:
        """Raises `BadDtd` for anything that `pack` does not return."""
        if len(packed) > MAX_PACKED:
            raise BadDtd(f"the packed schema has more than {MAX_PACKED:,} bytes")
        stream = zlib.decompressobj()
        try:
            expanded = stream.decompress(packed, 2 * MAX_EXPANDED)
        except zlib.error as error:
            raise BadDtd(f"the packed schema is damaged: {error}") from None
        if not stream.eof or stream.unused_data:
            raise BadDtd("the packed schema is damaged or too large")
        try:
            files = tuple(_DECODER.decode(expanded))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadDtd(f"the packed schema is damaged: {error}") from None
        names = [name for name, _ in files]
        if not 1 <= len(files) <= MAX_FILES or len(set(names)) < len(files):
            raise BadDtd(f"a schema has 1 to {MAX_FILES} files with different names")
        if sum(len(content) for _, content in files) > MAX_EXPANDED:
            raise BadDtd(f"the schema files have more than {MAX_EXPANDED:,} bytes")
        if not all(_is_plain(name) for name in names):
            raise BadDtd("a schema file has no relative name")
        return cls(files)

    def find(self, base: str, location: str) -> str | None:
        """Return the name of the file that the file `base` calls `location`."""
        return find_name([name for name, _ in self.files], base, location)


def write_instruction(packed: bytes) -> bytes:
    """Return the line of a type's text that has a packed schema."""
    return f"{INSTRUCTION_START} {_FORMAT} {encode_base64(packed)}?>\n".encode()


def read_instruction(line: str) -> bytes:
    """Return the packed schema of a line without its line break. Raises `BadDtd`."""
    match = _INSTRUCTION.fullmatch(line)
    if match is None:
        raise BadDtd("the schema of the type is not base64")
    if int(match[1]) != _FORMAT:
        raise BadDtd(f"a later version of xmlbroker has written the schema (format {match[1]})")
    try:
        return decode_base64(match[2])
    except ValueError as error:
        raise BadDtd(f"the schema of the type: {error}") from None


def find_name(names: Sequence[str], base: str, location: str) -> str | None:
    """Return the name that `location`, in the file `base`, means.

    That is the file at this place, else the one whose path ends most like it: locations on the web
    are compared with the given files.
    """
    path = unquote(urlsplit(location).path)
    exact = os.path.normpath((PurePosixPath(base).parent / path).as_posix())
    if exact in names:
        return exact
    parts = PurePosixPath(path).parts
    alike = [name for name in names if PurePosixPath(name).parts[-1:] == parts[-1:]]
    return max(alike, key=lambda name: _common_end(PurePosixPath(name).parts, parts), default=None)


def read_schema_files(paths: Sequence[Path]) -> SchemaBundle:
    """Read the main schema, and all files that it names among the given ones.

    `paths` are files, and folders with `*.xsd` files. The first file is the main one; in a folder
    it is the only file that no other one names. Nothing else is read. Raises `BadDtd` with the file
    and line of a reference to another file.
    """
    files = _list_files(paths)
    root = Path(os.path.commonpath([file.parent for file in files]))
    by_name = {file.relative_to(root).as_posix(): file for file in files}
    names = list(by_name)
    if paths[0].is_dir():
        main = _find_main(by_name)
    else:
        main = paths[0].resolve().relative_to(root).as_posix()
    found: dict[str, bytes] = {}
    waiting = [main]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if len(found) == MAX_FILES:
            raise BadDtd(f"the schema names more than {MAX_FILES} files")
        found[name] = _read(by_name[name])
        for line, location in _references(by_name[name], found[name]):
            target = find_name(names, name, location)
            if target is None:
                raise BadDtd(f"{by_name[name]}:{line}: {location} is not among the given files")
            waiting.append(target)
    others = sorted(found.keys() - {main})
    return SchemaBundle(tuple((name, found[name]) for name in [main, *others]))


def _list_files(paths: Sequence[Path]) -> list[Path]:
    files: dict[Path, None] = {}
    for path in paths:
        found = sorted(path.rglob("*.xsd")) if path.is_dir() else [path]
        files.update(dict.fromkeys(file.resolve() for file in found))
        if len(files) > _MAX_CANDIDATES:
            raise BadDtd(f"there are more than {_MAX_CANDIDATES:,} *.xsd files")
    if not files:
        raise BadDtd(f"{paths[0]} has no *.xsd file")
    return list(files)


def _find_main(files: dict[str, Path]) -> str:
    names = list(files)
    named = {
        find_name(names, name, location)
        for name, file in files.items()
        for _, location in _references(file, _read(file))
    }
    main = [name for name in names if name not in named]
    if len(main) != 1:
        candidates = ", ".join((main or names)[:5])
        raise BadDtd(f"which schema is the main one? Give its file first: {candidates}")
    return main[0]


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_EXPANDED:
            raise BadDtd(f"{file} has more than {MAX_EXPANDED:,} bytes")
        return file.read_bytes()
    except OSError as error:
        raise BadDtd(f"{file} can not be read: {error.strerror}") from None


def _references(file: Path, content: bytes) -> Iterator[tuple[int, str]]:
    try:
        root = parse_schema_file(content)
    except BadDtd as error:
        raise BadDtd(f"{file}:{max(error.line, 1)}: {error.text}") from None
    for element in root.iterchildren(*_REFERENCES):
        location = element.get("schemaLocation")
        if location is not None:
            line = element.sourceline
            yield line if isinstance(line, int) else 0, str(location)


def parse_schema_file(content: bytes) -> etree._Element:
    """Return the root of a schema file. Raises `BadDtd` with the line."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise BadDtd(f"it is not well-formed: {error.msg}", line=error.position[0]) from None
    if cast(Any, root.getroottree()).docinfo.doctype:
        raise BadDtd("a schema file may have no DOCTYPE", line=1)
    if root.tag != f"{_XSD}schema":
        raise BadDtd(f"it is no XML Schema: its root element is {str(root.tag)[:120]!r}", line=1)
    return root


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        0 < len(name) <= _MAX_NAME
        and name.isprintable()
        and not path.is_absolute()
        and ".." not in path.parts
        and os.path.normpath(name) == name
    )


def _common_end(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(reversed(one), reversed(other), strict=False):
        if mine != theirs:
            break
        count += 1
    return count
