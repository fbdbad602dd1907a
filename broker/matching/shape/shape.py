"""One shape: what it knows of its documents, and how it recognises one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.matching.contract import Accepted, AcceptedWithLatestVersion
from broker.matching.shape.document_cut import DocumentCut, Token, copy_as_document
from broker.matching.shape.document_template import DocumentTemplate
from broker.matching.shape.header_fields import (
    HeaderFields,
    HeaderReaderFactory,
    ReadHeader,
    locate_header_fields,
)
from broker.matching.shape.reason import NotLearnable, Reason
from broker.matching.shape.tree import Node

#: What a node of the tree holds, about: itself, two lists, a value.
_NODE_BYTES = 320


class Shape:
    """Documents of one type that differ in the values of `slots` alone (DESIGN 6).

    `tree` is the root node of the whole event, with the DTD's defaults; `payload` that of the
    payload as a document of its own, None if the event has none. `fields` says where the
    envelope's fields lie. The shape holds for events validated by a DTD of the content of `dtd`.
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
        "verdict_class",
    )

    def __init__(
        self,
        cut: DocumentCut,
        slots: tuple[Token, ...],
        reference: DtdReference,
        dtd: IDtd,
        readers: HeaderReaderFactory,
        max_bytes: int,
    ) -> None:
        """The shape of a document that was cut; its tokens but for `slots` are constants.

        Takes the cut's tree. Raises `NotLearnable` for an envelope of which no header can be read.
        """
        self.reference = reference
        self.dtd = dtd
        self.slot_count = len(slots)
        self.tree = cut.tree
        for token, value in zip(cut.tokens, cut.values_of(cut.tokens), strict=True):
            token.node.value = value
        for number, token in enumerate(slots):
            token.node.value = number
        self.payload: Node | None = None if cut.payload is None else copy_as_document(cut.payload)
        self.fields: HeaderFields = locate_header_fields(cut.tree.children[0])
        read = readers.make_reader(self.fields, reference)
        if read is None:
            raise NotLearnable(Reason.UNVERIFIED)
        #: The header of the event with these values. Raises `BadEnvelope` exactly when
        #: `checked_header` or `check_bundles` would. (An attribute, as `values`: one call less for
        #: each event.)
        self.read_header: ReadHeader = read
        #: The class of the verdicts on its documents.
        self.verdict_class: type[Accepted] = (
            AcceptedWithLatestVersion if self.fields.names_latest else Accepted
        )
        self._template = DocumentTemplate(
            cut.constants_around(slots), [token.attribute is None for token in slots], max_bytes
        )
        #: The values of a document's slots in its order, None if it is not of this shape. A value
        #: is what stands in the document and also what the parser would report; UTF-8.
        self.extract_values: Callable[[bytes], tuple[bytes, ...] | None] = (
            self._template.extract_values
        )
        self.node_count = self.tree.last + (0 if self.payload is None else self.payload.last)
        #: The cache's: documents recognised, when last chosen, and under which key it is found.
        self.hits = self.last_used = self.tag_count = 0

    @property
    def constant_bytes(self) -> int:
        """The length of all constants."""
        return self._template.constant_bytes

    @property
    def tree_bytes(self) -> int:
        """What all but the expressions takes in memory, about."""
        return _NODE_BYTES * self.node_count + 2 * self.constant_bytes

    def compile_expression(self, values: Sequence[bytes]) -> int:
        """Compile what documents with values like these need; without, none is recognised.

        Returns the bytes of memory that it takes.
        """
        return self._template.compile_expression(values)
