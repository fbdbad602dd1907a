"""Envelope fields as XPath variables (DESIGN 5)."""

from __future__ import annotations

from broker.matching.query.tree import ValueType

#: Name without the dollar sign -> type. Numbers are doubles: integers above 2**53 are rounded.
VARIABLE_TYPES: dict[str, ValueType] = {
    "StreamId": ValueType.STRING,
    "ClientId": ValueType.STRING,
    "TimeStamp": ValueType.NUMBER,
    "SequenceNumber": ValueType.NUMBER,
    "Incarnation": ValueType.NUMBER,
    "VersionNum": ValueType.STRING,
    "EventType": ValueType.STRING,
    "Securitylevel": ValueType.STRING,
    "Liveness": ValueType.STRING,
}
