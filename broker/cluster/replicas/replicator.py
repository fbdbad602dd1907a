"""Origin side: send this node's log to one neighbour.

Events that the neighbour lacks are read from the log, a page at a time. Once it has all, new
commits are sent at once. So a slow or new neighbour takes no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.messages import Message, encode
from broker.cluster.replicas.messages import ReplicaRequest, ReplicaState, encode_replica_events
from broker.cluster.traffic.version import PROOF_VERSION, record_fields
from broker.config.settings import StreamSettings
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent, events_with_fields
from broker.transport.clock import IClock

PAGE_EVENTS = 1_024
PAGE_BYTES = 512 << 10
#: Above it, later events are read from the log.
MAX_UNACKNOWLEDGED_BYTES = 4 << 20
#: Seconds without an answer or progress; then the state is requested again.
PROGRESS_TIMEOUT = 5.0
_MAX_CACHED_STREAMS = 10_000


@attrs.define
class _Transfer:
    neighbour: str
    has_state: bool = False
    sent: Mark = (0, 0)
    acknowledged: Mark = (0, 0)
    has_sent: bool = False
    is_reading: bool = False
    is_live: bool = False
    """True if all durable events were sent."""
    unacknowledged: deque[tuple[Mark, int]] = attrs.field(factory=deque)
    """(upto, bytes)"""
    unacknowledged_bytes: int = 0


class Replicator:
    """Implements `ingest.safety.AcknowledgementPolicy` by a replica at a neighbour."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        streams: Iterable[StreamSettings],
        clock: IClock,
        send: Callable[[str, bytes], bool],
        version_of: Callable[[str], int] = lambda _: PROOF_VERSION,
    ) -> None:
        """`send` returns False if a neighbour's link refused the message. `version_of` returns the
        node protocol of a neighbour's link."""
        self._log = event_log
        self._streams = tuple(streams)
        self._clock = clock
        self._send = send
        self._version_of = version_of
        self._cached_needs: dict[str, bool] = {}
        self._waiting: deque[tuple[Mark, Callable[[], object]]] = deque()
        self._transfer: _Transfer | None = None
        self.replicated_upto: Mark = (0, 0)

    @property
    def is_needed(self) -> bool:
        """True if any stream acknowledges only replicated events."""
        return any(stream.acknowledge == "neighbour" for stream in self._streams)

    @property
    def neighbour(self) -> str:
        return "" if self._transfer is None else self._transfer.neighbour

    def requires_replica(self, streams: Iterable[str]) -> bool:
        return any(self._needs_replica(stream) for stream in set(streams))

    def call_when_replicated(self, call: Callable[[], object]) -> None:
        mark = self._log.coverage[self._log.origin]
        if mark <= self.replicated_upto and not self._waiting:
            call()
        else:
            self._waiting.append((mark, call))

    def _needs_replica(self, stream: str) -> bool:
        found = self._cached_needs.get(stream)
        if found is None:
            if len(self._cached_needs) >= _MAX_CACHED_STREAMS:
                self._cached_needs.clear()
            settings = next((each for each in self._streams if each.pattern.matches(stream)), None)
            found = settings is not None and settings.acknowledge == "neighbour"
            self._cached_needs[stream] = found
        return found

    def choose_neighbour(self, neighbours: Iterable[str]) -> None:
        """Keep the present neighbour while it is linked, else choose the first of `neighbours`."""
        candidates = list(neighbours)
        if not self.is_needed or (self._transfer and self._transfer.neighbour in candidates):
            return
        self._transfer = None
        if candidates:
            self._transfer = _Transfer(candidates[0])
            self._request_state(self._transfer)
        elif self._waiting:
            self.log.warn(
                "{count} answers to publishers wait for a replica: no neighbour is linked. "
                "Link a neighbour, or set `acknowledge` of the stream to another value",
                count=len(self._waiting),
            )

    def _request_state(self, transfer: _Transfer) -> None:
        if self._transfer is not transfer:
            return
        transfer.has_state = transfer.is_live = False
        transfer.unacknowledged.clear()
        transfer.unacknowledged_bytes = 0
        self._send_message(transfer, ReplicaRequest(self._log.origin))
        self._clock.callLater(
            PROGRESS_TIMEOUT, self._check_progress, transfer, transfer.acknowledged
        )

    def _check_progress(self, transfer: _Transfer, acknowledged: Mark) -> None:
        if self._transfer is not transfer:
            return
        if not transfer.has_state or (
            transfer.unacknowledged and transfer.acknowledged == acknowledged
        ):
            self._request_state(transfer)
        else:
            self._clock.callLater(
                PROGRESS_TIMEOUT, self._check_progress, transfer, transfer.acknowledged
            )

    def receive_state(self, neighbour: str, state: ReplicaState) -> None:
        transfer = self._transfer
        if transfer is None or transfer.neighbour != neighbour or state.origin != self._log.origin:
            return
        first_available = self._log.begins_after.get(self._log.origin, (0, 0))
        durable = self._log.coverage[self._log.origin]
        continues = first_available <= state.upto <= durable
        transfer.sent = state.upto if continues else first_available
        transfer.has_state, transfer.has_sent = True, False
        if continues and state.after <= first_available:
            self._advance(state.upto)
        self._start_reading(transfer)

    def receive_ack(self, neighbour: str, upto: Mark) -> None:
        transfer = self._transfer
        if transfer is None or transfer.neighbour != neighbour or not transfer.has_state:
            return
        if upto > transfer.sent:
            # From before the last request, or false. A true one is repeated.
            return
        transfer.acknowledged = max(transfer.acknowledged, upto)
        while transfer.unacknowledged and transfer.unacknowledged[0][0] <= upto:
            transfer.unacknowledged_bytes -= transfer.unacknowledged.popleft()[1]
        self._advance(upto)
        self._start_reading(transfer)

    def _advance(self, upto: Mark) -> None:
        self.replicated_upto = max(self.replicated_upto, upto)
        while self._waiting and self._waiting[0][0] <= self.replicated_upto:
            self._waiting.popleft()[1]()

    def replicate_committed(self, events: list[LoggedEvent]) -> None:
        transfer = self._transfer
        if transfer is None or not transfer.is_live:
            return
        if transfer.unacknowledged_bytes > MAX_UNACKNOWLEDGED_BYTES:
            transfer.is_live = False
        else:
            self._send_events(transfer, events[-1].mark, events)

    def _send_events(self, transfer: _Transfer, upto: Mark, events: list[LoggedEvent]) -> None:
        fields = record_fields(self._version_of(transfer.neighbour))
        events = events_with_fields(events, fields)
        data = encode_replica_events(transfer.sent, upto, events)
        if not self._send(transfer.neighbour, data):
            # The events are read again after an acknowledgement or a new state.
            transfer.is_live = False
            return
        transfer.sent, transfer.has_sent = upto, True
        transfer.unacknowledged.append((upto, len(data)))
        transfer.unacknowledged_bytes += len(data)

    def _start_reading(self, transfer: _Transfer) -> None:
        if (
            transfer.is_live
            or transfer.is_reading
            or transfer.unacknowledged_bytes > MAX_UNACKNOWLEDGED_BYTES // 2
        ):
            return
        transfer.is_reading = True
        Deferred.fromCoroutine(self._read_log(transfer)).addErrback(
            lambda failure: self.log.failure("reading the log for its replica failed", failure)
        )

    async def _read_log(self, transfer: _Transfer) -> None:
        log = self._log
        try:
            while (
                self._transfer is transfer
                and transfer.unacknowledged_bytes <= MAX_UNACKNOWLEDGED_BYTES
            ):
                durable = log.coverage[log.origin]
                if transfer.sent >= durable:
                    transfer.is_live = True
                    return
                before = transfer.sent
                lost_upto: Mark = (0, 0)
                events: list[LoggedEvent] = []
                try:
                    events = await log.read_origin(log.origin, before, PAGE_EVENTS, PAGE_BYTES)
                except DamageFound as found:
                    # The replica continues behind these events.
                    lost_upto = found.damage.upto
                if self._transfer is not transfer or transfer.sent != before:
                    return
                first_available = max(log.begins_after.get(log.origin, (0, 0)), lost_upto)
                if first_available > before:
                    # A replica has no missing range, so it restarts behind the removed events.
                    if transfer.has_sent:
                        transfer.has_state = False
                        return
                    transfer.sent = before = first_available
                    events = [event for event in events if event.mark > first_available]
                if not events:
                    transfer.sent = before if lost_upto > (0, 0) else max(durable, before)
                    continue
                self._send_events(transfer, events[-1].mark, events)
                if transfer.sent == before:
                    return
        except BrokerError:
            # The log can not be read now.
            transfer.has_state = False
            raise
        finally:
            transfer.is_reading = False

    def _send_message(self, transfer: _Transfer, message: Message) -> None:
        self._send(transfer.neighbour, encode(message))
