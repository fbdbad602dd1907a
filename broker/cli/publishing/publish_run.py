"""One run of `pub`: read ahead, pace, bound the unanswered events, count receipts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from broker.cli.publishing.pace import Pace
from broker.cli.publishing.portion_record import Portion, PortionRecord
from broker.cli.publishing.publication import PortionEnd, Publication, Refusal
from broker.cli.publishing.published_table import PublishedTable
from broker.cli.publishing.tally import REFUSALS, Tally
from broker.cli.stop_signal import Stop
from broker.client.client import Client
from broker.errors import BrokerError, Closed, GaveUp, Overloaded, TableUnavailable
from broker.wire.messages import STATE_VERSION

#: With more unanswered events reading waits.
MAX_OUTSTANDING: Final = 5_000
#: After a kill at most so many events with keys are published once more.
MAX_REPEATED: Final = 500
#: As many may have receipts that are not recorded yet.
MAX_OUTSTANDING_WITH_KEYS: Final = MAX_REPEATED // 2
#: Seconds for receipts after Ctrl-C.
RECEIPT_TIMEOUT: Final = 5.0
#: Without errors nothing else here yields to the loop.
_EVENTS_PER_SLICE: Final = 250


class ItemSource(Protocol):
    """Source of the items: a `ReaderThread`."""

    async def next_items(self) -> Sequence[Publication | Refusal | PortionEnd]: ...


class PublishRun:
    def __init__(
        self,
        client: Client,
        tally: Tally,
        pace: Pace,
        stop: Stop,
        *,
        timeout: float,
        fail_fast: bool = False,
        most_outstanding: int = MAX_OUTSTANDING,
        table: PublishedTable | None = None,
    ) -> None:
        """With a `table` known events are not published; `run` flushes it."""
        self._client = client
        self._tally = tally
        self._pace = pace
        self._stop = stop
        self._timeout = timeout
        self._fail_fast = fail_fast
        self._max_outstanding = most_outstanding
        self._record = PortionRecord(table)
        self._is_flush_due = False
        self._drops_times = False
        self._loop = asyncio.get_running_loop()
        self._receipts: deque[asyncio.Future[Any]] = deque()
        self._give_up_timer: asyncio.TimerHandle | None = None
        self.error: BrokerError | None = None
        """Error that ended the run early: no node, or a refusal by the node."""
        client.on_state = self._state_changed
        client.on_trouble = self._show_connection_state

    async def run(self, supply: ItemSource) -> None:
        """Publish all items and wait for the receipts; `stop` ends it early."""
        try:
            while not self._stop:
                items = await self._stop.run_or_cancel(supply.next_items())
                if not items:
                    break
                for item in items:
                    await self._publish_item(item)
            while self._receipts and not self._stop:
                await self._await_oldest()
            if self._receipts and self.error is None:
                await asyncio.wait(self._receipts, timeout=RECEIPT_TIMEOUT)
        finally:
            self._flush_record()
            self._client.on_state = self._client.on_trouble = None
            if self._give_up_timer is not None:
                self._give_up_timer.cancel()

    async def _publish_item(self, item: Publication | Refusal | PortionEnd) -> None:
        if self._stop:
            return
        if isinstance(item, PortionEnd):
            if item.key is not None:
                self._tally.begin_portion()
            self._change_record(lambda: self._record.end_portion(item))
            return
        if isinstance(item, Refusal):
            self._count_refusal(item)
            return
        if self._is_known(item):
            return
        delay = self._pace.delay(item.time, self._loop.time())
        if delay > 0:
            await self._stop.pause(delay)
        while not self._stop:
            if len(self._receipts) < self._max_outstanding and self._try_publish(item):
                break
            await self._await_oldest()
        if self._tally.sent % _EVENTS_PER_SLICE == 0:
            await asyncio.sleep(0)

    def _is_known(self, item: Publication) -> bool:
        try:
            known = self._record.is_known(item.key)
        except TableUnavailable as error:
            self._end_with(error)
            return True
        if known:
            self._tally.count_known()
        return known

    def _try_publish(self, item: Publication) -> bool:
        """Return False if the outbox is full."""
        self._drop_settled()
        if item.event_time is not None and not self._drops_times:
            self._check_version()
        try:
            receipt = asyncio.ensure_future(
                self._client.publish(
                    item.stream,
                    item.payload,
                    item.event_type,
                    linkage=item.linkage,
                    application_types=item.application_types,
                    summary=item.summary,
                    time=item.event_time,
                )
            )
        except Overloaded as error:
            if self._receipts:
                return False
            self._count_refusal(Refusal(item.location, error.text))
        except REFUSALS as error:
            self._count_refusal(Refusal(item.location, error.text))
        except BrokerError as error:
            self._end_with(error)
        else:
            self._tally.count_sent()
            self._receipts.append(receipt)
            portion = self._record.begin_event(item.key)
            receipt.add_done_callback(lambda future: self._count_result(item, portion, future))
        return True

    def _check_version(self) -> None:
        welcome = self._client.welcome
        if welcome is not None and welcome.version < STATE_VERSION:
            self._drops_times = True
            self._tally.report("the node is too old for the events' own times: it gets none")

    def _count_result(
        self, item: Publication, portion: Portion, future: asyncio.Future[Any]
    ) -> None:
        error = future.exception()
        if error is None:
            self._change_record(lambda: self._record.accept_event(item.key, portion))
        elif isinstance(error, REFUSALS):
            self._change_record(lambda: self._record.refuse_event(item.key, portion))
        else:
            self._record.lose_event(portion)
        self._tally.count_result(item, future.result() if error is None else error)
        if isinstance(error, REFUSALS):
            if self._fail_fast:
                self._stop.request()
        elif isinstance(error, BrokerError) and not isinstance(error, Closed):
            self._end_with(error)

    def _change_record(self, change: Callable[[], None]) -> None:
        try:
            change()
        except TableUnavailable as error:
            self._end_with(error)
        if not self._is_flush_due:
            # The receipts of a batch come in one turn of the loop, and share a transaction.
            self._is_flush_due = True
            self._loop.call_soon(self._flush_record)

    def _flush_record(self) -> None:
        self._is_flush_due = False
        try:
            self._record.flush()
        except TableUnavailable as error:
            self._end_with(error)

    def _count_refusal(self, refusal: Refusal) -> None:
        self._record.refuse_item()
        self._tally.count_refused(refusal)
        if self._fail_fast:
            self._stop.request()

    async def _await_oldest(self) -> None:
        await self._stop.run_or_cancel(asyncio.wait({self._receipts[0]}))
        self._drop_settled()

    def _drop_settled(self) -> None:
        while self._receipts and self._receipts[0].done():
            self._receipts.popleft()

    def _state_changed(self, connected: bool, error: BrokerError | None) -> None:
        if connected:
            if self._give_up_timer is not None:
                self._give_up_timer.cancel()
                self._give_up_timer = None
        elif self._give_up_timer is None:
            self._give_up_timer = self._loop.call_later(self._timeout, self._give_up)

    def _show_connection_state(self, problem: BrokerError | None) -> None:
        # Events are sent again until the disk has space.
        if problem is None:
            self._tally.report("the node accepts events again")
        else:
            self._tally.report(f"the node accepts no events now, waiting: {problem}")

    def _give_up(self) -> None:
        reason = self._client.last_error
        text = f"no connection to the node for {self._timeout:g} s"
        self._end_with(GaveUp(f"{text}: {reason}" if reason else text))

    def _end_with(self, error: BrokerError) -> None:
        self.error = self.error or error
        self._stop.request()
