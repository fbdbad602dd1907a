"""A test case whose receivers tell it that something has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

reactor = cast(Any, the_reactor)


class Events(TestCase):
    """A test case that waits for what its receivers are told."""

    timeout = 30

    def setUp(self) -> None:
        self.waiting: Deferred[None] | None = None

    def changed(self) -> None:
        """Something was told."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            # Not from inside the channel's call: the test goes on in a turn of its own.
            reactor.callLater(0, waiting.callback, None)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.waiting = Deferred()
            await self.waiting
