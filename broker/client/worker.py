"""Processing of a durable subscription: retry each event, then dead-letter it (Q2)."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol
from xml.sax.saxutils import escape, quoteattr

import attrs

from broker.client.attempts_file import Attempts
from broker.client.loop import Loop
from broker.client.received import Receipt, ReceivedEvent
from broker.client.subscription import Subscription
from broker.errors import ConfigurationError, TooLarge
from broker.event.envelope import EventType
from broker.event.stream import check_stream_name

DEAD_LETTER: Final = EventType("deadletter", "1.0")
#: Seconds.
MAX_PAUSE: Final = 30.0
_MAX_REASON: Final = 2_000
_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_log = logging.getLogger(__name__)


@attrs.frozen
class Working:
    """Retry policy of `Client.work`."""

    max_deliver: int = 5
    ack_timeout: float = 30.0
    """Seconds that one try may take."""
    pause: float = 1.0
    """Seconds before the second try; doubled for each further one, up to 30 s."""
    dead_letters: str = "dead-letters"

    def __attrs_post_init__(self) -> None:
        if self.max_deliver < 1 or not 0 < self.ack_timeout < float("inf") or self.pause < 0:
            raise ConfigurationError(
                "working: max_deliver must be at least 1, ack_timeout a number of seconds, "
                "and pause not below 0"
            )
        check_stream_name(self.dead_letters)


DEFAULT_WORKING: Final = Working()


@attrs.define
class WorkResult:
    done: int = 0
    failed: int = 0
    dead: int = 0


class DeadLetterPublisher(Protocol):
    @property
    def client_id(self) -> str: ...
    def publish(
        self, stream: str, payload: bytes, event_type: EventType, /
    ) -> Awaitable[Receipt]: ...


class Worker:
    """Processes one durable subscription, one event after another.

    A dead letter is durable before the subscription continues. With a state folder, a crash during
    a try counts as a try.
    """

    def __init__(
        self,
        publisher: DeadLetterPublisher,
        loop: Loop,
        subscription: Subscription,
        name: str,
        handle: Callable[[ReceivedEvent], Awaitable[Any]],
        working: Working,
        attempts: Attempts,
    ) -> None:
        self._publisher = publisher
        self._loop = loop
        self._subscription = subscription
        self._name = name
        self._handle = handle
        self._working = working
        self._attempts = attempts
        self.result = WorkResult()

    async def run(self) -> WorkResult:
        """Process events until the subscription ends.

        Raises the subscription's error, or the node's for a refused dead letter, whose event comes
        again.
        """
        self._attempts.start()
        try:
            async for event in self._subscription:
                await self._deliver(event)
                self._subscription.processed(event)
                self._attempts.record_done()
        finally:
            self._subscription.unsubscribe()
            self._attempts.finish()
        return self.result

    async def _deliver(self, event: ReceivedEvent) -> None:
        tries, pause = self._attempts.count_tries(event.place), self._working.pause
        reason = "its process died"
        while tries < self._working.max_deliver:
            tries += 1
            self._attempts.record_try(event.place, tries)
            failed = await self._try(event)
            if failed is None:
                self.result.done += 1
                return
            reason = failed
            self.result.failed += 1
            _log.warning("%s: try %d of %s failed: %s", self._name, tries, event.place, reason)
            if tries < self._working.max_deliver:
                await self._pause(pause)
                pause = min(2 * pause, MAX_PAUSE)
        await self._publish_dead_letter(event, reason[:_MAX_REASON], tries)

    async def _try(self, event: ReceivedEvent) -> str | None:
        """Return the reason of a failure; None on success."""

        async def handled() -> None:
            await self._handle(event)

        try:
            await self._loop.run_with_timeout(handled(), self._working.ack_timeout)
        except TimeoutError:
            return f"it timed out after {self._working.ack_timeout:g} s"
        except self._loop.cancelled_error:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    async def _publish_dead_letter(self, event: ReceivedEvent, reason: str, tries: int) -> None:
        opening = (
            f"<deadletter client={quoteattr(self._publisher.client_id)} "
            f'subscription={quoteattr(self._name)} tries="{tries}" '
            f"place={quoteattr(str(event.place))} id={quoteattr(str(event.event_id))}>"
            f"<reason>{_escape_text(reason)}</reason>"
        )
        document = f"<document>{_escape_text(event.document.decode())}</document>"
        # What it quotes may not reach readers who are not cleared for the event.
        kind = attrs.evolve(DEAD_LETTER, security_level=event.header.security_level)
        try:
            await self._publish(f"{opening}{document}</deadletter>", kind)
        except TooLarge:
            await self._publish(f"{opening}</deadletter>", kind)
        self.result.dead += 1
        _log.error("%s: %s is a dead letter: %s", self._name, event.place, reason)

    def _publish(self, letter: str, kind: EventType) -> Awaitable[Receipt]:
        return self._publisher.publish(self._working.dead_letters, letter.encode(), kind)

    def _pause(self, seconds: float) -> Awaitable[None]:
        promise = self._loop.make_promise()
        self._loop.clock.callLater(seconds, promise.fulfil, None)
        return promise.awaitable


def _escape_text(text: str) -> str:
    """Characters that XML forbids become question marks."""
    return escape(_NOT_XML.sub("?", text), {"\r": "&#13;"})
