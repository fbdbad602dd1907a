"""Events without a DTD: well-formed, with a valid envelope and at most one payload of any kind.

Where a DTD settles something, there is nothing: no defaults, no white space that does not count,
no ids. A reference to a type says that its events are validated so. In `Variants` it takes the
place of the reference to a DTD.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from lxml import etree
from zope.interface import implementer

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import DeclaredNames
from broker.dtd.interfaces import IDtd, IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import NotValid
from broker.matching.contract import NO_VARIANTS, Variants
from broker.matching.envelope_structure import apply_envelope_defaults, check_envelope_structure

#: In place of the SHA-256 of a text.
_HASH: Final = "undescribed"


class UndescribedReference(DtdReference):
    """A type whose events are validated without a DTD. It differs from the type's reference."""

    def __str__(self) -> str:
        return f"{self.type} {self.version} without a DTD"


@implementer(IDtd)
class UndescribedType:
    text: Final = b""
    content_hash: Final = _HASH
    names: Final[frozenset[str]] = frozenset()
    elements: Final[Mapping[str, DeclaredElement]] = MappingProxyType({})
    declared_names: Final = DeclaredNames({})
    tokenised_attributes: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})
    schema: Final = None

    def __init__(self, reference: UndescribedReference) -> None:
        self.reference = reference

    def check(self, root: etree._Element) -> NotValid | None:
        try:
            check_envelope_structure(root)
        except NotValid as error:
            return error
        return None

    def is_valid_as_written(self, root: etree._Element) -> bool:
        """Return False: no name is declared."""
        return False

    def normalise_attributes(self, root: etree._Element) -> None:
        """Do nothing: each attribute is CDATA."""

    def apply_defaults(self, root: etree._Element) -> None:
        """Add the defaults of the envelope."""
        apply_envelope_defaults(root)


_make_type = lru_cache(maxsize=1_000)(UndescribedType)


def find_dtd(dtds: IDtdCache, reference: DtdReference) -> IDtd | None:
    """Return the DTD that validates events of a reference; None if it is not loaded."""
    if isinstance(reference, UndescribedReference):
        return _make_type(reference)
    dtd: IDtd | None = dtds.get(reference)
    return dtd


def is_undescribed(dtd: IDtd) -> bool:
    return dtd.content_hash == _HASH


@lru_cache(maxsize=1_000)
def undescribed(reference: DtdReference) -> UndescribedReference:
    return UndescribedReference(reference.type, reference.version)


class _EveryType(Mapping[DtdReference, DtdReference]):
    """All types without their DTDs."""

    def __getitem__(self, reference: DtdReference) -> DtdReference:
        return undescribed(reference)

    def __iter__(self) -> Iterator[DtdReference]:
        return iter(())

    def __len__(self) -> int:
        return 1


#: No event is validated by a DTD.
EVERY_TYPE_UNDESCRIBED: Final[Variants] = _EveryType()


def without_dtds(references: Iterable[DtdReference], variants: Variants = NO_VARIANTS) -> Variants:
    """Return variants in which these types are validated without the DTDs that they refer to."""
    replaced = {
        plain: undescribed(plain)
        for reference in references
        if variants.get(plain := DtdReference(reference.type, reference.version), plain)
        == reference
    }
    return {**variants, **replaced} if replaced else variants
