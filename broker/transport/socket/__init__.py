"""Socket channels, the bottom of every stack: packets over one connection (RCM R28)."""

from broker.transport.socket.contract import (
    DEFAULT_MAX_FRAME,
    TCP_PROPERTIES,
    ISocketChannel,
    ISocketReceiver,
)

__all__ = ["DEFAULT_MAX_FRAME", "TCP_PROPERTIES", "ISocketChannel", "ISocketReceiver"]
