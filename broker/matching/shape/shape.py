"""One shape: what it knows of its documents, and how it recognises one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.matching.contract import Accepted, LatestNamed
from broker.matching.shape.cutting import Cut, Token, document_of
from broker.matching.shape.fields import HeaderFields, HeaderReader, ReadHeader, header_fields
from broker.matching.shape.pattern import Template
from broker.matching.shape.reasons import NotLearnable, Reason
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
        "bucket",
        "dtd",
        "fields",
        "header",
        "hits",
        "nodes",
        "payload",
        "reference",
        "slots",
        "tree",
        "used",
        "values",
        "verdict",
    )

    def __init__(
        self,
        cut: Cut,
        slots: tuple[Token, ...],
        reference: DtdReference,
        dtd: IDtd,
        readers: HeaderReader,
        max_bytes: int,
    ) -> None:
        """The shape of a document that was cut; its tokens but for `slots` are constants.

        Takes the cut's tree. Raises `NotLearnable` for an envelope of which no header can be read.
        """
        self.reference = reference
        self.dtd = dtd
        self.slots = len(slots)
        self.tree = cut.tree
        for token, value in zip(cut.tokens, cut.values(cut.tokens), strict=True):
            token.node.value = value
        for number, token in enumerate(slots):
            token.node.value = number
        self.payload: Node | None = None if cut.payload is None else document_of(cut.payload)
        self.fields: HeaderFields = header_fields(cut.tree.children[0])
        read = readers.of(self.fields, reference)
        if read is None:
            raise NotLearnable(Reason.UNVERIFIED)
        #: The header of the event with these values. Raises `BadEnvelope` exactly when
        #: `checked_header` or `check_bundles` would. (An attribute, as `values`: one call less for
        #: each event.)
        self.header: ReadHeader = read
        #: The class of the verdicts on its documents.
        self.verdict: type[Accepted] = LatestNamed if self.fields.names_latest else Accepted
        self._template = Template(
            cut.constants(slots), [token.attribute is None for token in slots], max_bytes
        )
        #: The values of a document's slots in its order, None if it is not of this shape. A value
        #: is what stands in the document and also what the parser would report; UTF-8.
        self.values: Callable[[bytes], tuple[bytes, ...] | None] = self._template.cut
        self.nodes = self.tree.last + (0 if self.payload is None else self.payload.last)
        #: The cache's: documents recognised, when last chosen, and under which key it is found.
        self.hits = self.used = self.bucket = 0

    @property
    def constant_bytes(self) -> int:
        """The length of all constants."""
        return self._template.constant_bytes

    @property
    def tree_bytes(self) -> int:
        """What all but the expressions takes in memory, about."""
        return _NODE_BYTES * self.nodes + 2 * self.constant_bytes

    def prepare(self, values: Sequence[bytes]) -> int:
        """Compile what documents with values like these need; without, none is recognised.

        Returns the bytes of memory that it takes.
        """
        return self._template.compile(values)
