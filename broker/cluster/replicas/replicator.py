"""The owner's side: everything in its log goes to one neighbour, which says what it has.

What the keeper lacks is read from the log, a page at a time; what is committed while it lacks
nothing goes at once. So a keeper that is slow, or new, costs no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.messages import Message, encode
from broker.cluster.replicas.messages import AskKeeper, KeeperHas, encode_keep
from broker.config.settings import StreamSettings
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.records import LoggedEvent
from broker.transport.clock import IClock

#: A page of the log for a keeper.
PAGE_EVENTS = 1_024
PAGE_BYTES = 512 << 10
#: Bytes on the way to a keeper that it has not said to have; then the rest is read later.
MOST_UNDER_WAY = 4 << 20
#: Seconds without an answer, after which a keeper is asked again what it has.
ASK_AGAIN = 5.0
#: Streams of which it is remembered whether they are guarded.
_REMEMBERED = 10_000


@attrs.define
class _Sending:
    """To the present keeper."""

    keeper: str
    answered: bool = False
    """It has told what it has."""
    sent: Mark = (0, 0)
    kept: Mark = (0, 0)
    """Up to where it has said that it has them."""
    begun: bool = False
    """It was sent something since then."""
    reading: bool = False
    live: bool = False
    """It was sent all that is durable."""
    under_way: deque[tuple[Mark, int]] = attrs.field(factory=deque)
    """Up to where, and how many bytes."""
    bytes: int = 0


class Owner:
    """Implements `router.safety.Safety` with the help of a neighbour."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        streams: Iterable[StreamSettings],
        clock: IClock,
        send: Callable[[str, bytes], bool],
    ) -> None:
        """`send` gives a message to a neighbour's link, and says whether that took it."""
        self._log = event_log
        self._streams = tuple(streams)
        self._clock = clock
        self._send = send
        self._guarded: dict[str, bool] = {}
        self._waiting: deque[tuple[Mark, Callable[[], object]]] = deque()
        self._sending: _Sending | None = None
        self.kept: Mark = (0, 0)
        """Up to where a keeper has everything."""

    @property
    def needed(self) -> bool:
        """Whether any stream asks for a keeper."""
        return any(stream.acknowledge == "neighbour" for stream in self._streams)

    @property
    def keeper(self) -> str:
        """The neighbour that keeps, or is to keep, this node's events; empty if there is none."""
        return "" if self._sending is None else self._sending.keeper

    @property
    def waiting(self) -> int:
        """Answers to publishers that wait for the keeper."""
        return len(self._waiting)

    # ------------------------------------------------------------------ Safety

    def guards(self, streams: Iterable[str]) -> bool:
        """See `router.safety`."""
        return any(self._is_guarded(stream) for stream in set(streams))

    def when_safe(self, call: Callable[[], object]) -> None:
        """See `router.safety`."""
        mark = self._log.coverage[self._log.origin]
        if mark <= self.kept and not self._waiting:
            call()
        else:
            self._waiting.append((mark, call))

    def _is_guarded(self, stream: str) -> bool:
        found = self._guarded.get(stream)
        if found is None:
            if len(self._guarded) >= _REMEMBERED:
                self._guarded.clear()
            settings = next((each for each in self._streams if each.pattern.matches(stream)), None)
            found = settings is not None and settings.acknowledge == "neighbour"
            self._guarded[stream] = found
        return found

    # ------------------------------------------------------------------ the keeper

    def choose(self, neighbours: Iterable[str]) -> None:
        """These links are up, the best first: the present keeper stays as long as it can."""
        candidates = list(neighbours)
        if not self.needed or (self._sending and self._sending.keeper in candidates):
            return
        self._sending = None
        if candidates:
            self._sending = _Sending(candidates[0])
            self._ask(self._sending)
        elif self._waiting:
            self.log.warn(
                "{count} answers to publishers wait, for no neighbour is there that could keep "
                "their events",
                count=len(self._waiting),
            )

    def _ask(self, sending: _Sending) -> None:
        if self._sending is not sending:
            return
        sending.answered = sending.live = False
        sending.under_way.clear()
        sending.bytes = 0
        self._tell(sending, AskKeeper(self._log.origin))
        self._clock.callLater(ASK_AGAIN, self._look, sending, sending.kept)

    def _look(self, sending: _Sending, kept: Mark) -> None:
        """It has been silent although it was sent something, or has not answered: once more."""
        if self._sending is not sending:
            return
        if not sending.answered or (sending.under_way and sending.kept == kept):
            self._ask(sending)
        else:
            self._clock.callLater(ASK_AGAIN, self._look, sending, sending.kept)

    def keeper_has(self, keeper: str, has: KeeperHas) -> None:
        """The keeper has told what it has: go on from there."""
        sending = self._sending
        if sending is None or sending.keeper != keeper or has.origin != self._log.origin:
            return
        begins = self._log.since.get(self._log.origin, (0, 0))
        durable = self._log.coverage[self._log.origin]
        goes_on = begins <= has.upto <= durable
        sending.sent = has.upto if goes_on else begins
        sending.answered, sending.begun = True, False
        if goes_on and has.after <= begins:
            self._keeps(has.upto)
        self._read_on(sending)

    def kept_upto(self, keeper: str, upto: Mark) -> None:
        """The keeper has everything up to a place, durably."""
        sending = self._sending
        if sending is None or sending.keeper != keeper or not sending.answered:
            return
        if upto > sending.sent:
            # Of what was on its way when it was asked again, or a lie: it will say so again.
            return
        sending.kept = max(sending.kept, upto)
        while sending.under_way and sending.under_way[0][0] <= upto:
            sending.bytes -= sending.under_way.popleft()[1]
        self._keeps(upto)
        self._read_on(sending)

    def _keeps(self, upto: Mark) -> None:
        self.kept = max(self.kept, upto)
        while self._waiting and self._waiting[0][0] <= self.kept:
            self._waiting.popleft()[1]()

    # ------------------------------------------------------------------ sending

    def committed(self, events: list[LoggedEvent]) -> None:
        """Own events have become durable."""
        sending = self._sending
        if sending is None or not sending.live:
            return
        if sending.bytes > MOST_UNDER_WAY:
            sending.live = False
        else:
            self._give(sending, events[-1].mark, events)

    def _give(self, sending: _Sending, upto: Mark, events: list[LoggedEvent]) -> None:
        data = encode_keep(sending.sent, upto, events)
        if not self._send(sending.keeper, data):
            # Read again when the keeper has got further, or is asked again.
            sending.live = False
            return
        sending.sent, sending.begun = upto, True
        sending.under_way.append((upto, len(data)))
        sending.bytes += len(data)

    def _read_on(self, sending: _Sending) -> None:
        if sending.live or sending.reading or sending.bytes > MOST_UNDER_WAY // 2:
            return
        sending.reading = True
        Deferred.fromCoroutine(self._read(sending)).addErrback(
            lambda failure: self.log.failure("reading the log for its keeper failed", failure)
        )

    async def _read(self, sending: _Sending) -> None:
        log = self._log
        try:
            while self._sending is sending and sending.bytes <= MOST_UNDER_WAY:
                durable = log.coverage[log.origin]
                if sending.sent >= durable:
                    sending.live = True
                    return
                before = sending.sent
                lost: Mark = (0, 0)
                events: list[LoggedEvent] = []
                try:
                    events = await log.read_of(log.origin, before, PAGE_EVENTS, PAGE_BYTES)
                except DamageFound as found:
                    # Nobody has these events: the replica begins behind them.
                    lost = found.damage.upto
                if self._sending is not sending or sending.sent != before:
                    return
                begins = max(log.since.get(log.origin, (0, 0)), lost)
                if begins > before:
                    # Retention was quicker. What is kept has no hole: it begins behind that.
                    if sending.begun:
                        sending.answered = False
                        return
                    sending.sent = before = begins
                    events = [event for event in events if event.mark > begins]
                if not events:
                    sending.sent = before if lost > (0, 0) else max(durable, before)
                    continue
                self._give(sending, events[-1].mark, events)
                if sending.sent == before:
                    return
        except BrokerError:
            # The log can not be read now: the replica is asked again where it stands.
            sending.answered = False
            raise
        finally:
            sending.reading = False

    def _tell(self, sending: _Sending, message: Message) -> None:
        self._send(sending.keeper, encode(message))
