"""A simulated site: the core of an order above the links to all other sites."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.testing.order.channel import Loss
from broker.testing.order.link import Link
from broker.testing.order.loop import Loop
from broker.testing.order.members import ADMIT, SETTLING, Members, Record, SentList
from broker.testing.order.run import Delivery, Missing, Moved, Process, Run, Sent, Status
from broker.transport.effects import Failed
from broker.transport.order import (
    Deliver,
    Instant,
    IOrderCore,
    IPacketCodec,
    Message,
    MessageId,
    Move,
    OrderEffect,
    Send,
    Stamp,
    Suspect,
)
from broker.transport.view import LinkState


class Site:
    """One process of a site. All effects of a call are applied before the next one."""

    def __init__(
        self,
        process: Process,
        core: IOrderCore,
        codec: IPacketCodec,
        loop: Loop,
        read_clock: Callable[[], int],
        run: Run,
        members: Members,
        changed: Callable[[Site, str], object],
    ) -> None:
        """`changed` gets each site that joins or leaves, as this site knows it."""
        self.members = members
        self._changed = changed
        self.name, self.incarnation = self.process = process
        self.core = core
        self.codec = codec
        self.links: dict[str, Link] = {}
        self.is_running = True
        #: Sends a packet to sites, and returns those that get it.
        self.send_packet = self._send_copies
        self._loop = loop
        self._read_clock = read_clock
        self._run = run
        self._calls: deque[Callable[[], Iterable[OrderEffect]]] = deque()
        self._is_applying = False
        self._timer = float("inf")
        self._numbers: dict[str, MessageId] = {}  # the last messages of other sites
        self._positions: dict[str, int] = {}  # deliveries before suspicions of the order
        self.last_sent = MessageId(*process, 0)
        self._committed_at = 0.0  # end of the last commit under way
        self._commit_time = 0.0  # of the messages that are released
        self._failures = 0

    def publish(
        self, messages: int, commit: float, *, fails: bool = False, payload: bytes = b""
    ) -> None:
        """Stamp messages, commit them in this time, and release them if the commit succeeds.

        Those of a commit are one run, if the variant has runs. Commits end in the order in which
        they began.
        """
        now = self._loop.now
        self.core.stamp(messages, self._instant())
        self._committed_at = max(self._committed_at, now + commit)
        self._run.commits[self.process].append((now, self._committed_at))
        end = self._end_failed_commit if fails else self._end_commit
        counts = [messages] if self.core.has_runs else [1] * messages
        self._loop.call_at(self._committed_at, end, payload, counts, now, self._failures)

    def _end_commit(
        self, payload: bytes, counts: Sequence[int], begin: float, failures: int
    ) -> None:
        if failures == self._failures:
            self._commit_time = self._loop.now - begin
            payloads = [payload] * len(counts)
            self._call(lambda: self.core.release(payloads, self._instant(), counts))

    def _end_failed_commit(
        self, payload: bytes, counts: Sequence[int], begin: float, failures: int
    ) -> None:
        """All commits under way fail."""
        if failures == self._failures:
            self._failures += 1
            self._call(lambda: self.core.revoke(self._instant()))

    def stop(self, *, silently: bool) -> int:
        """Kill the process, and return what it has stored."""
        self.is_running = False
        for link in self.links.values():
            link.stop(silently=silently)
        return self.core.floor

    # ----------------------------------------------------------------- of the group

    def unite(self, records: Mapping[str, Record]) -> None:
        changed = self.members.unite(records)
        for name in changed:
            self._changed(self, name)
        if changed:
            self._loop.call_later(SETTLING, self._send_list)

    def _send_list(self) -> None:
        for name, link in self.links.items() if self.is_running else ():
            if name in self.members:
                link.send(SentList(dict(self.members.records)))

    def _change_sites(self, payload: bytes, stamp: Stamp, id: MessageId) -> None:
        self.unite({payload[1:].decode(): ((stamp, id), payload.startswith(ADMIT))})

    # ----------------------------------------------------------------- of the links

    def make_offer(self, peer: str) -> int:
        return self.core.offer_clock(peer, self._instant())

    def answer_offer(self, peer: str, clock: int) -> int | None:
        answer = self.core.answer_clock(peer, clock, self._instant())
        self._arm()
        return answer

    def accept_answer(self, peer: str, clock: int) -> bool:
        effects = self.core.connect(peer, clock, self._instant())
        if effects is None:
            return False
        self.links[peer].state = LinkState.CONNECTED
        self._record_status(peer, LinkState.CONNECTED, "")
        self._call(lambda: effects)
        return True

    def report_state(self, peer: str, state: LinkState, reason: str) -> None:
        self._record_status(peer, state, reason)
        self._call(lambda: self.core.disconnect(peer, state, self._instant()))

    def receive(self, peer: str, packets: list[object]) -> None:
        batch: list[object] = []
        for packet in packets:
            if isinstance(packet, Loss):
                self._receive_batch(peer, batch)
                batch = []
                self._record_missing(packet.last)
                self._miss_messages(packet.last)
            elif isinstance(packet, SentList):
                self._receive_batch(peer, batch)
                batch = []
                self.unite(packet.records)
            else:
                batch.append(packet)
        self._receive_batch(peer, batch)

    def _receive_batch(self, peer: str, batch: list[object]) -> None:
        for packet in batch:
            if isinstance(packet, Message):
                ids = ids_of(packet)
                self._record_missing(packet.id.after(-1))
                self._numbers[peer] = ids[-1]
                for id in ids:
                    self._run.received[self.process].setdefault(id, self._loop.now)
        if batch:
            self._call(lambda: self.core.receive(peer, batch, self._instant()))

    def _miss_messages(self, last: MessageId) -> None:
        self._call(lambda: self.core.miss_messages(last, self._instant()))

    # ----------------------------------------------------------------- of the core

    def _instant(self) -> Instant:
        return Instant(self._loop.now, self._read_clock())

    def _call(self, operation: Callable[[], Iterable[OrderEffect]]) -> None:
        self._calls.append(operation)
        if self._is_applying or not self.is_running:
            return
        self._is_applying = True
        while self._calls:
            for effect in self._calls.popleft()():
                self._apply(effect)
        self._is_applying = False
        self._arm()

    def _apply(self, effect: OrderEffect) -> None:
        match effect:
            case Send(packets, sites):
                # What is not encoded does not arrive.
                for packet in self.codec.decode(self.name, self.codec.encode(packets)):
                    known = (each for each in self.links if each in self.members)
                    self._send(packet, tuple(known) if sites is None else sites)
            case Deliver(message, stamp, late):
                now = self._loop.now
                self._run.deliveries[self.process] += [
                    Delivery(now, message.id.after(index), stamp.after(index), late)
                    for index in range(message.length)
                ]
                if message.payload:
                    self._change_sites(message.payload, stamp, message.id)
            case Move(id, before, stamp, late):
                position = len(self._run.deliveries[self.process])
                moved = Moved(self._loop.now, id, before, stamp, late, position)
                self._run.moves[self.process].append(moved)
            case Suspect(site, reason):
                # A link with a monitor reports the status after this call.
                self._positions[site] = len(self._run.deliveries[self.process])
                self.links[site].suspect(reason)
            case Failed(error):
                self._run.failures.append((self._loop.now, self.process, str(error)))

    def _send(self, packet: object, sites: Sequence[str]) -> None:
        accepted = self.send_packet(packet, sites)
        if isinstance(packet, Message):
            now, ids = self._loop.now, ids_of(packet)
            self.last_sent = ids[-1]
            sent = Sent(now, frozenset((*accepted, self.name)), self._commit_time)
            self._run.sent.update(dict.fromkeys(ids, sent))
            self._run.received[self.process].update(dict.fromkeys(ids, now))

    def _send_copies(self, packet: object, sites: Sequence[str]) -> list[str]:
        return [site for site in sites if self.links[site].send(packet)]

    def _arm(self) -> None:
        due = self.core.next_timeout()
        if due is not None and due < self._timer:
            self._timer = due
            self._loop.call_at(due, self._handle_timeout, due)

    def _handle_timeout(self, due: float) -> None:
        if due == self._timer and self.is_running:
            self._timer = float("inf")
            self._call(lambda: self.core.handle_timeout(self._instant()))

    # ----------------------------------------------------------------- of the record

    def _record_status(self, peer: str, state: LinkState, reason: str) -> None:
        position = self._positions.pop(peer, len(self._run.deliveries[self.process]))
        status = Status(self._loop.now, self.process, peer, state, reason, position)
        self._run.statuses.append(status)

    def _record_missing(self, last: MessageId) -> None:
        """Record that numbers after the last known one, up to this, are missing."""
        known = self._numbers.get(last.site)
        is_same = known is not None and known.incarnation == last.incarnation
        first = known.number + 1 if known is not None and is_same else 1
        if last.number >= first:
            now, sender = self._loop.now, (last.site, last.incarnation)
            self._run.missing.append(Missing(now, self.process, sender, first, last.number))
            self._numbers[last.site] = last


def ids_of(message: Message) -> list[MessageId]:
    """Return the ids of a message, or of all messages of a run."""
    return [message.id.after(index) for index in range(message.length)]
