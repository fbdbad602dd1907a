"""Work whose names end with its documents."""

from __future__ import annotations

from threading import Thread, current_thread
from unittest.mock import patch

import pytest
from lxml import etree

from broker.errors import NotWellFormed
from broker.event.reader import make_parser, parse_document
from broker.matching.separate_names import call_separately


def test_the_result_or_the_error_of_another_thread_is_returned() -> None:
    root = call_separately(lambda: etree.fromstring(b"<a><b/></a>"))
    assert [child.tag for child in root] == ["b"]
    assert call_separately(current_thread) is not current_thread()
    with pytest.raises(etree.XMLSyntaxError):
        call_separately(lambda: etree.fromstring(b"<a>"))


def test_without_room_for_a_thread_the_caller_works() -> None:
    with patch.object(Thread, "start", side_effect=RuntimeError("can't start new thread")):
        assert call_separately(current_thread) is current_thread()


@pytest.mark.parametrize(
    "document", [b"<a>", b"<a>\0</a>", b"<?xml version='1.0' encoding='latin-1'?><a/>"]
)
def test_documents_are_refused_as_by_the_common_parser(document: bytes) -> None:
    with pytest.raises(NotWellFormed) as expected:
        parse_document(document)
    with pytest.raises(NotWellFormed) as found:
        call_separately(lambda: parse_document(document, make_parser()))
    assert found.value.to_wire() == expected.value.to_wire()
