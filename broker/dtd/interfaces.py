"""What other floors may know of DTDs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lxml import etree
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from broker.dtd.declared import DeclaredElement
    from broker.dtd.hint import FetchHint
    from broker.dtd.reference import DtdReference
    from broker.errors import NotValid


class IDtd(Interface):
    """One version of one event type: validates events and supplies their default attributes."""

    reference: DtdReference = Attribute("Type and version.")
    text: bytes = Attribute("The DTD, self-contained and in canonical form; UTF-8.")
    content_hash: str = Attribute("SHA-256 of `text`, in hexadecimal: what a type means (T26).")
    names: frozenset[str] = Attribute("All element and attribute names declared, with prefixes.")
    elements: Mapping[str, DeclaredElement] = Attribute("What it declares, by qualified name.")

    def check(root: etree._Element) -> NotValid | None:
        """What makes the event invalid, or None. `root` is the envelope's root element."""

    def apply_defaults(root: etree._Element) -> None:
        """Add the attributes that the document leaves to the DTD (T21), within `root`."""


class IDtdSource(Interface):
    """Where the text of a DTD may be had (Mspaces M14).

    A source that asks the node which sent the event takes the link from `hint.link`; the text that
    a node hands on is `IDtd.text`, which refers to nothing else.
    """

    name: str = Attribute("What an error calls this source.")

    def fetch(reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """The text of the DTD.

        Fails with `UnknownType` if this source does not have it or can not get it, and with
        `ForbiddenPointer` if it may not look where the event points.
        """


class IDtdCache(Interface):
    """The DTDs that this node knows, several versions of a type side by side (M13, M17)."""

    def get(reference: DtdReference) -> IDtd | None:
        """The DTD if it is loaded; never waits and never asks anyone."""

    def lookup(reference: DtdReference, hint: FetchHint) -> Deferred[IDtd]:
        """The DTD, fetched if it must be; concurrent calls share one fetch (T25).

        Fails with `UnknownType`, `ForbiddenPointer` or `BadDtd`, and for a while after such a
        failure at once; with `Overloaded` if too many already wait for it.
        """

    def add(reference: DtdReference, text: bytes) -> IDtd:
        """Load this text as the DTD of that type and version.

        Raises `BadDtd` if it can not be used, or contradicts the text known already (T26).
        """

    def forget(reference: DtdReference) -> bool:
        """Drop all that is known of a reference, failures too; True if a DTD was loaded."""

    def pin(reference: DtdReference) -> None:
        """Keep a loaded DTD for good, whatever the bounds; raises `UnknownType` if it is not."""

    def unpin(reference: DtdReference) -> None:
        """Let a pinned DTD take part in the bounds again; one of the catalogue stays pinned."""

    def references() -> tuple[DtdReference, ...]:
        """All that is loaded or in the catalogue, sorted."""

    def versions(type_name: str) -> tuple[DtdReference, ...]:
        """Those of one type, oldest version first."""
