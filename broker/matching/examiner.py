"""Full examination of a document: screening, parsing, validation, defaults, envelope."""

from __future__ import annotations

from lxml import etree

from broker.dtd.interfaces import IDtd, IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, InvalidEvent
from broker.event.envelope import Header, Liveness, Validation
from broker.matching.contract import NO_VARIANTS, DtdNeeded, TypeMissing, Variants
from broker.matching.document_limits import DocumentLimits
from broker.matching.document_parser import DocumentParser
from broker.matching.envelope import EnvelopeParts, find_payload, read_envelope
from broker.matching.envelope_structure import check_envelope_structure
from broker.matching.name_watch import NameWatch
from broker.matching.prolog import Prolog, PrologReader, check_prolog
from broker.matching.screening import check_entity_references, screen_document
from broker.matching.undescribed import find_dtd, is_undescribed
from broker.matching.whitespace import mark_mixed_runs
from broker.matching.xpath_evaluation import ParsedEvent

_NO_NAMES: frozenset[str] = frozenset()
#: Holder of the share of names of events in logs.
_LOGGED = ""


class Examiner:
    def __init__(self, dtds: IDtdCache, limits: DocumentLimits, names: NameWatch | None) -> None:
        self._dtds = dtds
        self._limits = limits
        self._parser = DocumentParser(limits)
        self._prologs = PrologReader()
        self.name_watch = names or NameWatch()

    def examine(
        self,
        document: bytes,
        variants: Variants = NO_VARIANTS,
        holder: str = "",
        *,
        marked: bool = False,
    ) -> ParsedEvent | TypeMissing:
        """Return the event if it is valid. Raises `InvalidEvent`.

        With `marked`, it need not be valid by its DTD. `holder` has the share of undeclared names.
        """
        screen_document(document, self._limits)
        prolog = self._prologs.read(document)
        reference = prolog.reference
        if variants and reference is not None:
            reference = variants.get(reference, reference)
        dtd = None if reference is None else find_dtd(self._dtds, reference)
        keep_names, has_declared_names = True, False
        if self.name_watch.may_exceed(len(document), holder):
            if reference is None:
                raise _missing_doctype()
            if dtd is None:
                return TypeMissing(reference, prolog.system_id)
            check_entity_references(document, prolog.end)
            keep_names = self._has_room(document, prolog, dtd, holder)
        try:
            root = self._parse(document, prolog, keep_names=keep_names)
            if reference is None:
                raise _missing_doctype()
            if document.find(b"&", prolog.end) >= 0:
                check_entity_references(document, prolog.end)
            if dtd is None:
                if keep_names:
                    self._count_names(document, prolog, dtd, holder)
                return TypeMissing(reference, prolog.system_id)
            dtd.normalise_attributes(root)
            if marked:
                check_envelope_structure(root)
            else:
                has_declared_names = dtd.is_valid_as_written(root)
                if not has_declared_names:
                    invalid = dtd.check(root)
                else:
                    invalid = None if dtd.schema is None else dtd.schema.check(root)
                if invalid is not None:
                    raise invalid
            dtd.apply_defaults(root)
        except InvalidEvent:
            if keep_names:
                self._count_names(document, prolog, dtd, holder)
            raise
        if keep_names and not (has_declared_names and _has_no_instructions(document, prolog)):
            self._count_names(document, prolog, dtd, holder)
        validation = Validation.MARKED if marked else _validation_by(dtd)
        parts = read_envelope(root, reference, validation)
        return ParsedEvent(root, parts, keep_names=keep_names)

    def find_known_type(self, document: bytes) -> DtdReference | None:
        """Return the type that a document names, if its DTD is in the cache."""
        try:
            reference = self._prologs.read(document).reference
        except InvalidEvent:
            return None
        return None if reference is None or self._dtds.get(reference) is None else reference

    def _parse(self, document: bytes, prolog: Prolog, *, keep_names: bool) -> etree._Element:
        marked = mark_mixed_runs(document, prolog.end)
        root = self._parser.parse(marked, keep_names=keep_names)
        check_prolog(prolog, root)
        return root

    # In its own frame: the copy of the document is freed before the parse.
    def _has_room(self, document: bytes, prolog: Prolog, dtd: IDtd | None, holder: str) -> bool:
        declared = _NO_NAMES if dtd is None else dtd.names
        return self.name_watch.has_room(prolog.extras + document[prolog.end :], declared, holder)

    def _count_names(self, document: bytes, prolog: Prolog, dtd: IDtd | None, holder: str) -> None:
        declared = _NO_NAMES if dtd is None else dtd.names
        text = prolog.extras + document[prolog.end :]
        self.name_watch.count_undeclared(text, declared, holder)

    def parse_recognised(self, document: bytes, header: Header, dtd: IDtd) -> ParsedEvent:
        """Parse a recognised event, which is valid by `dtd` and has this header."""
        root = self._parser.parse(document)
        dtd.normalise_attributes(root)
        dtd.apply_defaults(root)
        return ParsedEvent(root, EnvelopeParts(header, find_payload(root)))

    def parse_logged(
        self,
        document: bytes,
        liveness: Liveness | None,
        variants: Variants = NO_VARIANTS,
        *,
        marked: bool = False,
    ) -> ParsedEvent:
        """Parse an event that was accepted before, without validation.

        `liveness` is the effective value; None means the document's own. Raises `DtdNeeded` if its
        DTD is not in the cache; `InvalidEvent` for unreadable bytes.
        """
        prolog = self._prologs.read(document)
        reference = prolog.reference
        if reference is None:
            raise _missing_doctype()
        if variants:
            reference = variants.get(reference, reference)
        dtd = find_dtd(self._dtds, reference)
        if dtd is None:
            raise DtdNeeded(TypeMissing(reference, prolog.system_id))
        keep_names = not self.name_watch.may_exceed(len(document), _LOGGED) or self._has_room(
            document, prolog, dtd, _LOGGED
        )
        root = self._parse(document, prolog, keep_names=keep_names)
        has_declared_names = not (is_undescribed(dtd) or dtd.declared_names.namespaces)
        if keep_names and not (has_declared_names and _has_no_instructions(document, prolog)):
            self._count_names(document, prolog, dtd, _LOGGED)
        if is_undescribed(dtd):
            check_envelope_structure(root)
        dtd.normalise_attributes(root)
        dtd.apply_defaults(root)
        validation = Validation.MARKED if marked else _validation_by(dtd)
        parts = read_envelope(root, reference, validation)
        return ParsedEvent(root, parts, liveness, keep_names=keep_names)


def _validation_by(dtd: IDtd) -> Validation:
    return Validation.UNDESCRIBED if is_undescribed(dtd) else Validation.DESCRIBED


def _missing_doctype() -> BadEnvelope:
    return BadEnvelope("the document has no DOCTYPE, which would name its type", line=1, column=1)


def _has_no_instructions(document: bytes, prolog: Prolog) -> bool:
    """Return True if a document has no targets of processing instructions.

    They are names too, and no DTD declares them.
    """
    if prolog.extras:
        return False
    # A question mark is rare, and a single character is found much faster.
    return document.find(b"?", prolog.end) < 0 or document.find(b"<?", prolog.end) < 0
