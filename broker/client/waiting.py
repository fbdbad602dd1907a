"""Who waits for what: a session, an empty outbox, an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from broker.client.loop import Loop, Promise
from broker.errors import BrokerError, GaveUp
from broker.transport.clock import IDelayed


class Waiting:
    """The promises of a client that no event and no subscription keeps. Each is settled once."""

    def __init__(self, loop: Loop, endpoints: str, why: Callable[[], BrokerError | None]) -> None:
        """`endpoints` and `why` (the newest failure) are for the message of who gives up."""
        self._loop = loop
        self._endpoints = endpoints
        self._why = why
        self._up: dict[Promise, IDelayed | None] = {}
        self._drained: list[Promise] = []
        self._questions: dict[int, Promise] = {}

    def for_session(self, timeout: float | None) -> Awaitable[None]:
        """Fulfilled by `session_up`; `GaveUp` after `timeout` seconds."""
        promise = self._loop.promise()
        self._up[promise] = None
        if timeout is not None:
            self._up[promise] = self._loop.clock.callLater(timeout, self._give_up, promise, timeout)
        return promise.awaitable

    def session_up(self) -> None:
        """There is a session."""
        for promise in self._take_up():
            promise.fulfil(None)

    def for_drained(self) -> Awaitable[None]:
        """Fulfilled by `drained`."""
        promise = self._loop.promise()
        self._drained.append(promise)
        return promise.awaitable

    def drained(self) -> None:
        """The outbox is empty."""
        drained, self._drained = self._drained, []
        for promise in drained:
            promise.fulfil(None)

    def for_answer(self, request: int) -> Awaitable[Any]:
        """Fulfilled, or failed, by `answered`."""
        promise = self._questions[request] = self._loop.promise()
        return promise.awaitable

    def answered(self, request: int, content: Any, error: BrokerError | None) -> None:
        """The node has answered a question; nothing if nobody waits for it any more."""
        promise = self._questions.pop(request, None)
        if promise is not None and error is not None:
            promise.fail(error)
        elif promise is not None:
            promise.fulfil(content)

    def fail(self, reason: BrokerError) -> None:
        """It is over: nobody waits any longer."""
        waiting = [*self._take_up(), *self._drained, *self._questions.values()]
        self._drained = []
        self._questions = {}
        for promise in waiting:
            promise.fail(reason)

    def _take_up(self) -> list[Promise]:
        up, self._up = self._up, {}
        for timer in up.values():
            if timer is not None:
                timer.cancel()
        return list(up)

    def _give_up(self, promise: Promise, timeout: float) -> None:
        del self._up[promise]
        error = self._why()
        # Where there is only one place it need not be named twice.
        said = str(error).removeprefix(f"{self._endpoints}: ")
        reason = f": {said}" if error is not None else ""
        promise.fail(GaveUp(f"no node answered at {self._endpoints} in {timeout:g} s{reason}"))
