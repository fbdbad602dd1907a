"""Why there is no connection to another node, in words that say where to look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twisted.internet.error import (
    ConnectError,
    ConnectionRefusedError,
    DNSLookupError,
    TimeoutError,
)

from broker.errors import BrokerError, NotConnected

#: By what OpenSSL says at this end: what is the matter, and which setting of which node says so.
_TLS: Final[Mapping[str, str]] = {
    "unknown ca": "this node's network.certificate is not of the other's network.authority",
    "certificate expired": "the other node takes this node's network.certificate as out of date",
    "certificate verify failed": (
        "the other's network.certificate is not of this node's network.authority, or out of date"
    ),
    "certificate required": "this node shows no certificate",
    "peer did not return a certificate": "the other node shows no certificate",
    "wrong version number": "the other end does not speak TLS: it has no network.certificate",
    "packet length too long": "the other end does not speak TLS: it has no network.certificate",
    "record layer failure": "the other end does not speak TLS: it has no network.certificate",
}


def explain_reason(reason: str) -> str:
    """What a connection's end says, with what it means where that is known."""
    for words, meaning in _TLS.items():
        if words in reason:
            return f"{reason} ({meaning})"
    return reason


def to_connection_error(error: BaseException | None) -> BrokerError:
    """Why nobody was reached."""
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, DNSLookupError):
        return NotConnected("no address is known of that name")
    if isinstance(error, ConnectionRefusedError):
        return NotConnected("nobody listens there (connection refused)")
    if isinstance(error, TimeoutError):
        return NotConnected("nobody answers there")
    if isinstance(error, ConnectError) and error.osError:
        return NotConnected(_reason(error.osError))
    return NotConnected(_reason(error))


def _reason(error: Any) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
