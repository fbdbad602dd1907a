"""One connection over datagrams: reliable, in order, once, with notice of its end (M6, M9, A20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.errors import BrokerError, NotConnected, PeerSilent, ProtocolError
from broker.transport.arq.counters import Corrections
from broker.transport.arq.receive_window import Reception
from broker.transport.arq.mac import Seal
from broker.transport.arq.sender import Sender
from broker.transport.arq.settings import CorrectionSettings
from broker.transport.arq.wire import (
    BYE,
    DATA,
    FEEDBACK,
    LEAST_BYTES,
    POLL,
    Feedback,
    Reason,
    bye,
    feedback,
    head,
    read_data,
    read_feedback,
    read_numbered,
    read_reason,
)
from broker.transport.effects import DeliverUp, Failed, SendDown, WritableChanged
from broker.transport.socket.framing import FrameDecoder

#: Seconds between two questions for the same holes, at first and at most, while nothing comes.
_FIRST_ASKING = 0.02
_MOST_ASKING = 0.5


@attrs.frozen
class Ended:
    """The connection is over in good order: what was sent before the end was received."""


Effect: TypeAlias = SendDown | DeliverUp | WritableChanged | Failed | Ended


@attrs.define
class Counts:
    """What a connection has seen. Nothing of it needs a person to look, but much of it may."""

    received: int = 0
    #: Datagrams whose tag does not hold: damaged, or written by a stranger.
    forged: int = 0


class ConnectionCore:
    """Sans-I/O. `here` is our id of the connection, `there` the peer's; `room` is how many
    datagrams the peer takes before it has said more.

    What a method returns ends with `Failed` or `Ended` when the connection is over; then
    `last_words` is what to answer to whatever still comes for it.
    """

    def __init__(
        self,
        settings: CorrectionSettings,
        seal: Seal,
        here: int,
        there: int,
        room: int,
        now: float,
        max_frame: int,
    ) -> None:
        self.here = here
        self.there = there
        self.over = False
        #: The peer has shown that it knows the key.
        self.confirmed = False
        self.last_words: bytes | None = None
        self.counts = Counts()
        self.decoder = FrameDecoder(max_frame)
        self.sender = Sender(settings, seal, there, room, now)
        self.reception: Reception[bytes] = Reception(settings.window, settings.reorder_delay)
        self._settings = settings
        self._seal = seal
        self._reading = False
        self._closing = False
        self._writable = True
        self._heard_at = now
        self._asked_alive_at = now
        self._newest = 0  # the highest number that came
        self._newest_at = now
        self._arrived = 0  # when it came
        self._unacked = 0  # datagrams since our last FEEDBACK
        self._answer_at: float | None = None
        self._asking = _FIRST_ASKING
        self._told_limit = self.reception.limit
        self._told_received = 0
        self._greeting = False  # we have to show that we know the key
        self._alone = False  # the peer is gone, in good order
        self._peer_reason: Reason | None = None

    @property
    def corrections(self) -> Corrections:
        """What had to be mended until now."""
        reception = self.reception
        return Corrections(
            lost=self.sender.lost,
            repeated=self.sender.repeated,
            received=self.counts.received,
            duplicate=reception.duplicates,
            beyond=reception.beyond,
            forged=self.counts.forged,
        )

    # ----------------------------------------------------------------- from above

    def submit(self, packets: Sequence[bytes]) -> list[Effect]:
        """Take packets; `flush` sends them. Raises ValueError for an empty one."""
        self.sender.add(packets)
        if self._writable and self._fill() > 1 / 2:
            self._writable = False
            return [WritableChanged(False)]
        return []

    def greet(self, now: float) -> list[Effect]:
        """Show the peer that we know the key; again until it answers."""
        self._greeting = True
        return self._sent([self.sender.poll(now)])

    def flush(self, now: float) -> list[Effect]:
        """Send what may go."""
        return [] if self.over else self._sent(self.sender.send(now))

    def set_reading(self, reading: bool, now: float) -> list[Effect]:
        """Deliver what has come, or hold it back: the peer stops when the window is full."""
        self._reading = reading
        if self.over or not reading:
            return []
        effects = self._deliver()
        if not self.over and self.reception.limit - self._told_limit > self._settings.window // 4:
            effects += self._sent([self._feedback(now)])
        return effects

    def close(self, now: float) -> list[Effect]:
        """Send everything, then end; deliver nothing any more."""
        self._closing = True
        self._reading = True
        self.sender.end()
        return [*self._deliver(), *self.flush(now)]

    def abort(self) -> list[Effect]:
        """End at once."""
        return [] if self.over else self._end(Reason.RESET)

    # ----------------------------------------------------------------- from below

    def receive(self, datagrams: Sequence[bytes], now: float) -> list[Effect]:
        """What one read brought. What strangers sent is counted and changes nothing."""
        try:
            heard = answer = False
            for datagram in datagrams:
                if len(datagram) < LEAST_BYTES or not self._seal.holds(datagram):
                    self.counts.forged += 1
                    continue
                heard = True
                answer |= self._take(datagram, now)
                if self._peer_reason is not None:
                    return self._over_by_peer(self._peer_reason)
        except BrokerError as error:
            return self._fail(error)
        if not heard:
            return []
        self._heard_at = self._asked_alive_at = now
        self.confirmed = True
        effects = self._deliver()
        return effects if self.over else effects + self._react(answer, now)

    def handle_timeout(self, now: float) -> list[Effect]:
        """Do what is due."""
        if self.over or self._alone:
            return []
        if now >= self._heard_at + self._settings.liveness:
            silent = f"nothing was heard for {self._settings.liveness:g} seconds"
            return self._fail(PeerSilent(silent))
        datagrams: list[bytes] = []
        if self._answer_at is not None and now >= self._answer_at:
            self._asking = min(2 * self._asking, _MOST_ASKING)
            datagrams.append(self._feedback(now))
        datagrams += self.sender.send(now)
        poll_at = self._poll_at()
        alive_at = self._asked_alive_at + self._settings.poll
        if now >= alive_at or (poll_at is not None and now >= poll_at):
            self._asked_alive_at = now
            datagrams.append(self.sender.poll(now))
        return self._sent(datagrams)

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        if self.over or self._alone:
            return None
        due = min(
            self._asked_alive_at + self._settings.poll, self._heard_at + self._settings.liveness
        )
        for other in (self._answer_at, self.sender.send_at(), self._poll_at()):
            if other is not None and other < due:
                due = other
        return due

    # ----------------------------------------------------------------- inside

    def _poll_at(self) -> float | None:
        return self.sender.poll_at(self._greeting and not self.confirmed)

    def _take(self, datagram: bytes, now: float) -> bool:
        """Take a checked datagram; True if it wants an answer at once."""
        kind, _ = head(datagram)
        if kind == DATA:
            said = read_data(datagram)
            self.counts.received += 1
            if said.number > self._newest:
                self._newest, self._newest_at = said.number, now
                self._arrived = self.counts.received
            self._unacked += 1
            # What was received before says that our FEEDBACK was lost or is late.
            return not self.reception.arrived(said.number, said.piece, now)
        if kind == FEEDBACK:
            self.sender.heard(read_feedback(datagram), now)
            return False
        if kind == POLL:
            highest, _ = read_numbered(datagram)
            self.reception.known_until(highest, now)
            return True
        if kind == BYE:
            reason = read_reason(datagram)
            if reason is not Reason.DONE or self._closing or not self._complete():
                self._peer_reason = reason
            # Else the user has not taken everything yet; nobody is there to be asked any more.
            self._alone = True
            return False
        raise ProtocolError(f"a datagram of kind {kind} within a connection")

    def _complete(self) -> bool:
        """Whether everything is there up to the peer's end."""
        return not self.reception.missing and self.reception.last_ready() == b""

    def _deliver(self) -> list[Effect]:
        if not self._reading:
            return []
        try:
            return self._taken(self.reception.take())
        except BrokerError as error:
            return self._fail(error)

    def _taken(self, pieces: list[bytes]) -> list[Effect]:
        ended = bool(pieces) and b"" in pieces
        if self._closing:
            return self._end(Reason.DONE) if ended else []
        effects: list[Effect] = []
        if pieces:
            # Without packets it says that a part of one has come.
            effects.append(DeliverUp(self.decoder.feed(b"".join(pieces))))
        if ended:
            if self.decoder.close():
                raise ProtocolError("the connection was closed within a packet")
            effects += self._end(Reason.DONE)
        return effects

    def _react(self, answer: bool, now: float) -> list[Effect]:
        """What to send after a read: feedback if it is due, and what was made possible."""
        datagrams: list[bytes] = []
        reception = self.reception
        if reception.received > self._told_received:
            self._asking = _FIRST_ASKING
        if answer or self._unacked >= self._settings.ack_every:
            datagrams.append(self._feedback(now))
        elif self._unacked:
            self._answer_by(now + self._settings.ack_delay)
            if reception.missing:
                self._answer_by(now + self._settings.reorder_delay)
        datagrams += self.sender.send(now)
        effects = self._sent(datagrams)
        if not self._writable and self._fill() < 1 / 4:
            self._writable = True
            effects.append(WritableChanged(True))
        if self._closing and self.sender.done:
            effects += self._end(Reason.DONE)
        return effects

    def _answer_by(self, when: float) -> None:
        if self._answer_at is None or when < self._answer_at:
            self._answer_at = when

    def _feedback(self, now: float) -> bytes:
        reception = self.reception
        missing = reception.wanted(now)
        self._unacked = 0
        self._told_limit = reception.limit
        self._told_received = reception.received
        self._answer_at = now + self._asking if missing else None
        late_at = reception.late_at(now)
        if late_at is not None:
            self._answer_by(late_at)
        said = Feedback(
            *(reception.received, reception.limit, self._newest),
            now - self._newest_at,
            self._arrived,
            tuple(missing),
        )
        return self._seal.sealed(feedback(self.there, said))

    def _fill(self) -> float:
        return self.sender.buffered_bytes / self._settings.send_buffer_bytes

    def _sent(self, datagrams: list[bytes]) -> list[Effect]:
        return [SendDown(datagrams)] if datagrams else []

    def _end(self, reason: Reason) -> list[Effect]:
        self.over = True
        self.last_words = self._seal.sealed(bye(self.there, reason))
        effects: list[Effect] = [SendDown([self.last_words])]
        if reason is Reason.DONE:
            effects.append(Ended())
        return effects

    def _fail(self, error: BrokerError) -> list[Effect]:
        return [*self._end(Reason.RESET), Failed(error)]

    def _over_by_peer(self, reason: Reason) -> list[Effect]:
        self.over = True
        if reason is Reason.DONE and self._closing:
            return [Ended()]
        text = "it was reset by the other end" if reason is Reason.RESET else "it ended too early"
        return [Failed(NotConnected(f"connection lost: {text}"))]
