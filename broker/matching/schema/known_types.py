"""The event types known to a node, each version with its schema."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from broker.dtd.catalogue import Catalogue
from broker.dtd.dtd import Dtd
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd, IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, ConfigurationError
from broker.matching.schema.namespaced_name import NamespacedNames, list_namespaces
from broker.matching.schema.schema import Schema
from broker.matching.schema.schema_node import Namespaces

#: Cached schemas, least recently used first. An evicted schema is built again on demand.
MAX_SCHEMAS = 64
#: Types, and names of elements (some 100 bytes each), that are kept for advice about namespaces.
#: With more there is no advice.
MAX_NAMED_TYPES = 1_000
MAX_NAMES = 100_000


class KnownTypes:
    """All event types in the node's cache and in catalogue folders.

    Looking at a type of a folder does not add it to the cache, where it would count as new.
    """

    def __init__(self, dtds: IDtdCache, shipped: Catalogue, folders: Sequence[Catalogue]) -> None:
        """`shipped` has the modules that DTDs in `folders` may include."""
        self._dtds = dtds
        self._shipped = shipped
        self._folders = {
            reference: folder for folder in reversed(folders) for reference in folder.references()
        }
        self._schemas: OrderedDict[DtdReference, Schema | None] = OrderedDict()
        self._namespaces: OrderedDict[DtdReference, Mapping[str, Namespaces]] = OrderedDict()
        self._names = 0
        """In `_namespaces`."""
        self._listed_at = -1
        self._namespaced = NamespacedNames({})

    def references(self) -> tuple[DtdReference, ...]:
        return tuple(sorted({*self._dtds.references(), *self._folders}))

    def has_schema(self, reference: DtdReference) -> bool:
        return reference in self._schemas

    def get_schema(self, reference: DtdReference) -> Schema | None:
        """Return the schema of a type; None if its DTD is not available at once or not usable."""
        dtd = self._dtds.get(reference)
        if reference in self._schemas:
            known = self._schemas[reference]
            if dtd is None or (known is not None and known.content_hash == dtd.content_hash):
                self._schemas.move_to_end(reference)
                return known
        dtd = dtd or self.get_dtd(reference)
        schema = self._schemas[reference] = None if dtd is None else Schema(dtd)
        if len(self._schemas) > MAX_SCHEMAS:
            self._schemas.popitem(last=False)
        return schema

    def namespaced_names(self, most_new: int) -> NamespacedNames | None:
        """Return the names that are only in namespaces; None until all types have been read.

        `most_new`: types that are read in this call.
        """
        changes = self._dtds.changes
        if changes == self._listed_at:
            return self._namespaced
        references = self.references()
        for reference in self._namespaces.keys() - set(references):
            self._drop_namespaces(reference)
        known = self._namespaces
        unread = [reference for reference in references if reference not in known]
        is_full = len(references) > MAX_NAMED_TYPES
        for reference in () if is_full else unread[:most_new]:
            before = len(known)
            self.namespaces_of(reference)
            is_full = is_full or len(known) <= before
        if not is_full and len(unread) > most_new:
            return None
        # Reading a DTD of the catalogue is a change too.
        self._listed_at = self._dtds.changes
        self._namespaced = NamespacedNames({} if is_full else known)
        return self._namespaced

    def _drop_namespaces(self, reference: DtdReference) -> None:
        self._names -= len(self._namespaces.pop(reference))

    def namespaces_of(self, reference: DtdReference) -> Mapping[str, Namespaces]:
        """Return the namespaces of a type's elements by local name, as far as known."""
        known = self._namespaces.get(reference)
        if known is None:
            dtd = self._dtds.get(reference) or self.get_dtd(reference)
            # Texts under one reference differ only in a conflict; then either will do for advice.
            known = {} if dtd is None else list_namespaces(dtd.elements)
            self._namespaces[reference] = known
            self._names += len(known)
            while self._names > MAX_NAMES or len(self._namespaces) > MAX_NAMED_TYPES:
                self._drop_namespaces(next(iter(self._namespaces)))
        else:
            self._namespaces.move_to_end(reference)
        return known

    def previous_version(self, reference: DtdReference) -> DtdReference | None:
        older = [each for each in self._dtds.versions(reference.type) if each < reference]
        return older[-1] if older else None

    def get_dtd(self, reference: DtdReference) -> IDtd | None:
        """Return the DTD of a type; None if it is not available at once or not usable."""
        if reference not in self._folders:
            found: list[IDtd] = []
            looked_up = self._dtds.lookup(reference, FetchHint())
            looked_up.addCallbacks(found.append, lambda _: None)
            return found[0] if found else None
        known = self._dtds.get(reference)
        if known is not None:
            return known
        try:
            text = self._folders[reference].read(reference.public_id, reference.system_id)
            return None if text is None else Dtd.load(reference, text, self._shipped.read)
        except (BadDtd, ConfigurationError):
            return None
