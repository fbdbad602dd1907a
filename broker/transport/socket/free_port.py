"""UDP sockets with a port that the system chooses."""

from __future__ import annotations

import socket


def open_datagram_socket(host: str) -> socket.socket:
    """Return a socket that reaches a numeric host, on any interface. Raises OSError."""
    flags = socket.AI_NUMERICHOST
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM, flags=flags)[0][0]
    opened = socket.socket(family, socket.SOCK_DGRAM)
    try:
        opened.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
    except OSError:
        opened.close()
        raise
    return opened
