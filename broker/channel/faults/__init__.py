"""Layers that do to packets what bad networks do, from a seed: for tests and from configuration.

Each acts on packets going down, coming up, or both, and is declared with what it breaks, so that a
stack that relies on more is refused.
"""

from broker.channel.faults.configured import layers_for, warning
from broker.channel.faults.corrupt import CorruptLayer
from broker.channel.faults.delay import DelayLayer
from broker.channel.faults.direction import Direction
from broker.channel.faults.discard import DiscardLayer
from broker.channel.faults.duplicate import DuplicateLayer
from broker.channel.faults.partition import PartitionLayer
from broker.channel.faults.shuffle import ShuffleLayer
from broker.channel.faults.throttle import ThrottleLayer

__all__ = [
    "CorruptLayer",
    "DelayLayer",
    "Direction",
    "DiscardLayer",
    "DuplicateLayer",
    "PartitionLayer",
    "ShuffleLayer",
    "ThrottleLayer",
    "layers_for",
    "warning",
]
