from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.canonical_base64 import decode_base64, encode_base64


@given(st.binary(max_size=40), st.integers(0, 127), st.integers(1, 127))
def test_each_value_has_one_text(data: bytes, at: int, change: int) -> None:
    text = encode_base64(data)
    assert decode_base64(text) == data
    other = list(text or "=")
    at %= len(other)
    other[at] = chr(ord(other[at]) ^ change)
    try:
        assert decode_base64("".join(other)) != data
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["AB==", "AAB=", "AA", "AA==\n", " AA==", "é"])
def test_another_text_of_the_same_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        decode_base64(text)
