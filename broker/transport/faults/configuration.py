"""Faults as a configuration names them: which there are, and the layers that they make.

A configured fault is any object with the attributes of `IFault`; each kind uses those of its own
and no others. The seed of each layer follows from the fault's, its place and the link's name, so
that links do not fail in step and a run can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol
from zlib import crc32

import attrs

from broker.transport.faults.corrupt import CorruptLayer
from broker.transport.faults.delay import DelayLayer
from broker.transport.faults.direction import Direction
from broker.transport.faults.discard import DiscardLayer
from broker.transport.faults.duplicate import DuplicateLayer
from broker.transport.faults.partition import PartitionLayer
from broker.transport.faults.shuffle import ShuffleLayer
from broker.transport.faults.throttle import ThrottleLayer
from broker.transport.layer import ILayer

#: Directions by the words of the configuration, as seen from this end.
DIRECTIONS: Final[Mapping[str, Direction]] = MappingProxyType(
    {"both": Direction.BOTH, "out": Direction.DOWN, "in": Direction.UP}
)


class IFault(Protocol):
    """One configured fault. Times are in seconds."""

    @property
    def kind(self) -> str:
        """One of `KINDS`."""

    @property
    def links(self) -> str:
        """The names of the peers on whose links it acts; `*` stands for any characters."""

    @property
    def direction(self) -> str:
        """One of `DIRECTIONS`."""

    @property
    def seed(self) -> int:
        """What its chances are drawn from."""

    @property
    def rate(self) -> float:
        """The probability with which it hits a packet."""

    @property
    def minimum(self) -> float:
        """The shortest delay."""

    @property
    def maximum(self) -> float:
        """The longest delay."""

    @property
    def bytes_per_second(self) -> int:
        """What passes each way."""

    @property
    def after(self) -> float:
        """How long after the start it begins."""

    @property
    def lasts(self) -> float:
        """How long it lasts."""

    @property
    def every(self) -> float:
        """After how long it begins again; 0 for never."""


@attrs.frozen
class _Place:
    """Where a layer is made for: its seed, which way, and the time that `after` counts from."""

    seed: int
    direction: Direction
    start: float


@attrs.frozen
class Kind:
    """One kind of fault: the attributes of an `IFault` that it uses, and the layer it makes."""

    uses: frozenset[str]
    make: Callable[[IFault, _Place], ILayer]


def _discard(fault: IFault, at: _Place) -> ILayer:
    return DiscardLayer(seed=at.seed, rate=fault.rate, direction=at.direction)


def _duplicate(fault: IFault, at: _Place) -> ILayer:
    return DuplicateLayer(seed=at.seed, rate=fault.rate, direction=at.direction)


def _corrupt(fault: IFault, at: _Place) -> ILayer:
    return CorruptLayer(seed=at.seed, rate=fault.rate, direction=at.direction)


def _shuffle(fault: IFault, at: _Place) -> ILayer:
    return ShuffleLayer(seed=at.seed, rate=fault.rate, hold=fault.maximum, direction=at.direction)


def _delay(fault: IFault, at: _Place) -> ILayer:
    return DelayLayer(
        seed=at.seed, minimum=fault.minimum, maximum=fault.maximum, direction=at.direction
    )


def _throttle(fault: IFault, at: _Place) -> ILayer:
    return ThrottleLayer(bytes_per_second=fault.bytes_per_second, direction=at.direction)


def _partition(fault: IFault, at: _Place) -> ILayer:
    begin = at.start + fault.after
    return PartitionLayer(
        schedule=[(begin, begin + fault.lasts)], every=fault.every, direction=at.direction
    )


#: The kinds of fault by name.
KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "discard": Kind(frozenset({"rate", "seed"}), _discard),
        "delay": Kind(frozenset({"minimum", "maximum", "seed"}), _delay),
        "shuffle": Kind(frozenset({"rate", "maximum", "seed"}), _shuffle),
        "duplicate": Kind(frozenset({"rate", "seed"}), _duplicate),
        "corrupt": Kind(frozenset({"rate", "seed"}), _corrupt),
        "throttle": Kind(frozenset({"bytes_per_second"}), _throttle),
        "partition": Kind(frozenset({"after", "lasts", "every"}), _partition),
    }
)


def layers_for(faults: Iterable[IFault], link: str, start: float, earlier: int = 0) -> list[ILayer]:
    """The layers of all faults that act on the link to the peer `link`, bottom up in their order.

    `start` is the time, of the driver's clock, from which `after` counts. `earlier` is how many
    links to this peer there were before: if each had the same faults, what is lost on one would be
    lost on all of them, and never get through.
    """
    return [
        make_layer(fault, crc32(f"{index} {link} {earlier}".encode(), fault.seed), start)
        for index, fault in enumerate(faults)
        if _matches(fault.links, link)
    ]


def make_layer(fault: IFault, seed: int = 0, start: float = 0.0) -> ILayer:
    """The layer of one fault. Raises `ConfigurationError` for values that can not be."""
    place = _Place(seed, DIRECTIONS[fault.direction], start)
    return KINDS[fault.kind].make(fault, place)


def warning(faults: Iterable[IFault]) -> str:
    """What a node with faults says when it starts; "" if there are none."""
    told = "; ".join(map(_described, faults))
    if not told:
        return ""
    return (
        "FAULTS ARE CONFIGURED: this node spoils its own links to other nodes on purpose, "
        f"which is for tests only. Remove the [[faults]] tables to stop that. They are: {told}"
    )


def _described(fault: IFault) -> str:
    # The seed is of interest to nobody but who repeats a run, and stands in the file.
    used = sorted(KINDS[fault.kind].uses - {"seed"})
    values = ", ".join(f"{name} {getattr(fault, name):g}" for name in used)
    where = "all links" if fault.links == "*" else f"links to {fault.links}"
    return f"{fault.kind} ({values}) {fault.direction} on {where}"


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
