"""Recognised events as trees, for queries that no shape decides: filled in, not parsed again."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from broker.event.envelope import Header
from broker.matching.envelope import EnvelopeParts
from broker.matching.evaluation import Subject
from broker.matching.examination import Examiner
from broker.matching.shape.form import Form
from broker.matching.shape.shape import Shape

#: Of all shapes whose forms are kept; a node takes about 100 bytes. Beyond it the oldest go.
MAX_NODES = 262_144


class FilledSubject(Subject):
    """An event in its shape's forms; until they are filled with the next one."""

    __slots__ = ("_envelope_form", "_document_form", "_values")

    def __init__(
        self, header: Header, values: Sequence[bytes], envelope: Form, document: Form
    ) -> None:
        super().__init__(envelope.root, EnvelopeParts(header, None))
        self._envelope_form = envelope
        self._document_form = document
        self._values = values

    @property
    def envelope(self) -> etree._Element:
        """See `Subject`."""
        return self._envelope_form.filled(self._values)

    def document(self) -> etree._Element:
        """See `Subject`."""
        return self._document_form.filled(self._values)


class Forms:
    """The forms of shapes with undecided queries: made by a parse of the first such event."""

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner
        self._known: dict[Shape, tuple[Form, Form]] = {}
        self._nodes = 0

    def subject(
        self, shape: Shape, values: Sequence[bytes], header: Header, document: bytes
    ) -> Subject:
        """A recognised event, with its values and its header; one of a shape at a time."""
        forms = self._known.get(shape)
        if forms is None:
            subject = self._examiner.reread(document, header, shape.dtd)
            if shape.nodes > MAX_NODES:
                return subject
            forms = self._keep(shape, subject)
        return FilledSubject(header, values, *forms)

    def forget(self, shape: Shape) -> None:
        """Drop a shape's forms, if there are any."""
        if self._known.pop(shape, None) is not None:
            self._nodes -= shape.nodes

    def _keep(self, shape: Shape, subject: Subject) -> tuple[Form, Form]:
        while self._nodes + shape.nodes > MAX_NODES:
            self.forget(next(iter(self._known)))
        self._nodes += shape.nodes
        self._known[shape] = forms = forms_of(shape, subject)
        return forms


def forms_of(shape: Shape, subject: Subject) -> tuple[Form, Form]:
    """The forms of the envelope and of what queries address, made of an event of the shape."""
    envelope = Form(shape.tree.children[0], subject.envelope)
    if shape.payload is None:
        return envelope, envelope
    return envelope, Form(shape.payload.children[0], subject.document())
