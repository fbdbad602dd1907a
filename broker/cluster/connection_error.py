"""Errors of connection attempts to other nodes, with a hint where to look."""

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

#: Messages of OpenSSL at this end.
_TLS: Final[Mapping[str, str]] = {
    "unknown ca": "this node's network.certificate is not issued by the other's network.authority",
    "certificate expired": "the other node considers this node's network.certificate expired",
    "certificate verify failed": (
        "the other's network.certificate is expired, or not issued by this node's network.authority"
    ),
    "certificate required": "this node shows no certificate",
    "peer did not return a certificate": "the other node shows no certificate",
    "wrong version number": "the other end does not speak TLS: it has no network.certificate",
    "packet length too long": "the other end does not speak TLS: it has no network.certificate",
    "record layer failure": "the other end does not speak TLS: it has no network.certificate",
}


def explain_reason(reason: str) -> str:
    for words, meaning in _TLS.items():
        if words in reason:
            return f"{reason} ({meaning})"
    return reason


def to_connection_error(error: BaseException | None) -> BrokerError:
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, DNSLookupError):
        return NotConnected("that host name has no address")
    if isinstance(error, ConnectionRefusedError):
        return NotConnected("no process listens there (connection refused)")
    if isinstance(error, TimeoutError):
        return NotConnected("no answer in time")
    if isinstance(error, ConnectError) and error.osError:
        return NotConnected(_reason(error.osError))
    return NotConnected(_reason(error))


def _reason(error: Any) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
