"""Settings of injected faults."""

from __future__ import annotations

from typing import Final

import attrs

from broker.config import value_kind
from broker.config.setting import required_setting, setting
from broker.transport.faults.configuration import DIRECTIONS, KINDS

MIB: Final = 2**20
TIB: Final = 2**40
HOUR: Final = 3600.0
DAY: Final = 86400.0


@attrs.frozen
class FaultSettings:
    """A fault injected into the links to other nodes, for tests. There may be several."""

    kind: str = required_setting(value_kind.choice(*KINDS), "Kind of the fault.", shown='"discard"')
    links: str = setting(
        value_kind.LINK_NAMES, "*", "Neighbours whose links have the fault; by default all."
    )
    direction: str = setting(
        value_kind.choice(*DIRECTIONS),
        "both",
        "Packets with the fault: those that this node sends, those that it receives, or both.",
    )
    seed: int = setting(
        value_kind.count(0, 2**32 - 1),
        0,
        "Seed of the random generator; the same seed gives the same faults.",
    )
    rate: float = setting(
        value_kind.fraction(0.0, 1.0),
        0.01,
        "For discard, shuffle, duplicate and corrupt: share of the packets with the fault.",
    )
    minimum: float = setting(value_kind.duration(0.0, HOUR), 0.0, "For delay: the shortest delay.")
    maximum: float = setting(
        value_kind.duration(0.001, HOUR),
        0.1,
        "For delay: the longest delay. For shuffle: time for which a packet is held back.",
    )
    bytes_per_second: int = setting(
        value_kind.size(1, TIB),
        MIB,
        "For throttle: the rate; packets beyond 256KiB of waiting bytes are dropped.",
    )
    after: float = setting(
        value_kind.duration(0.0, 365 * DAY),
        0.0,
        "For partition: time from the node's start to the first partition.",
    )
    lasts: float = setting(
        value_kind.duration(0.001, 365 * DAY), 10.0, "For partition: its duration."
    )
    every: float = setting(
        value_kind.duration(0.0, 365 * DAY),
        0.0,
        "For partition: time from one start to the next; 0: only one partition.",
    )
