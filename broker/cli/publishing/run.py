"""Publishing: reads ahead, paces, keeps a bounded number of events on the way, counts receipts."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, Protocol

from broker.cli.publishing.pace import Pace
from broker.cli.publishing.publication import Publication, Refusal
from broker.cli.publishing.tally import REFUSALS, Tally
from broker.cli.stopping import Stop
from broker.client.client import Client
from broker.errors import BrokerError, Closed, GaveUp, Overloaded

#: So many events may be on the way; then reading waits for receipts.
MOST_OUTSTANDING: Final = 5_000
#: How long receipts are awaited after Ctrl-C, in seconds.
LAST_RECEIPTS: Final = 5.0
#: After so many events the loop gets a turn: nothing else here gives it one when all goes well.
_EVENTS_A_TURN: Final = 250


class Supply(Protocol):
    """Where the items come from: a `HandOver`."""

    async def some(self) -> list[Publication | Refusal]: ...


class Publishing:
    """One run of `pub` over one client."""

    def __init__(
        self,
        client: Client,
        tally: Tally,
        pace: Pace,
        stop: Stop,
        *,
        timeout: float,
        fail_fast: bool = False,
        most_outstanding: int = MOST_OUTSTANDING,
    ) -> None:
        self._client = client
        self._tally = tally
        self._pace = pace
        self._stop = stop
        self._timeout = timeout
        self._fail_fast = fail_fast
        self._most = most_outstanding
        self._loop = asyncio.get_running_loop()
        self._receipts: deque[asyncio.Future[Any]] = deque()
        self._away: asyncio.TimerHandle | None = None
        self.error: BrokerError | None = None
        """Why it ended early: no node, or none that wants us."""
        client.on_state = self._state_changed
        client.on_trouble = self._trouble_changed

    async def run(self, supply: Supply) -> None:
        """Publish everything, and wait for the receipts; ends early when `stop` wants it."""
        try:
            while not self._stop:
                items = await self._stop.unless(supply.some())
                if not items:
                    break
                for item in items:
                    await self._take(item)
            while self._receipts and not self._stop:
                await self._oldest()
            if self._receipts and self.error is None:
                await asyncio.wait(self._receipts, timeout=LAST_RECEIPTS)
        finally:
            self._client.on_state = self._client.on_trouble = None
            if self._away is not None:
                self._away.cancel()

    async def _take(self, item: Publication | Refusal) -> None:
        if self._stop:
            return
        if isinstance(item, Refusal):
            self._refuse(item)
            return
        delay = self._pace.delay(item.time, self._loop.time())
        if delay > 0:
            await self._stop.pause(delay)
        while not self._stop:
            if len(self._receipts) < self._most and self._publish(item):
                break
            await self._oldest()
        if self._tally.sent % _EVENTS_A_TURN == 0:
            await asyncio.sleep(0)

    def _publish(self, item: Publication) -> bool:
        """Publish the item, or find out that it never can be; False if there is no room now."""
        self._forget_settled()
        try:
            receipt = asyncio.ensure_future(
                self._client.publish(
                    item.stream,
                    item.payload,
                    item.event_type,
                    linkage=item.linkage,
                    application_types=item.application_types,
                    summary=item.summary,
                )
            )
        except Overloaded as error:
            if self._receipts:
                return False
            self._refuse(Refusal(item.origin, error.text))
        except REFUSALS as error:
            self._refuse(Refusal(item.origin, error.text))
        except BrokerError as error:
            self._end(error)
        else:
            self._tally.send()
            self._receipts.append(receipt)
            receipt.add_done_callback(lambda future: self._settled(item, future))
        return True

    def _settled(self, item: Publication, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        self._tally.settle(item, future.result() if error is None else error)
        if isinstance(error, REFUSALS):
            if self._fail_fast:
                self._stop.now()
        elif isinstance(error, BrokerError) and not isinstance(error, Closed):
            self._end(error)

    def _refuse(self, refusal: Refusal) -> None:
        self._tally.refuse(refusal)
        if self._fail_fast:
            self._stop.now()

    async def _oldest(self) -> None:
        """Wait for the receipt of the event that was sent first, unless an end is wanted."""
        await self._stop.unless(asyncio.wait({self._receipts[0]}))
        self._forget_settled()

    def _forget_settled(self) -> None:
        while self._receipts and self._receipts[0].done():
            self._receipts.popleft()

    # ------------------------------------------------------------------ the connection

    def _state_changed(self, connected: bool, error: BrokerError | None) -> None:
        if connected:
            if self._away is not None:
                self._away.cancel()
                self._away = None
        elif self._away is None:
            self._away = self._loop.call_later(self._timeout, self._give_up)

    def _trouble_changed(self, trouble: BrokerError | None) -> None:
        # A full disk: what was sent is sent again until there is room.
        if trouble is None:
            self._tally.tell("the node takes events again")
        else:
            self._tally.tell(f"the node takes no events for now, waiting: {trouble}")

    def _give_up(self) -> None:
        reason = self._client.last_error
        text = f"no connection to the node for {self._timeout:g} s"
        self._end(GaveUp(f"{text}: {reason}" if reason else text))

    def _end(self, error: BrokerError) -> None:
        self.error = self.error or error
        self._stop.now()
