"""Possible values of the envelope's variables in events of one type and version."""

from __future__ import annotations

from broker.dtd.reference import DtdReference
from broker.event.envelope import Liveness, SecurityLevel
from broker.matching.schema.abstract_value import UNKNOWN_STRING, Numbers, Strings, Value

_LARGEST = 2.0**63
_LEVELS = frozenset(level.value for level in SecurityLevel)
_LIVENESS = frozenset(liveness.value for liveness in Liveness)


def possible_values(name: str, reference: DtdReference) -> Value:
    match name:
        case "EventType":
            return _one_of(frozenset({reference.type}), name)
        case "VersionNum":
            return _one_of(frozenset({reference.version}), name)
        case "Securitylevel":
            return _one_of(_LEVELS, name)
        case "Liveness":
            return _one_of(_LIVENESS, name)
        case "SequenceNumber":
            return Numbers(1.0, _LARGEST, False)
        case "TimeStamp" | "Incarnation":
            return Numbers(0.0, _LARGEST, False)
    return UNKNOWN_STRING


def _one_of(values: frozenset[str], name: str) -> Strings:
    return Strings(values, lambda: f"${name}")
