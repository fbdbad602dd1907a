"""Description and settings of the p2p layer."""

from __future__ import annotations

from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import ConfigurationError
from broker.queue_memory import HeldBytes
from broker.transport.layer import ILinkLayer, Property
from broker.transport.p2p.core import P2PCore
from broker.transport.p2p.wire import MESSAGE_COST, VERSION


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class P2PLayer:
    """Reliable FIFO, once only, over changing connections (RCM R29-R32; K21, K22).

    `incarnation` (u64, not 0) differs after each start. Sizes are bytes, times seconds. Raises
    `ConfigurationError` for values out of range.
    """

    incarnation: int
    #: Bound of the bytes delivered and not yet consumed.
    window_bytes: int = 4 * 1024 * 1024
    #: Bound of the bytes submitted and not yet acknowledged.
    send_buffer_bytes: int = 8 * 1024 * 1024
    #: A PING is sent after this time without a message.
    keepalive: float = 10.0
    #: A peer that is silent for this time has failed.
    liveness: float = 30.0
    #: An acknowledgement is sent after this time, or this many messages.
    ack_delay: float = 0.02
    ack_every: int = 32
    #: A broken connection may come back for this time: the peer is suspected meanwhile.
    suspect: float = 0.0
    #: A monitor below decides whether the peer is connected: without keepalive, liveness and
    #: suspicion here. Incarnations rise, and older ones of the peer are refused.
    is_monitored: bool = False
    #: Counts the send buffer in the memory of all queues. For one link only.
    held: HeldBytes | None = None

    name: ClassVar[str] = "p2p"
    version: ClassVar[int] = VERSION
    #: A missing message costs a reconnection.
    requires: ClassVar[frozenset[Property]] = frozenset(
        {Property.FRAMED, Property.ANY_SIZE, Property.OUTAGE_NOTICE}
    )
    provides: ClassVar[frozenset[Property]] = frozenset(
        {
            *(Property.FRAMED, Property.ANY_SIZE, Property.FIFO, Property.RELIABLE),
            *(Property.OUTAGE_NOTICE, Property.RESUMABLE, Property.BACKPRESSURE),
        }
    )
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def __attrs_post_init__(self) -> None:
        if not 0 < self.incarnation < 2**64:
            raise ConfigurationError(f"p2p incarnation: {self.incarnation} is not in 1 to 2**64-1")
        for name in ("window_bytes", "send_buffer_bytes"):
            if getattr(self, name) <= MESSAGE_COST:
                raise ConfigurationError(f"p2p {name}: must be more than {MESSAGE_COST}")
        for name in ("keepalive", "ack_delay", "ack_every"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"p2p {name}: must be more than 0")
        if self.suspect < 0:
            raise ConfigurationError("p2p suspect: must not be less than 0")
        if self.liveness <= self.keepalive:
            raise ConfigurationError("p2p liveness: must be more than keepalive")

    def create_core(self) -> P2PCore:
        return P2PCore(
            incarnation=self.incarnation,
            window_bytes=self.window_bytes,
            send_buffer_bytes=self.send_buffer_bytes,
            keepalive=self.keepalive,
            liveness=self.liveness,
            ack_delay=self.ack_delay,
            ack_every=self.ack_every,
            suspect=self.suspect,
            is_monitored=self.is_monitored,
            held=self.held,
        )
