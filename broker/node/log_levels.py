"""Levels of the messages that the process logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.logger import (
    FilteringLogObserver,
    LogLevelFilterPredicate,
    LogPublisher,
    globalLogPublisher,
)


class LogLevels:
    """Filter in front of the observers of a log."""

    def __init__(self, publisher: LogPublisher = globalLogPublisher) -> None:
        """Observers that are there now get filtered messages."""
        self._predicate = LogLevelFilterPredicate()
        # Twisted has no interface to list them, and twistd adds its own.
        for observer in list(publisher._observers):
            publisher.removeObserver(observer)
            publisher.addObserver(FilteringLogObserver(observer, [self._predicate]))

    def set(self, levels: Mapping[str, Any]) -> None:
        """Use these levels by module; "" is the default."""
        self._predicate.clearLogLevels()
        for module, level in levels.items():
            self._predicate.setLogLevelForNamespace(module, level)
