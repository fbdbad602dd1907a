"""Socket channels, the bottom of every stack: packets over one connection (RCM R28)."""

from broker.transport.socket.contract import (
    DATAGRAM_PROPERTIES,
    DEFAULT_MAX_FRAME,
    TCP_PROPERTIES,
    IDatagramChannel,
    ISocketChannel,
    ISocketReceiver,
)

__all__ = [
    "DATAGRAM_PROPERTIES",
    "DEFAULT_MAX_FRAME",
    "TCP_PROPERTIES",
    "IDatagramChannel",
    "ISocketChannel",
    "ISocketReceiver",
]
