"""A thread for the log's file, as the log sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred


class Worker(Protocol):
    """Runs a call on another thread, one at a time and in order; the result comes as a Deferred."""

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]: ...
