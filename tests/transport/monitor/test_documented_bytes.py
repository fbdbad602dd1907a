"""The example of `docs/protocols/monitor.md` has the bytes of the code."""

from __future__ import annotations

import re
from pathlib import Path

from broker.transport.monitor import wire
from broker.transport.monitor.wire import Answer, Heartbeat, Hello, Offer

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocols" / "monitor.md"


def test_the_example_has_the_bytes_of_the_code() -> None:
    lines = re.findall(r"^    \d  ([0-9a-f ]+)$", PAGE.read_text(), re.MULTILINE)
    assert [wire.decode(bytes.fromhex(line)) for line in lines] == [
        Hello(7),
        Heartbeat(2, 0, 0, 0, 0, 1_000_000),
        Hello(9),
        Heartbeat(2, 0, 0, 0, 0, 1_500_000),
        Heartbeat(3, 1, 2, 500, 1_500_500, 1_501_000),
        Offer(1, b"\x05"),
        Answer(1, b"\x06"),
    ]
