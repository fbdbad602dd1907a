"""Configured faults: the kinds, and the layers that they create."""

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
from broker.transport.layer import ILinkLayer

#: As seen from this end.
DIRECTIONS: Final[Mapping[str, Direction]] = MappingProxyType(
    {"both": Direction.BOTH, "out": Direction.DOWN, "in": Direction.UP}
)


class IFault(Protocol):
    """One configured fault, times in seconds; each kind reads only its own attributes."""

    @property
    def kind(self) -> str:
        """One of `KINDS`."""

    @property
    def links(self) -> str:
        """Names of the peers on whose links it acts; `*` matches any characters."""

    @property
    def direction(self) -> str:
        """One of `DIRECTIONS`."""

    @property
    def seed(self) -> int:
        """Seed of its random numbers."""

    @property
    def rate(self) -> float:
        """Probability for each packet."""

    @property
    def minimum(self) -> float:
        """Shortest delay."""

    @property
    def maximum(self) -> float:
        """Longest delay."""

    @property
    def bytes_per_second(self) -> int:
        """Throughput each way."""

    @property
    def after(self) -> float:
        """Time from the start to its beginning."""

    @property
    def lasts(self) -> float:
        """Duration."""

    @property
    def every(self) -> float:
        """Interval of repetition; 0 for never."""


@attrs.frozen
class _LayerContext:
    seed: int
    direction: Direction
    start: float


@attrs.frozen
class FaultKind:
    uses: frozenset[str]
    create: Callable[[IFault, _LayerContext], ILinkLayer]


def _create_discard(fault: IFault, context: _LayerContext) -> ILinkLayer:
    return DiscardLayer(seed=context.seed, rate=fault.rate, direction=context.direction)


def _create_duplicate(fault: IFault, context: _LayerContext) -> ILinkLayer:
    return DuplicateLayer(seed=context.seed, rate=fault.rate, direction=context.direction)


def _create_corrupt(fault: IFault, context: _LayerContext) -> ILinkLayer:
    return CorruptLayer(seed=context.seed, rate=fault.rate, direction=context.direction)


def _create_shuffle(fault: IFault, context: _LayerContext) -> ILinkLayer:
    return ShuffleLayer(
        seed=context.seed, rate=fault.rate, hold=fault.maximum, direction=context.direction
    )


def _create_delay(fault: IFault, context: _LayerContext) -> ILinkLayer:
    return DelayLayer(
        seed=context.seed, minimum=fault.minimum, maximum=fault.maximum, direction=context.direction
    )


def _create_throttle(fault: IFault, context: _LayerContext) -> ILinkLayer:
    return ThrottleLayer(bytes_per_second=fault.bytes_per_second, direction=context.direction)


def _create_partition(fault: IFault, context: _LayerContext) -> ILinkLayer:
    begin = context.start + fault.after
    return PartitionLayer(
        schedule=[(begin, begin + fault.lasts)], every=fault.every, direction=context.direction
    )


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
) -> list[ILinkLayer]:
    """Return the layers of all faults on the link to the peer `link`, bottom up in their order.

    `after` counts from `start`. The seed of each layer depends on the fault, the link, and the
    number of `earlier` links to this peer. So links do not fail in step, and a run can be repeated.
    """
    return [
        create_layer(fault, crc32(f"{index} {link} {earlier}".encode(), fault.seed), start)
        for index, fault in enumerate(faults)
        if _matches(fault.links, link)
    ]


def create_layer(fault: IFault, seed: int = 0, start: float = 0.0) -> ILinkLayer:
    """Raises `ConfigurationError` for values out of range."""
    context = _LayerContext(seed, DIRECTIONS[fault.direction], start)
    return KINDS[fault.kind].create(fault, context)


def describe_faults(faults: Iterable[IFault]) -> str:
    """Return the warning at a node's start; "" without faults."""
    descriptions = "; ".join(map(_describe_fault, faults))
    if not descriptions:
        return ""
    return (
        "FAULTS ARE CONFIGURED: this node spoils its own links to other nodes on purpose, "
        "which is for tests only. Remove the [[faults]] tables to stop that. "
        f"They are: {descriptions}"
    )


def _describe_fault(fault: IFault) -> str:
    used = sorted(KINDS[fault.kind].uses - {"seed"})
    values = ", ".join(f"{name} {getattr(fault, name):g}" for name in used)
    where = "all links" if fault.links == "*" else f"links to {fault.links}"
    return f"{fault.kind} ({values}) {fault.direction} on {where}"


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
