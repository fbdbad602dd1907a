from __future__ import annotations

import pytest

from benchmarks.harness import mqtt


@pytest.mark.parametrize(
    ("length", "encoded"), [(0, "09"), (118, "7f"), (119, "8001"), (16374, "ff7f")]
)
def test_a_publish_says_its_remaining_length_in_groups_of_seven_bits(
    length: int, encoded: str
) -> None:
    message = b"x" * length
    head = bytes.fromhex("30" + encoded) + b"\x00\x07flights"
    assert mqtt.publish(message) == head + message
