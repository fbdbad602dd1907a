"""Prologs: their type and pointer, and correct caching."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.dtd.reference import DtdReference
from broker.errors import InvalidEvent
from broker.matching.prolog import ROOT_NAME, Prolog, PrologReader

DOCTYPE = b"<!DOCTYPE Mspaces:Event PUBLIC '-//xmlbroker//DTD flight 1.0//EN' \"there\">"


def test_prolog_has_type_and_pointer() -> None:
    document = b"<?xml version='1.0'?>\n" + DOCTYPE + b"<!-- x --><Mspaces:Event/>"
    assert PrologReader().read(document) == Prolog(
        DtdReference("flight", "1.0"), "there", document.index(b"<Msp"), b"<!-- x -->"
    )


def test_document_without_doctype_has_no_type() -> None:
    assert PrologReader().read(b"<Mspaces:Event/>") == Prolog(None, "", 0, b"")


def test_cached_prologs_are_bounded() -> None:
    reader = PrologReader()
    for n in range(3000):
        assert reader.read(DOCTYPE.replace(b"there", b"%d" % n) + b"<Mspaces:Event/>").reference
    assert len(reader._known) <= 1024


_PIECES = st.lists(
    st.sampled_from(
        [
            DOCTYPE,
            DOCTYPE.replace(b">", b"[]>"),
            b"<?xml version='1.0'?>",
            b"<!--",
            b"-->",
            b"<?p",
            b"?>",
        ]
        + [b" ", b"\n", b"<Mspaces:Event", b"<a>", b"/>", b"\xef\xbb\xbf", b"<!DOCTYPE", b"x", b"["]
    ),
    max_size=9,
).map(b"".join)


@given(st.lists(_PIECES, min_size=1, max_size=6))
def test_cached_prologs_give_the_same_result(documents: list[bytes]) -> None:
    reader = PrologReader()
    for document in documents + documents:
        assert _outcome(reader, document) == _outcome(PrologReader(), document)


@given(st.lists(_PIECES.map(lambda text: text + b"<" + ROOT_NAME), max_size=6))
def test_changes_name_the_prolog_of_each_document(documents: list[bytes]) -> None:
    changes = dict(PrologReader().read_changes(documents))
    present: Prolog | None = None
    for index, document in enumerate(documents):
        present = changes.get(index, present)
        try:
            expected = PrologReader().read(document)
        except InvalidEvent:
            assert index not in changes
        else:
            assert present == expected


def _outcome(reader: PrologReader, document: bytes) -> object:
    try:
        return reader.read(document)
    except InvalidEvent as error:
        return error.to_wire()
