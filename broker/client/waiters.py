"""Promises of a client: a session, an empty outbox, an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from broker.client.loop import Loop, Promise
from broker.errors import BrokerError, GaveUp
from broker.transport.clock import IDelayed


class Waiters:
    def __init__(
        self, loop: Loop, endpoints: str, last_error: Callable[[], BrokerError | None]
    ) -> None:
        self._loop = loop
        self._endpoints = endpoints
        self._last_error = last_error
        self._session: dict[Promise, IDelayed | None] = {}
        self._drained: list[Promise] = []
        self._answers: dict[int, Promise] = {}

    def wait_for_session(self, timeout: float | None) -> Awaitable[None]:
        promise = self._loop.make_promise()
        self._session[promise] = None
        if timeout is not None:
            self._session[promise] = self._loop.clock.callLater(
                timeout, self._time_out, promise, timeout
            )
        return promise.awaitable

    def settle_session(self) -> None:
        for promise in self._take_session_waiters():
            promise.fulfil(None)

    def wait_for_drained(self) -> Awaitable[None]:
        promise = self._loop.make_promise()
        self._drained.append(promise)
        return promise.awaitable

    def settle_drained(self) -> None:
        drained, self._drained = self._drained, []
        for promise in drained:
            promise.fulfil(None)

    def wait_for_answer(self, request: int) -> Awaitable[Any]:
        promise = self._answers[request] = self._loop.make_promise()
        return promise.awaitable

    def settle_answer(self, request: int, content: Any, error: BrokerError | None) -> None:
        promise = self._answers.pop(request, None)
        if promise is not None and error is not None:
            promise.fail(error)
        elif promise is not None:
            promise.fulfil(content)

    def fail_all(self, reason: BrokerError) -> None:
        waiting = [*self._take_session_waiters(), *self._drained, *self._answers.values()]
        self._drained = []
        self._answers = {}
        for promise in waiting:
            promise.fail(reason)

    def _take_session_waiters(self) -> list[Promise]:
        up, self._session = self._session, {}
        for timer in up.values():
            if timer is not None:
                timer.cancel()
        return list(up)

    def _time_out(self, promise: Promise, timeout: float) -> None:
        del self._session[promise]
        error = self._last_error()
        text = str(error).removeprefix(f"{self._endpoints}: ")
        reason = f": {text}" if error is not None else ""
        promise.fail(GaveUp(f"no node answered at {self._endpoints} in {timeout:g} s{reason}"))
