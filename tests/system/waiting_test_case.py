from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

reactor = cast(Any, the_reactor)


class WaitingTestCase(TestCase):
    """Each call of `changed` evaluates the awaited condition again."""

    timeout = 30

    def setUp(self) -> None:
        self.waiting: Deferred[None] | None = None

    def changed(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            # Not inside the channel's call.
            reactor.callLater(0, waiting.callback, None)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.waiting = Deferred()
            await self.waiting
