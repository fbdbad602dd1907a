"""DTD files of one folder, found by public identifier through an OASIS catalogue."""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
from lxml import etree

from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import read_schema_files, write_instruction
from broker.errors import BadDtd, BadName, ConfigurationError

CATALOGUE_NAME: Final = "catalog.xml"

_NAMESPACE = "{urn:oasis:names:tc:entity:xmlns:xml:catalog}"
_IDENTIFIER = {f"{_NAMESPACE}public": "publicId", f"{_NAMESPACE}system": "systemId"}
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"


def shipped_folder() -> Path:
    """Return the folder of the shipped DTDs: in the checkout, else as installed. Raises
    `ConfigurationError`."""
    places = list(_shipped_places())
    for place in places:
        if (place / CATALOGUE_NAME).is_file():
            return place
    tried = ", ".join(str(place) for place in places)
    raise ConfigurationError(f"the DTD catalogue {CATALOGUE_NAME} is in none of: {tried}")


def _shipped_places() -> Iterator[Path]:
    yield Path(__file__).resolve().parents[2] / "dtd"
    yield Path(sysconfig.get_path("data"), "share", "xmlbroker", "dtd")
    if site.ENABLE_USER_SITE:
        user_scheme = sysconfig.get_preferred_scheme("user")
        yield Path(sysconfig.get_path("data", user_scheme), "share", "xmlbroker", "dtd")
    # A distribution's Python may install below another prefix than its scheme's.
    yield Path(sys.prefix, "share", "xmlbroker", "dtd")


@attrs.frozen
class Catalogue:
    """An OASIS XML Catalogue (1.1) of `public` and `system` entries inside its folder.

    Files are read on each request: an edited DTD counts from the next load on.
    """

    folder: Path
    public: Mapping[str, Path]
    #: Absolute.

    system: Mapping[str, Path]
    #: Absolute.

    @classmethod
    def load(cls, folder: Path) -> Catalogue:
        """Raises `ConfigurationError`."""
        folder = folder.resolve()
        file = folder / CATALOGUE_NAME
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            root = etree.parse(str(file), parser).getroot()
        except (OSError, etree.XMLSyntaxError) as error:
            raise ConfigurationError(f"{file}: {error}") from error
        if root.tag != f"{_NAMESPACE}catalog":
            raise ConfigurationError(f"{file}: the root element is not an OASIS catalog")
        entries: dict[str, dict[str, Path]] = {"publicId": {}, "systemId": {}}
        for entry in root.iter(etree.Element):
            if _XML_BASE in entry.attrib:
                raise ConfigurationError(f"{file}:{entry.sourceline}: xml:base is not supported")
            if entry.tag in (root.tag, f"{_NAMESPACE}group"):
                continue
            key = _IDENTIFIER.get(str(entry.tag))
            identifier = entry.get(key) if key is not None else None
            uri = entry.get("uri")
            if key is None or not identifier or not uri:
                raise ConfigurationError(
                    f"{file}:{entry.sourceline}: only public and system entries with "
                    "an identifier and a uri are supported"
                )
            path = _file_inside(folder, uri)
            if path is None:
                raise ConfigurationError(
                    f"{file}:{entry.sourceline}: {uri!r} is no file in the catalogue's folder"
                )
            # The first entry counts, as in the standard.
            entries[key].setdefault(" ".join(identifier.split()), path)
        return cls(folder, entries["publicId"], entries["systemId"])

    def read(self, public_id: str | None, system_id: str) -> bytes | None:
        """Return the text of an external entity, or None.

        The public identifier counts first. A relative system identifier is never a path. If a file
        of the same name ends with `.xsd`, the text has this schema, and what it names among the
        folder's files. Raises `ConfigurationError` for an unreadable or unusable file.
        """
        path = self.public.get(" ".join(public_id.split())) if public_id is not None else None
        path = path or self.system.get(system_id)
        if path is None:
            return None
        schema = path.with_suffix(".xsd")
        try:
            text = path.read_bytes()
            if path.suffix == ".dtd" and schema.is_file():
                packed = read_schema_files([schema, self.folder]).pack()
                return text + b"\n" + write_instruction(packed)
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error
        except BadDtd as error:
            raise ConfigurationError(f"the schema {schema}: {error.text}") from error
        return text

    def references(self) -> tuple[DtdReference, ...]:
        """Return event types, sorted, without modules."""
        found = []
        for public_id in self.public:
            try:
                found.append(DtdReference.from_public_id(public_id))
            except BadName:
                continue
        return tuple(sorted(found))

    def __contains__(self, reference: DtdReference) -> bool:
        return not reference.variant and reference.public_id in self.public


def _file_inside(folder: Path, uri: str) -> Path | None:
    """Return the file if it lies in the folder (links followed)."""
    if ":" in uri or "\\" in uri or "%" in uri:
        return None
    path = (folder / uri).resolve()
    return path if path.is_relative_to(folder) and path.is_file() else None
