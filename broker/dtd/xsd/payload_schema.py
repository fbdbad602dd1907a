"""The schema of one event type: validates payloads."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from lxml import etree

from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import SchemaBundle
from broker.dtd.xsd.slot_types import SlotTypes
from broker.dtd.xsd.table_process import shared_tables
from broker.dtd.xsd.validator import SchemaValidator, shared_validator
from broker.errors import BadDtd, BadEnvelope, NotValid, SchemaUnusable
from broker.event.payload import find_payload_element


class PayloadSchema:
    """The payload must be valid as a document of its own, without attributes that the DTD
    supplies."""

    def __init__(
        self, reference: DtdReference, packed: bytes, validator: SchemaValidator | None = None
    ) -> None:
        """Compile a packed schema. Raises `BadDtd` with its file and line."""
        SchemaBundle.unpack(packed)
        self._reference = reference
        self._packed = packed
        self.content_hash = hashlib.sha256(packed).hexdigest()
        self._validator = validator or shared_validator()
        reply = self._validator.compile(self.content_hash, packed, str(reference))
        if reply.error is not None:
            where = f"{reply.file}:{max(reply.line, 1)}: " if reply.file else ""
            raise BadDtd(f"the schema can not be used: {where}{reply.error}")

    @property
    def slot_types(self) -> SlotTypes | None:
        """Types of the values of valid events; None while a process reads them."""
        return shared_tables().get(self.content_hash, self._packed)

    @property
    def has_slot_types(self) -> bool:
        """Return True if some values may vary in valid events, as far as is known."""
        types = self.slot_types
        return types is not None and bool(types.roots)

    def check(self, root: etree._Element) -> NotValid | None:
        """Return the error of an event whose payload is not valid."""
        try:
            payload = find_payload_element(root)
        except BadEnvelope:
            # The envelope is checked later.
            return None
        if payload is None:
            return None
        document = cast(Any, etree.tostring)(payload, encoding="UTF-8", with_tail=False)
        reply = self._validator.check(
            self.content_hash, self._packed, document, str(self._reference)
        )
        if reply.error is None:
            return None
        found = None
        if reply.element:
            elements = enumerate(payload.iter("*"), 1)
            found = next((each for n, each in elements if n == reply.element), None)
        line = (payload if found is None else found).sourceline
        kind = SchemaUnusable if reply.is_undecided else NotValid
        return kind(
            f"{reply.error} (schema of {self._reference})",
            line=line if isinstance(line, int) else 0,
        )
