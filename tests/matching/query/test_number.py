"""The fast parser of plain numbers gives the same bits as the general one."""

from __future__ import annotations

import struct

import hypothesis.strategies as st
from hypothesis import example, given

from broker.matching.query.number import parse_number, parse_plain_number

DIGITS = st.text("0123456789", max_size=17)


def bits(number: float) -> bytes:
    return struct.pack("d", number)


@given(st.sampled_from(["", "-"]), DIGITS, st.sampled_from(["", "."]), DIGITS)
@example("-", "0", "", "")
@example("", "0", ".", "000000000000001")
def test_a_plain_number_has_libxml2s_bits(sign: str, whole: str, point: str, fraction: str) -> None:
    text = sign + whole + point + fraction
    short = parse_plain_number(text.encode())
    if short is not None:
        assert bits(short) == bits(parse_number(text))


def test_other_numbers_are_not_plain() -> None:
    assert parse_plain_number(b"-12.50") == -12.5
    assert parse_plain_number(b"7") == 7.0
    for other in (b"", b"-", b".5", b"5.", b"1e3", b"+1", b" 1", b"--1", "²".encode(), b"1.2.3"):
        assert parse_plain_number(other) is None
    assert parse_plain_number(b"1" * 16) is None
