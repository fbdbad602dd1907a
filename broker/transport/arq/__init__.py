"""ARQ: packets of any size, in order and once, over lossy datagrams (Mspaces M6, M9, M10).

`docs/protocols/arq.md` describes the protocol. Its parts are also layers above raw datagrams.
"""

from broker.transport.arq.connection_layer import ConnectionLayer
from broker.transport.arq.fragmentation_layer import FragmentationLayer
from broker.transport.arq.group_layer import GroupLayer
from broker.transport.arq.mac_layer import MacLayer
from broker.transport.arq.pacing_layer import PacingLayer
from broker.transport.arq.settings import ArqSettings

__all__ = [
    "ArqSettings",
    "ConnectionLayer",
    "FragmentationLayer",
    "GroupLayer",
    "MacLayer",
    "PacingLayer",
]
