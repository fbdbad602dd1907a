"""Layers that do to packets what bad networks do, from a seed: for tests and from configuration.

Each acts on packets going down, coming up, or both, and is declared with what it breaks, so that a
stack that relies on more is refused.
"""

from broker.transport.faults.configuration import create_layers, describe_faults
from broker.transport.faults.corrupt import CorruptLayer
from broker.transport.faults.delay import DelayLayer
from broker.transport.faults.direction import Direction
from broker.transport.faults.discard import DiscardLayer
from broker.transport.faults.duplicate import DuplicateLayer
from broker.transport.faults.partition import PartitionLayer
from broker.transport.faults.shuffle import ShuffleLayer
from broker.transport.faults.throttle import ThrottleLayer

__all__ = [
    "CorruptLayer",
    "DelayLayer",
    "Direction",
    "DiscardLayer",
    "DuplicateLayer",
    "PartitionLayer",
    "ShuffleLayer",
    "ThrottleLayer",
    "create_layers",
    "describe_faults",
]
