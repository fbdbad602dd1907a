"""The catalogue as a source of DTDs."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from broker.dtd.catalogue import Catalogue
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import ConfigurationError, UnknownType


@implementer(IDtdSource)
@attrs.frozen
class CatalogueSource:
    """DTDs on this node's own disk, read without waiting."""

    catalogue: Catalogue
    name: str = attrs.field(default="the catalogue", init=False)

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """Fails with `UnknownType`."""
        if reference.variant:
            return fail(UnknownType("no variants"))
        try:
            text = self.catalogue.read(reference.public_id, reference.system_id)
        except ConfigurationError as error:
            return fail(UnknownType(error.text))
        if text is None:
            return fail(UnknownType("no such DTD"))
        return succeed(text)
