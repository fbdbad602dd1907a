"""Where a node gets DTDs from: its catalogue, the node that sent the event, the event's pointer.

The second is `IDtdSource` for whoever has the links: it asks the link that the hint names.
"""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from broker.dtd.catalogue import Catalogue
from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import ConfigurationError, UnknownType


@implementer(IDtdSource)
@attrs.frozen
class CatalogueSource:
    """The DTDs on this node's own disk. Reads a small local file, so it does not wait."""

    catalogue: Catalogue
    name: str = attrs.field(default="the catalogue", init=False)

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """The driver's text; `UnknownType` if the catalogue has none or the file is gone."""
        if reference.variant:
            return fail(UnknownType("has no variants"))
        try:
            text = self.catalogue.read(reference.public_id, reference.system_id)
        except ConfigurationError as error:
            return fail(UnknownType(error.text))
        if text is None:
            return fail(UnknownType("has no such DTD"))
        return succeed(text)
