"""Interfaces of DTDs for other packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lxml import etree
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from broker.dtd.declaration import DeclaredElement
    from broker.dtd.declared_names import DeclaredNames
    from broker.dtd.fetch_hint import FetchHint
    from broker.dtd.reference import DtdReference
    from broker.dtd.xsd.payload_schema import PayloadSchema
    from broker.errors import NotValid


class IDtd(Interface):
    """One version of one event type: validates events and supplies default attributes."""

    reference: DtdReference = Attribute("Type and version.")
    text: bytes = Attribute("The DTD, self-contained and in canonical form; UTF-8.")
    content_hash: str = Attribute(
        "SHA-256 of `text`, in hexadecimal: identity of the type's content (T26)."
    )
    names: frozenset[str] = Attribute("All element and attribute names declared, with prefixes.")
    elements: Mapping[str, DeclaredElement] = Attribute("Declared elements by qualified name.")
    declared_names: DeclaredNames = Attribute("The DTD's names of elements and attributes.")

    schema: PayloadSchema | None = Attribute("The XML Schema of payloads, beside the DTD.")

    def check(root: etree._Element) -> NotValid | None:
        """Return the error of an invalid event, or None. `root` is the envelope's root element."""

    def is_valid_as_written(root: etree._Element) -> bool:
        """Return True if the DTD permits the event with all names as they are written.

        `schema` is not asked.
        """

    tokenised_attributes: Mapping[str, frozenset[str]] = Attribute(
        "Attributes of payloads that are not CDATA, by element; qualified names."
    )

    def normalise_attributes(root: etree._Element) -> None:
        """Normalise attributes that are not CDATA within `root`, before it is checked."""

    def apply_defaults(root: etree._Element) -> None:
        """Add the DTD's default attributes within `root` (T21)."""


class IDtdSource(Interface):
    """Source of DTD texts (Mspaces M14).

    A source that asks the event's sender takes the link from `hint.link`. Nodes pass on
    `IDtd.text`, which is self-contained.
    """

    name: str = Attribute("Name of this source in errors.")

    def fetch(reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """Return the text of the DTD.

        Fails with `UnknownType` if this source can not supply it, and with `ForbiddenPointer` if it
        may not fetch from the event's pointer.
        """


class IDtdCache(Interface):
    """DTDs of this node, several versions of a type at once (M13, M17)."""

    changes: int = Attribute("Number of DTDs that were added or removed so far.")

    def get(reference: DtdReference) -> IDtd | None:
        """Return the DTD if it is loaded, without fetching."""

    def lookup(reference: DtdReference, hint: FetchHint) -> Deferred[IDtd]:
        """Return the DTD, fetched if necessary; concurrent calls share one fetch (T25).

        Fails with `UnknownType`, `ForbiddenPointer` or `BadDtd`, and for a while after such a
        failure at once. Fails with `Overloaded` if too many calls wait for it.
        """

    def add(reference: DtdReference, text: bytes) -> IDtd:
        """Load this text as the DTD of that type and version.

        Raises `BadDtd` if it is unusable, or contradicts the known text (T26).
        """

    def remove(reference: DtdReference) -> bool:
        """Remove a reference, with its failures; True if a DTD was loaded."""

    def pin(reference: DtdReference) -> None:
        """Exempt a loaded DTD from all bounds; raises `UnknownType` if it is not loaded."""

    def unpin(reference: DtdReference) -> None:
        """Undo `pin`; a catalogue DTD stays pinned."""

    def references() -> tuple[DtdReference, ...]:
        """Return all loaded and catalogue DTDs, sorted."""

    def versions(type_name: str) -> tuple[DtdReference, ...]:
        """Return the versions of one type, oldest first."""
