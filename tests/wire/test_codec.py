from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from broker.wire.codec import Count, Message, Schema, WireMark, WirePosition, pack

MARK = Schema[WireMark](WireMark, "mark")
POSITION = Schema[WirePosition](WirePosition, "position")
ANYTHING = Schema[Any](Any, "value")
LARGEST = ((1 << 32) - 1, (1 << 63) - 1)


class Secret(Message, frozen=True):
    kind = 0x01

    number: Count
    token: bytes


def test_marks_are_those_that_a_log_can_have() -> None:
    assert MARK.convert(list(LARGEST)) == MARK.decode(pack(LARGEST)) == LARGEST
    assert POSITION.convert([["o", *LARGEST]]) == (("o", *LARGEST),)


@pytest.mark.parametrize(
    "mark",
    [
        (1 << 32, 1),
        (1, 1 << 63),
        (-1, 1),
        (1, -1),
        (1.0, 1),
        (True, 1),
        (1,),
        (1, 1, 1),
        "12",
        None,
    ],
)
def test_others_are_refused(mark: Any) -> None:
    for refused in (
        lambda: MARK.convert(mark),
        lambda: MARK.decode(pack(mark)),
        lambda: POSITION.convert([("o", *(mark or ()))]),
    ):
        with pytest.raises(ProtocolError, match=r"^malformed (mark|position): "):
            refused()


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x91" * 100_000, b"\xa1\xff", b"\x01\x01", b"\xc4"]
)
def test_malformed_bytes_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed value"):
        ANYTHING.decode(data)


@given(st.binary(max_size=40))
def test_random_bytes_are_a_value_or_a_protocol_error(data: bytes) -> None:
    try:
        ANYTHING.decode(data)
    except ProtocolError as error:
        assert error.text


def test_bytes_are_not_in_the_text_form_of_a_message() -> None:
    assert repr(Secret(1, b"hush")) == "Secret(number=1)"
