"""One shape: its template, tree and header fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.dtd.xsd.slot_check import IsValid
from broker.event.envelope import Validation
from broker.matching.contract import Accepted, AcceptedWithLatestVersion
from broker.matching.shape.document_cut import (
    DocumentCut,
    NotLearnable,
    Reason,
    Token,
    copy_as_document,
)
from broker.matching.shape.document_template import DocumentTemplate
from broker.matching.shape.header_fields import (
    HeaderFields,
    HeaderReaderFactory,
    ReadHeader,
    locate_header_fields,
)
from broker.matching.shape.tree import Node
from broker.matching.undescribed import is_undescribed

ExtractValues: TypeAlias = Callable[[bytes], tuple[bytes, ...] | None]

#: Approximate memory of a tree node: the object, two lists, a value.
_NODE_BYTES = 320


class Shape:
    """Documents of one type that differ only in the values of their slots (DESIGN 6).

    `tree` is the root node of the event with the DTD's defaults, `payload` that of the payload as a
    document. It is valid for a DTD with the content of `dtd`.
    """

    __slots__ = (
        "_template",
        "tag_count",
        "dtd",
        "fields",
        "read_header",
        "hits",
        "node_count",
        "payload",
        "reference",
        "slot_count",
        "tree",
        "last_used",
        "extract_values",
        "validation",
        "verdict_class",
    )

    def __init__(
        self,
        cut: DocumentCut,
        slots: tuple[Token, ...],
        dtd: IDtd,
        readers: HeaderReaderFactory,
        max_bytes: int,
    ) -> None:
        """Make the shape of a cut document, whose tree it takes over. Raises `NotLearnable`."""
        #: Of the type, whichever text of its DTD is `dtd`.
        self.reference = reference = DtdReference(dtd.reference.type, dtd.reference.version)
        self.dtd = dtd
        self.validation = Validation.UNDESCRIBED if is_undescribed(dtd) else Validation.DESCRIBED
        self.slot_count = len(slots)
        self.tree = cut.tree
        for token, value in zip(cut.tokens, cut.values_of(cut.tokens), strict=True):
            token.node.value = value
        for number, token in enumerate(slots):
            token.node.value = number
        self.payload: Node | None = None if cut.payload is None else copy_as_document(cut.payload)
        self.fields: HeaderFields = locate_header_fields(cut.tree.children[0])
        read = readers.make_reader(self.fields, reference, self.validation)
        if read is None:
            raise NotLearnable(Reason.UNVERIFIED)
        #: Reads the header from slot values. Raises `BadEnvelope` exactly if `parse_header` or
        #: `check_bundles` would. (An attribute, like `extract_values`, saves one call per event.)
        self.read_header: ReadHeader = read
        #: The class of verdicts on its documents.
        self.verdict_class: type[Accepted] = (
            AcceptedWithLatestVersion if self.fields.names_latest else Accepted
        )
        self._template = DocumentTemplate(
            cut.constants_around(slots), [token.attribute is None for token in slots], max_bytes
        )
        #: Returns a document's slot values in order; None for another shape, and for values that
        #: the schema may forbid. A value equals the parser's value, in UTF-8.
        self.extract_values: ExtractValues = _with_checks(
            self._template.extract_values,
            [(n, slot.is_valid) for n, slot in enumerate(slots) if slot.is_valid is not None],
        )
        self.node_count = self.tree.last + (0 if self.payload is None else self.payload.last)
        #: For the cache: recognised documents, time of the last use, and key of the bucket.
        self.hits = self.last_used = self.tag_count = 0

    @property
    def constant_bytes(self) -> int:
        return self._template.constant_bytes

    @property
    def tree_bytes(self) -> int:
        return _NODE_BYTES * self.node_count + 2 * self.constant_bytes

    def is_compiled_for(self, values: Sequence[bytes]) -> bool:
        """Return True if documents with values like these are recognised."""
        return self._template.is_compiled_for(values)

    def compile_expression(self, values: Sequence[bytes], max_slots: int) -> int:
        """Compile the expression for documents with values like these, or a part of it; return the
        bytes used."""
        return self._template.compile_expression(values, max_slots)


def _with_checks(
    extract_values: ExtractValues, checks: Sequence[tuple[int, IsValid]]
) -> ExtractValues:
    if not checks:
        return extract_values

    def extract_valid_values(document: bytes) -> tuple[bytes, ...] | None:
        values = extract_values(document)
        if values is not None:
            for number, is_valid in checks:
                if not is_valid(values[number]):
                    return None
        return values

    return extract_valid_values
