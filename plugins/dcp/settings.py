"""Settings of the protocol's cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from broker.queue_memory import QueueMemory
from broker.transport.arq.settings import ArqSettings
from plugins.dcp.mesh.selection import IParentSelector, diverse_selector
from plugins.dcp.receiver import ReceiverSettings

#: Bytes of a packet, with header and tag.
DEFAULT_MTU: Final = 1_400


@attrs.frozen(kw_only=True)
class DcpSettings:
    """Times in seconds, sizes in bytes."""

    mtu: int = DEFAULT_MTU
    parents: int = 2
    """Parents that the node seeks, or at first with `loss_target`."""
    loss_target: float = 0.0
    """Share of the events that all parents may lose together; 0: the number of parents is fixed."""
    children: int = 100
    """Most children of the node."""
    leaves: int = 100
    """Most clients of the node, beside its children."""
    receiver: ReceiverSettings = ReceiverSettings()
    send_bytes: int = 4 << 20
    """Unacknowledged bytes that are kept for a child; as many may wait to be sent."""
    send_seconds: float = 10.0
    """Time for which they are kept."""
    ack_every: int = 32
    """Packets after which an acknowledgement is requested."""
    least_keepalive: float = 0.25
    most_keepalive: float = 5.0
    lag_seconds: float = 30.0
    """A child that lags beyond the buffer for this time is closed."""
    unanswered: int = 5
    """Unanswered requests after which a child is closed."""
    is_static: bool = False
    """The node carries everything, whatever its children want."""
    widens: bool = True
    """A child may have interest that this node must request first."""
    clearance: int = 2
    """Rank of the highest security level of events on the links."""
    asks_all: bool = True
    """The first request for a missing range goes to all parents."""
    selector: IParentSelector = diverse_selector
    diversity: Mapping[str, str] = attrs.field(factory=dict)
    """Things that fail together with the node: name by kind."""
    confirms: bool = False
    """Several parents must state that a range has no events."""
    multicast: str = ""
    """Address and port of the first of `MOST_GROUPS` IP multicast groups; empty: none is used."""
    pacing: ArqSettings = ArqSettings()
    memory: QueueMemory = attrs.field(factory=QueueMemory, eq=False)
    """Of all queues of the node, in which the send buffers count."""
