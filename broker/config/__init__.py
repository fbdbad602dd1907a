"""Settings of a node, read from TOML and checked once."""

from __future__ import annotations

from broker.config.explain import explain
from broker.config.faults import FaultSettings
from broker.config.identity import AccountSettings
from broker.config.limits import LimitSettings
from broker.config.settings import (
    EventTypeSettings,
    ListenSettings,
    LogSettings,
    MetricsSettings,
    NodeSettings,
    QuerySettings,
    QueueSettings,
    Settings,
    StreamSettings,
    TypeSettings,
    ValidationSettings,
)
from broker.config.toml import defaults, load, load_text

__all__ = [
    "AccountSettings",
    "FaultSettings",
    "LimitSettings",
    "ListenSettings",
    "LogSettings",
    "MetricsSettings",
    "NodeSettings",
    "QuerySettings",
    "QueueSettings",
    "Settings",
    "EventTypeSettings",
    "StreamSettings",
    "TypeSettings",
    "ValidationSettings",
    "defaults",
    "explain",
    "load",
    "load_text",
]
