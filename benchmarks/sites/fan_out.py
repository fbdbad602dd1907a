"""Bytes on the links of a sender, by fan-out, among ten sites in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks.harness.report import Floor, Sheet, format_number
from broker.testing.fan_out_network import FanOutNetwork
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links

SITES: Final = tuple("abcdefghij")
#: Bytes of a message. One event of the examples has about 950.
SIZES: Final = (400, 1000)
MESSAGES: Final = 100
#: Seconds between two messages.
_PERIOD: Final = 0.05
#: Highest share of the bytes of copies.
FLOORS: Final = {"tree": 1 / 2, "group": 1 / 4}


@attrs.frozen
class FanOut:
    fan_out: str
    size: int
    sender_bytes: float
    """For each message, on its connections and in datagrams, with heartbeats."""
    other_bytes: float
    """Of the other site that sent most."""
    delay: float
    """Highest one of a message, in one-way delays."""


def measure(fan_out: str, size: int, messages: int = MESSAGES) -> FanOut:
    options = RcmLinkSettings(fan_out=fan_out, group="239.1.2.3:9000", group_interface="lo")
    latency = 0.01
    network = FanOutNetwork(rcm_links, options, SITES, latency=latency)
    network.sent_bytes.clear()
    sender, *others = SITES
    sent: list[float] = []
    for number in range(messages):
        sent.append(network.clock.seconds())
        network.sites[sender].send(b"%08d" % number + bytes(size - 8), *others)
        network.run(_PERIOD)
    network.run(1.0)
    longest = 0.0
    for name in others:
        received = network.sites[name].received
        assert len(received) == messages, f"{name} got {len(received)} messages"
        waits = [each.time - sent[int(each.message[:8])] for each in received]
        longest = max(longest, *waits)
    most = max(network.sent_bytes[name] for name in others)
    sent_bytes = network.sent_bytes[sender] / messages
    return FanOut(fan_out, size, sent_bytes, most / messages, longest / latency)


def measure_all(messages: int = MESSAGES) -> list[FanOut]:
    return [measure(name, size, messages) for size in SIZES for name in ("copies", *FLOORS)]


def share(runs: Sequence[FanOut], fan_out: str, size: int) -> float:
    """Return the sender's bytes, of those with copies."""
    found = {each.fan_out: each.sender_bytes for each in runs if each.size == size}
    return found[fan_out] / found["copies"]


def make_sheet(runs: Sequence[FanOut]) -> Sheet:
    rows = [
        (
            *(each.fan_out, str(each.size), format_number(each.sender_bytes)),
            *(f"{share(runs, each.fan_out, each.size):.3f}", f"{each.delay:.1f}"),
            format_number(each.other_bytes),
        )
        for each in runs
    ]
    return Sheet(
        "One of ten sites sends, in virtual time",
        ["fan-out", "bytes", "sent/message", "to copies", "one-way delays", "most of others"],
        rows,
    )


def make_floors(runs: Sequence[FanOut]) -> list[Floor]:
    return [
        Floor(
            *(f"bytes on a sender's links by {name}, to copies", share(runs, name, SIZES[0])),
            *(bound, ""),
            at_least=False,
        )
        for name, bound in FLOORS.items()
    ]
