"""Audit records, written in another thread."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Interface, implementer

from broker.errors import BrokerError
from broker.limit_registry import LimitRegistry
from broker.rate_limited_log import RateLimitedLog

#: Records in memory. Beyond them records are lost and counted.
MAX_QUEUED: Final = 10_000
#: Records in one write.
MAX_WRITTEN: Final = 1_000
#: Different failures within `REPEAT_INTERVAL`; further ones are counted together.
MAX_FAILURES: Final = 1_000
#: Seconds in which equal failures are one record.
REPEAT_INTERVAL: Final = 60.0
#: Characters of each text of a record.
MAX_TEXT: Final = 400
OK: Final = "ok"

#: Action, account, client, address, subject, and result.
_Fields: TypeAlias = tuple[str, str, str, str, str, str]


class IAuditLog(Interface):
    """Log of who did what, for the operator.

    `action` is a lower-case word with hyphens, as `login`. Texts may come from peers.
    """

    def record(
        action: str,
        *,
        account: str = "",
        client: str = "",
        address: str = "",
        subject: str = "",
        detail: str = "",
        error: BrokerError | None = None,
    ) -> None:
        """Queue a record. Its result is the error's code, or "ok".

        `subject` is the object of the action: a durable subscription, a command, a key.
        """


@implementer(IAuditLog)
class NoAuditLog:
    """An audit log that drops its records, for a node without `audit.file`."""

    def record(self, action: str, **_: Any) -> None:
        """Do nothing."""

    def tick(self) -> None:
        """Do nothing."""

    async def drain(self) -> None:
        """Do nothing."""


@attrs.define
class _Repetition:
    fields: _Fields
    ends_at: float
    count: int = 0


@implementer(IAuditLog)
class AuditLog:
    """A bounded queue in front of a file; it never blocks its caller.

    If the queue is full or the file can not be written, records are lost. Their number is counted,
    logged at a limited rate, and follows the next records that are written. Equal failures within
    `REPEAT_INTERVAL` are one record and a later one with their number.
    """

    log = Logger()

    def __init__(
        self,
        append: Callable[[Sequence[str]], None],
        run_in_thread: Callable[..., Deferred[Any]],
        *,
        wall_clock: Callable[[], int],
        now: Callable[[], float],
        limit_registry: LimitRegistry,
    ) -> None:
        """`append` blocks; it runs by `run_in_thread`, one call at a time. `wall_clock` returns ms
        since 1970, `now` monotonic seconds."""
        self._append = append
        self._run_in_thread = run_in_thread
        self._wall_clock = wall_clock
        self._now = now
        self._queue: deque[str] = deque()
        self._writing: Deferred[None] | None = None
        self._lost = 0
        self._failures: OrderedDict[_Fields, _Repetition] = OrderedDict()
        self._further = 0
        self._loss_log = RateLimitedLog(lambda text: self.log.error("{text}", text=text), now)
        self._queue_limit = limit_registry.add(
            "audit-queue", bound=lambda: MAX_QUEUED, used=lambda: len(self._queue)
        )

    def record(
        self,
        action: str,
        *,
        account: str = "",
        client: str = "",
        address: str = "",
        subject: str = "",
        detail: str = "",
        error: BrokerError | None = None,
    ) -> None:
        result = OK if error is None else error.code
        fields = (action, account, client, address, subject, result)
        if error is not None and self._is_repetition(fields):
            return
        self._queue_record(fields, error.text if error is not None and not detail else detail)

    def tick(self) -> None:
        """Record the number of repeated failures whose interval is over."""
        now = self._now()
        while self._failures:
            key, repetition = next(iter(self._failures.items()))
            if repetition.ends_at > now:
                return
            del self._failures[key]
            if repetition.count:
                self._queue_record(repetition.fields, repeated=repetition.count)
        if self._further:
            self._queue_record(("further-failures", "", "", "", "", ""), repeated=self._further)
            self._further = 0

    async def drain(self) -> None:
        """Wait until all records are written or lost."""
        self._end_intervals()
        while self._writing is not None:
            await self._writing

    def _end_intervals(self) -> None:
        for repetition in self._failures.values():
            repetition.ends_at = 0.0
        self.tick()

    def _is_repetition(self, fields: _Fields) -> bool:
        action, account, client, address, subject, result = fields
        # Each connection has another port.
        host = address.rpartition(":")[0]
        key = (action, account, client, host, subject, result)
        known = self._failures.get(key)
        if known is not None:
            known.count += 1
            return True
        if len(self._failures) >= MAX_FAILURES:
            self._further += 1
            return True
        self._failures[key] = _Repetition(fields, self._now() + REPEAT_INTERVAL)
        return False

    def _queue_record(self, fields: _Fields, detail: str = "", repeated: int = 0) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self._count_lost(1, "the queue of the audit log is full")
            return
        record: dict[str, Any] = {"time": self._format_time()}
        names = ("action", "account", "client", "address", "subject", "result")
        record |= {name: text[:MAX_TEXT] for name, text in zip(names, fields, strict=True) if text}
        if detail:
            record["detail"] = detail[:MAX_TEXT]
        if repeated:
            record["repeated"] = repeated
        self._queue.append(_encode(record))
        if self._writing is None:
            self._write()

    def _format_time(self) -> str:
        now = datetime.fromtimestamp(self._wall_clock() / 1000, UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _write(self) -> None:
        lines = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_WRITTEN))]
        count, lost = len(lines), self._lost
        if lost:
            lines.append(
                _encode({"time": self._format_time(), "action": "records-lost", "repeated": lost})
            )
        done: Deferred[None] = Deferred()
        self._writing = done

        def fail(failure: Failure) -> None:
            failure.trap(OSError)
            self._count_lost(count, f"the audit log can not be written: {failure.value}")

        def go_on(_: object) -> None:
            self._writing = None
            if self._queue:
                self._write()
            done.callback(None)

        written = self._run_in_thread(self._append, lines)
        written.addCallbacks(lambda _: self._forget_lost(lost), fail)
        written.addErrback(lambda failure: self.log.failure("the audit log failed", failure))
        written.addBoth(go_on)

    def _forget_lost(self, lost: int) -> None:
        self._lost -= lost

    def _count_lost(self, count: int, reason: str) -> None:
        self._lost += count
        self._queue_limit.count_reached(count)
        self._loss_log.report("audit", "lost", f"{reason}; records are lost")


def _encode(record: dict[str, Any]) -> str:
    # All but printable ASCII is escaped: no text can begin a line or move a terminal's cursor.
    return json.dumps(record).replace("\x7f", "\\u007f")
