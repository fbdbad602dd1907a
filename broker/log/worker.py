"""The interface of a thread for the log's file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred


class Worker(Protocol):
    """Runs calls on another thread, one at a time and in order."""

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]: ...
