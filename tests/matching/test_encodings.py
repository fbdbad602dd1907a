"""Documents in other encodings, and invalid UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import NotWellFormed
from broker.matching.contract import Accepted
from tests.matching.refusal import assert_refused

MakeEvent = Callable[..., bytes]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_other_encodings_are_refused_by_name(
    engine: Any, make_event: MakeEvent, encoding: str
) -> None:
    document = make_event().decode().replace("UTF-8", "UTF-16").encode(encoding)
    error = assert_refused(engine, document)
    assert type(error) is NotWellFormed
    assert encoding[:6].upper() in error.text


@pytest.mark.parametrize("encoding", [b"ISO-8859-1", b"windows-1252", b"UTF-7", b"UTF-16", b"x"])
def test_declared_encoding_other_than_utf8_is_refused(
    engine: Any, make_event: MakeEvent, encoding: bytes
) -> None:
    error = assert_refused(engine, make_event().replace(b"UTF-8", encoding))
    assert type(error) is NotWellFormed
    assert encoding.decode() in error.text


@pytest.mark.parametrize(
    "prolog",
    [
        b'<?xml version="1.0"?>',
        b"<?xml version='1.0' encoding='us-ascii' standalone='no' ?>",
        b"<?xml version = '1.0' encoding = 'utf-8'?>",
        b"\xef\xbb\xbf<?xml version='1.0'?>",
        b"",
        b"\n",
        b"<!-- \xc3\xa9 --><?p i?>\n",
    ],
)
def test_all_declarations_of_utf8_are_accepted(
    engine: Any, make_event: MakeEvent, prolog: bytes
) -> None:
    document = make_event()
    document = prolog + document[document.index(b"<!DOCTYPE") :]
    assert isinstance(engine.match([document])[0], Accepted)


@pytest.mark.parametrize(
    "wrong", [b"\xff", b"\xc3(", b"\xe2\x82", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"]
)
def test_invalid_utf8_is_refused_with_line_and_column(
    engine: Any, make_event: MakeEvent, wrong: bytes
) -> None:
    document = make_event(b"<flight>\n<id>\xc3\xa9%s</id></flight>" % wrong)
    error = assert_refused(engine, document)
    assert type(error) is NotWellFormed
    assert (error.line, error.column) == (4, 6)
    assert f"{wrong[0]:02x}" in error.text


def test_nul_is_refused_with_line_and_column(engine: Any, make_event: MakeEvent) -> None:
    error = assert_refused(engine, make_event(b"<flight>\n<id>\0</id></flight>"))
    assert type(error) is NotWellFormed
    assert (error.line, error.column) == (4, 5)
