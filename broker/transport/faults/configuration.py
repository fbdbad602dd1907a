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
class _LayerContext:
    """Where a layer is made for: its seed, which way, and the time that `after` counts from."""

    seed: int
    direction: Direction
    start: float


@attrs.frozen
class FaultKind:
    """One kind of fault: the attributes of an `IFault` that it uses, and the layer it makes."""

    uses: frozenset[str]
    create: Callable[[IFault, _LayerContext], ILayer]


def _create_discard(fault: IFault, at: _LayerContext) -> ILayer:
    return DiscardLayer(seed=at.seed, rate=fault.rate, direction=at.direction)


def _create_duplicate(fault: IFault, at: _LayerContext) -> ILayer:
    return DuplicateLayer(seed=at.seed, rate=fault.rate, direction=at.direction)


def _create_corrupt(fault: IFault, at: _LayerContext) -> ILayer:
    return CorruptLayer(seed=at.seed, rate=fault.rate, direction=at.direction)


def _create_shuffle(fault: IFault, at: _LayerContext) -> ILayer:
    return ShuffleLayer(seed=at.seed, rate=fault.rate, hold=fault.maximum, direction=at.direction)


def _create_delay(fault: IFault, at: _LayerContext) -> ILayer:
    return DelayLayer(
        seed=at.seed, minimum=fault.minimum, maximum=fault.maximum, direction=at.direction
    )


def _create_throttle(fault: IFault, at: _LayerContext) -> ILayer:
    return ThrottleLayer(bytes_per_second=fault.bytes_per_second, direction=at.direction)


def _create_partition(fault: IFault, at: _LayerContext) -> ILayer:
    begin = at.start + fault.after
    return PartitionLayer(
        schedule=[(begin, begin + fault.lasts)], every=fault.every, direction=at.direction
    )


#: The kinds of fault by name.
KINDS: Final[Mapping[str, FaultKind]] = MappingProxyType(
    {
        "discard": FaultKind(frozenset({"rate", "seed"}), _create_discard),
        "delay": FaultKind(frozenset({"minimum", "maximum", "seed"}), _create_delay),
        "shuffle": FaultKind(frozenset({"rate", "maximum", "seed"}), _create_shuffle),
        "duplicate": FaultKind(frozenset({"rate", "seed"}), _create_duplicate),
        "corrupt": FaultKind(frozenset({"rate", "seed"}), _create_corrupt),
        "throttle": FaultKind(frozenset({"bytes_per_second"}), _create_throttle),
        "partition": FaultKind(frozenset({"after", "lasts", "every"}), _create_partition),
    }
)


def create_layers(
    faults: Iterable[IFault], link: str, start: float, earlier: int = 0
) -> list[ILayer]:
    """The layers of all faults that act on the link to the peer `link`, bottom up in their order.

    `start` is the time, of the driver's clock, from which `after` counts. `earlier` is how many
    links to this peer there were before: if each had the same faults, what is lost on one would be
    lost on all of them, and never get through.
    """
    return [
        create_layer(fault, crc32(f"{index} {link} {earlier}".encode(), fault.seed), start)
        for index, fault in enumerate(faults)
        if _matches(fault.links, link)
    ]


def create_layer(fault: IFault, seed: int = 0, start: float = 0.0) -> ILayer:
    """The layer of one fault. Raises `ConfigurationError` for values that can not be."""
    place = _LayerContext(seed, DIRECTIONS[fault.direction], start)
    return KINDS[fault.kind].create(fault, place)


def describe_faults(faults: Iterable[IFault]) -> str:
    """What a node with faults says when it starts; "" if there are none."""
    told = "; ".join(map(_describe_fault, faults))
    if not told:
        return ""
    return (
        "FAULTS ARE CONFIGURED: this node spoils its own links to other nodes on purpose, "
        f"which is for tests only. Remove the [[faults]] tables to stop that. They are: {told}"
    )


def _describe_fault(fault: IFault) -> str:
    # The seed is of interest to nobody but who repeats a run, and stands in the file.
    used = sorted(KINDS[fault.kind].uses - {"seed"})
    values = ", ".join(f"{name} {getattr(fault, name):g}" for name in used)
    where = "all links" if fault.links == "*" else f"links to {fault.links}"
    return f"{fault.kind} ({values}) {fault.direction} on {where}"


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
