"""XML Schemas from given files. Nothing else is read, and no network is used."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import attrs
import xmlschema
from xmlschema.exceptions import XMLSchemaException
from xmlschema.validators.xsdbase import XsdValidator
from zope.interface import implementedBy

from broker.errors import BadDtd

MAX_FILES: Final = 1_000
MAX_BYTES: Final = 32 * 1024 * 1024

_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
_INCLUDES: Final = frozenset(f"{_XSD}{name}" for name in ("include", "redefine", "override"))
_OWN_FOLDER: Final = Path(xmlschema.__file__).parent / "schemas"
_MIN_VERSION: Final = "{http://www.w3.org/2007/XMLSchema-versioning}minVersion"
_MAX_MESSAGE: Final = 400


def list_schema_files(paths: Sequence[Path]) -> list[Path]:
    """Return the given files, and all `*.xsd` below given folders.

    Raises `BadDtd` if they are too many or too large, or do not exist.
    """
    files: dict[Path, None] = {}
    for path in paths:
        found = sorted(path.rglob("*.xsd")) if path.is_dir() else [path]
        files.update(dict.fromkeys(file.resolve() for file in found))
        if len(files) > MAX_FILES:
            raise BadDtd(f"more than {MAX_FILES:,} files are no schema that can be read")
    try:
        total = sum(file.stat().st_size for file in files)
    except OSError as error:
        raise BadDtd(f"{error.filename} can not be read: {error.strerror}") from None
    if total > MAX_BYTES:
        raise BadDtd(f"the schema files have more than {MAX_BYTES >> 20} MiB together")
    if not files:
        raise BadDtd("there is no *.xsd file")
    return list(files)


@attrs.define
class _GivenFiles:
    files: Sequence[Path]
    locations: list[tuple[str, str]] = attrs.field(factory=list)
    """Namespaces with the URL of a file."""
    included: set[Path] = attrs.field(factory=set)
    elements: dict[str, list[Path]] = attrs.field(factory=dict)
    """Files by the global elements that they declare, local and in Clark's notation."""
    needs_version_1_1: bool = False

    def read(self) -> None:
        for file in self.files:
            root = _parse_root(file)
            self.needs_version_1_1 |= _MIN_VERSION in root.attrib
            namespace = root.get("targetNamespace", "")
            if namespace:
                self.locations.append((namespace, file.as_uri()))
            for child in root:
                if child.tag in _INCLUDES:
                    target = _find_given(self.files, child.get("schemaLocation", ""), file)
                    self.included |= {target} - {file} if target is not None else set()
                elif child.tag == f"{_XSD}element":
                    name = child.get("name", "")
                    for key in {name, f"{{{namespace}}}{name}"}:
                        self.elements.setdefault(key, []).append(file)


def load_schema(
    files: Sequence[Path], roots: Sequence[str] = ()
) -> tuple[xmlschema.XMLSchemaBase, list[str]]:
    """Return the schema, and remarks about files that are missing, or not used.

    If the files together are no schema, those that declare the roots are read, with all that they
    name. Raises `BadDtd` for a malformed schema, or one that needs a file that is not given.
    """
    _make_attributes_readable()
    given = _GivenFiles(files)
    given.read()
    all_sources = [file for file in files if file not in given.included] or list(files)
    try:
        return _load(all_sources, given)
    except BadDtd as error:
        sources = list(
            dict.fromkeys(given.elements[name][0] for name in roots if name in given.elements)
        )
        if not sources or set(sources) == set(all_sources):
            raise
        try:
            schema, remarks = _load(sources, given)
        except BadDtd:
            raise error from None
        used = ", ".join(file.name for file in sources)
        return schema, [f"only {used} and files that it names are read: {error.text}", *remarks]


def _make_attributes_readable() -> None:
    """Let xmlschema read all attributes of its classes, in any process.

    If zope.interface has examined the classes of `collections.abc`, their attribute `__provides__`
    can not be read from a class below them that has none of its own.
    """
    waiting: list[type] = [XsdValidator]
    while waiting:
        each = waiting.pop()
        implementedBy(each)
        waiting.extend(each.__subclasses__())


def _load(sources: Sequence[Path], given: _GivenFiles) -> tuple[xmlschema.XMLSchemaBase, list[str]]:
    missing: dict[str, str] = {}

    def find(uri: str) -> str:
        path = Path(unquote(urlsplit(uri).path))
        if path.is_relative_to(_OWN_FOLDER):
            return uri
        file = _find_given(given.files, uri, None)
        if file is None:
            # It comes as written, then as a URL.
            missing.setdefault(path.name, uri)
        return (file or _OWN_FOLDER / "not-given").as_uri()

    first: XMLSchemaException | None = None
    for version in (xmlschema.XMLSchema10, xmlschema.XMLSchema11)[given.needs_version_1_1 :]:
        try:
            with warnings.catch_warnings():
                # They are about missing files.
                warnings.simplefilter("ignore")
                schema = version(
                    [file.as_uri() for file in sources],
                    locations=tuple(given.locations),
                    allow="local",
                    uri_mapper=find,
                )
        except XMLSchemaException as error:
            # The schema may need version 1.1.
            first = first or error
        except RecursionError:
            raise BadDtd("the schema is nested too deep") from None
        else:
            return schema, [
                f"{location} is not among the given files" for location in sorted(missing.values())
            ]
    problem = f"the schema can not be read: {_first_line(str(first))}"
    if missing:
        problem += f"; not among the given files: {', '.join(sorted(missing.values())[:10])}"
    raise BadDtd(problem)


def _parse_root(file: Path) -> ElementTree.Element:
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise BadDtd(f"{file} is not well-formed: {error.msg}", line=error.position[0]) from None
    except (OSError, LookupError, ValueError) as error:
        raise BadDtd(f"{file} can not be read: {error}") from None
    if root.tag != f"{_XSD}schema":
        raise BadDtd(f"{file} is not an XML Schema: its root element is {root.tag[:120]!r}")
    return root


def _find_given(files: Sequence[Path], location: str, base: Path | None) -> Path | None:
    """Return the file of a location, or the one whose path ends most like it."""
    path = Path(unquote(urlsplit(location).path))
    exact = (base.parent / path if base is not None else path).resolve()
    if exact in files:
        return exact
    alike = [file for file in files if file.name == path.name]
    return max(alike, key=lambda file: _common_end(file, path), default=None)


def _common_end(one: Path, other: Path) -> int:
    pairs: Iterator[tuple[str, str]] = zip(reversed(one.parts), reversed(other.parts), strict=False)
    count = 0
    for mine, theirs in pairs:
        if mine != theirs:
            break
        count += 1
    return count


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(":")[:_MAX_MESSAGE]
