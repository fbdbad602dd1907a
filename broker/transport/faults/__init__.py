"""Layers that imitate bad networks, from a seed.

Each declares the properties that it breaks, so a stack that requires them is refused.
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
