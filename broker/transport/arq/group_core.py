"""One member of a group over multicast: sends once to all, and hears each sender in order (M9).

Reliable as long as a sender's history reaches and a receiver keeps up; what is lost beyond that is
told as a gap. Nobody can slow a sender down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

import attrs

from broker.errors import BrokerError, Overloaded, ProtocolError
from broker.transport.arq.group_effects import (
    Appeared,
    Effect,
    Gap,
    Hears,
    ToGroup,
    Vanished,
)
from broker.transport.arq.group_receiver import GroupReceiver
from broker.transport.arq.group_sender import GroupSender
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Seal
from broker.transport.arq.wire import (
    ANNOUNCE,
    ASK,
    BYE,
    DATA,
    GONE,
    LEAST_BYTES,
    MOST_RANGES,
    POLL,
    Reason,
    ask,
    bye,
    head,
    numbered,
    read_ask,
    read_data,
    read_numbered,
)
from broker.transport.effects import DeliverUp, Peer, SendDown, WritableChanged

#: Seconds after the last datagram until its number is announced, doubled each time: so that a
#: loss at the end is noticed.
_FIRST_ANNOUNCING = 0.02
#: Seconds between two questions for a sender's name.
_NAME_AGAIN = 0.1
#: Then it is asked to be told that it is heard: so often, as a part of `liveness`.
_HEARD_AGAIN = 0.4
#: Sessions that are over, so that what is late of them opens none; the oldest go.
_MOST_FORMER = 1024
MOST_NAME_BYTES = 128

_START = Struct(">Q")


@attrs.define
class GroupCounts:
    """What was seen and is no packet."""

    #: Datagrams whose tag does not hold: damaged, or of a host without the key.
    forged: int = 0
    #: With a good tag, and still wrong.
    malformed: int = 0
    #: Of a session that is known by another address.
    strays: int = 0
    #: Of senders beyond the limit.
    ignored: int = 0


class GroupCore:
    """Sans-I/O. `session` is drawn anew for each life of the member; `draw` gives 0 to 1."""

    def __init__(
        self,
        settings: GroupSettings,
        seal: Seal,
        name: str,
        session: int,
        draw: Callable[[], float],
        max_frame: int,
        now: float,
    ) -> None:
        self.counts = GroupCounts()
        self.sender = GroupSender(settings, seal, session, now)
        #: By session.
        self.receivers: dict[int, GroupReceiver] = {}
        self._settings = settings
        self._seal = seal
        self._name = name.encode()
        self._session = session
        self._draw = draw
        self._max_frame = max_frame
        self._writable = True
        self._announcing = _FIRST_ANNOUNCING
        self._announce_at = now
        self._named: dict[str, int] = {}
        self._former: dict[int, None] = {}
        self._polled: dict[int, float] = {}
        """By the session of a sender: when it was last asked for its name, and told by that that it
        is heard."""
        self._hearers: dict[int, float] = {}
        """By the session of a member: when it last said that it hears us."""
        self._shares: dict[int, int] = {}
        self._left: list[Effect] = []
        """What is yet to be told of a silent sender that made room."""

    # ----------------------------------------------------------------- from above

    def submit(self, packets: Sequence[bytes]) -> list[Effect]:
        """Take packets for the group. Raises `Overloaded`, or ValueError for an empty one, and
        then takes none."""
        waiting = self.sender.waiting_bytes
        if waiting and waiting + sum(map(len, packets)) > self._settings.send_buffer_bytes:
            raise Overloaded("the group's rate is lower than what is sent to it")
        self.sender.add(packets)
        if self._writable and self._fill() > 1 / 2:
            self._writable = False
            return [WritableChanged(False)]
        return []

    def flush(self, now: float) -> list[Effect]:
        """Send what may go."""
        datagrams = self.sender.send(now)
        effects: list[Effect] = []
        if datagrams:
            self._announcing = _FIRST_ANNOUNCING
            self._announce_at = now + self._announcing
            effects.append(ToGroup(datagrams))
        if not self._writable and self._fill() < 1 / 4:
            self._writable = True
            effects.append(WritableChanged(True))
        return effects

    def leave(self) -> list[Effect]:
        """Say that nothing more will come."""
        return [ToGroup([self._seal.sealed(bye(self._session, Reason.DONE))])]

    # ----------------------------------------------------------------- from below

    def receive(self, batch: Sequence[tuple[bytes, Peer]], now: float) -> list[Effect]:
        """What one read brought, of either socket, with where it came from."""
        effects: list[Effect] = []
        touched: dict[int, None] = {}
        for datagram, address in batch:
            if len(datagram) < LEAST_BYTES or not self._seal.holds(datagram):
                self.counts.forged += 1
                continue
            kind, session = head(datagram)
            try:
                if session == self._session:
                    effects += self._about_us(kind, datagram, address, now)
                elif session not in self._former:
                    effects += self._heard(kind, session, datagram, address, now)
                    touched[session] = None
            except BrokerError:
                self.counts.malformed += 1
        for session in touched:
            effects += self._ask(session, now)
            effects += self._deliver(session)
        left, self._left = self._left, []
        return [*left, *effects]

    def handle_timeout(self, now: float) -> list[Effect]:
        """Do what is due."""
        effects = self.flush(now)
        to_all, to_each = self.sender.repairs(now)
        if to_all:
            effects.append(ToGroup(to_all))
        effects += [SendDown(datagrams, asker) for asker, datagrams in to_each.items()]
        if now >= self._announce_at:
            effects.append(ToGroup([self._announcement()]))
            self._announcing = min(2 * self._announcing, self._settings.announce)
            self._announce_at = now + self._announcing
        for session, receiver in list(self.receivers.items()):
            if not receiver.present:
                continue
            if now >= receiver.heard_at + self._settings.liveness:
                effects += self._silent(session, receiver)
                continue
            effects += self._poll(session, receiver, now)
            effects += self._hearing(session, now)
            effects += self._ask(session, now)
            effects += self._deliver(session)
        return effects

    def next_timeout(self) -> float:
        """When `handle_timeout` is wanted."""
        due = self._announce_at
        others = [self.sender.next_timeout()]
        liveness = self._settings.liveness
        for session, receiver in self.receivers.items():
            if receiver.present:
                others += (receiver.next_timeout(), receiver.heard_at + liveness)
                if receiver.name is None or receiver.heard_in_group:
                    others.append(self._polled.get(session, 0.0) + self._poll_again(receiver))
            if receiver.hears:
                others.append(self._hearers[session] + liveness)
        return min([due, *(each for each in others if each is not None)])

    # ----------------------------------------------------------------- what others say

    def _about_us(self, kind: int, datagram: bytes, address: Peer, now: float) -> list[Effect]:
        if kind == ASK:
            answer = self.sender.asked(address, read_ask(datagram), now)
            return [] if answer is None else [SendDown([answer], address)]
        if kind == POLL:
            asker, _ = read_numbered(datagram)
            answer = self._announcement(self._share_of(asker))
            self._hearers.pop(asker, None)
            self._hearers[asker] = now
            if len(self._hearers) > _MOST_FORMER:
                del self._hearers[next(iter(self._hearers))]
            return [SendDown([answer], address), *self._hearing(asker, now)]
        return []  # our own, looped back

    def _heard(
        self, kind: int, session: int, datagram: bytes, address: Peer, now: float
    ) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is not None and receiver.address != address:
            self.counts.strays += 1
            return []
        if kind == DATA:
            said = read_data(datagram)
            receiver = receiver or self._new(session, address, said.number, now)
            if receiver is not None:
                receiver.arrived(said, now)
                return self._present(session, receiver, now)
        elif kind == ANNOUNCE:
            highest, contents = read_numbered(datagram)
            start, name = _read_announced(contents)
            receiver = receiver or self._new(session, address, highest + 1, now)
            if receiver is not None:
                receiver.heard_in_group |= not start
                effects = self._learn_name(session, receiver, start, name, now)
                receiver.announced(highest, now)
                return effects + self._present(session, receiver, now)
        elif kind == GONE and receiver is not None:
            oldest, _ = read_numbered(datagram)
            receiver.gone(oldest)
        elif kind == BYE and receiver is not None:
            return self._forget(session)
        elif kind not in (GONE, BYE):
            raise ProtocolError(f"a datagram of kind {kind} within a group")
        return []

    def _new(self, session: int, address: Peer, first: int, now: float) -> GroupReceiver | None:
        self._share_of(session)
        if len(self.receivers) >= self._settings.senders:
            silent = [each for each, other in self.receivers.items() if not other.present]
            if not silent:
                self.counts.ignored += 1
                return None
            self._left += self._forget(silent[0])
            del self._former[silent[0]]  # it is heard again where there is room again
        receiver = GroupReceiver(
            *(self._settings, address, max(first, 1), self._max_frame, self._draw, now)
        )
        self.receivers[session] = receiver
        return receiver

    def _share_of(self, session: int) -> int:
        """Where our stream begins for a member: with what is sent after we first heard of it."""
        if session not in self._shares:
            self._shares[session] = self.sender.highest + 1
            if len(self._shares) > _MOST_FORMER:
                del self._shares[next(iter(self._shares))]
        return self._shares[session]

    def _present(self, session: int, receiver: GroupReceiver, now: float) -> list[Effect]:
        effects = self._poll(session, receiver, now)
        if receiver.name is not None and not receiver.present:
            effects.append(Appeared(receiver.name))
        receiver.present = True
        return effects + self._hearing(session, now)

    def _poll(self, session: int, receiver: GroupReceiver, now: float) -> list[Effect]:
        """Ask who it is; and let it know from time to time that it is heard."""
        last = self._polled.get(session)
        if last is not None and now < last + self._poll_again(receiver):
            return []
        if receiver.name is not None and not receiver.heard_in_group:
            return []
        receiver.heard_in_group = False
        self._polled[session] = now
        question = self._seal.sealed(numbered(POLL, session, self._session))
        return [SendDown([question], receiver.address)]

    def _poll_again(self, receiver: GroupReceiver) -> float:
        return _NAME_AGAIN if receiver.name is None else _HEARD_AGAIN * self._settings.liveness

    def _hearing(self, session: int, now: float) -> list[Effect]:
        """Tell whether a member hears us, if that is new."""
        receiver = self.receivers.get(session)
        if receiver is None or receiver.name is None or not receiver.present:
            return []
        said = self._hearers.get(session)
        hears = said is not None and now < said + self._settings.liveness
        if hears == receiver.hears:
            return []
        receiver.hears = hears
        return [Hears(receiver.name, hears)]

    def _learn_name(
        self, session: int, receiver: GroupReceiver, start: int, name: str, now: float
    ) -> list[Effect]:
        if receiver.name is not None or not start:
            return []  # known; or it was said to all, and not where our share begins
        effects: list[Effect] = []
        if name in self._named:
            # Its former life, or another member of the same name: the one that came last counts.
            effects += self._forget(self._named[name])
        receiver.name = name
        receiver.begin_at(start, now)
        self._named[name] = session
        effects.append(Appeared(name))
        return effects + self._hearing(session, now)

    # ----------------------------------------------------------------- what follows from it

    def _deliver(self, session: int) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is None or receiver.name is None:
            return []
        effects: list[Effect] = []
        for missed, packets in receiver.take():
            if missed:
                effects.append(Gap(receiver.name, missed))
            if packets:
                effects.append(DeliverUp(packets, receiver.name))
        return effects

    def _ask(self, session: int, now: float) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is None:
            return []
        wanted = receiver.questions(now)
        received = receiver.reception.received
        questions = [
            self._seal.sealed(ask(session, received, wanted[first : first + MOST_RANGES]))
            for first in range(0, len(wanted), MOST_RANGES)
        ]
        return [SendDown(questions, receiver.address)] if questions else []

    def _forget(self, session: int) -> list[Effect]:
        receiver = self.receivers[session]
        # There is nobody to be asked any more for what is missing: what came behind it is had.
        receiver.gone(receiver.reception.newest + 1)
        effects = self._deliver(session)
        del self.receivers[session]
        self._polled.pop(session, None)
        self._hearers.pop(session, None)
        self._former[session] = None
        if len(self._former) > _MOST_FORMER:
            del self._former[next(iter(self._former))]
        if receiver.name is None:
            return []
        del self._named[receiver.name]
        return [*effects, Vanished(receiver.name)] if receiver.present else effects

    def _silent(self, session: int, receiver: GroupReceiver) -> list[Effect]:
        """What it sent will be asked for, or told as a gap, when it is heard again."""
        if receiver.name is None:
            del self.receivers[session]
            self._polled.pop(session, None)
            return []
        receiver.present = receiver.hears = False
        return [Vanished(receiver.name)]

    def _announcement(self, start: int = 0) -> bytes:
        contents = _START.pack(start) + self._name
        return self._seal.sealed(numbered(ANNOUNCE, self._session, self.sender.highest, contents))

    def _fill(self) -> float:
        return self.sender.waiting_bytes / self._settings.send_buffer_bytes


def _read_announced(contents: bytes) -> tuple[int, str]:
    if len(contents) < _START.size:
        raise ProtocolError("an announcement that is cut short")
    (start,) = _START.unpack_from(contents)
    name = contents[_START.size :]
    if not 0 < len(name) <= MOST_NAME_BYTES:
        raise ProtocolError(f"a sender's name of {len(name)} bytes")
    try:
        return start, name.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a sender's name that is not UTF-8") from None
