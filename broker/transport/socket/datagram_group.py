"""One member of a group over datagrams: its core, its timer, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from twisted.logger import Logger
from zope.interface import Interface

from broker.transport.deadline_timer import Alarm
from broker.transport.clock import IClock
from broker.transport.arq.group_core import GroupCore
from broker.transport.arq.group_effects import (
    Appeared,
    Effect,
    Gap,
    Hears,
    ToGroup,
    Vanished,
)
from broker.transport.effects import DeliverUp, SendDown, WritableChanged
from broker.transport.socket.datagram_endpoint import Address

_Told: TypeAlias = DeliverUp | Gap | Appeared | Hears | Vanished | WritableChanged


class IGroupReceiver(Interface):
    """Who is told what a group brings. The sender is called by its name."""

    def sender_appeared(sender: str) -> None:
        """A member is there, or begins another life: what it sends from now on comes."""

    def packets_received(sender: str, packets: Sequence[bytes]) -> None:
        """Packets of one sender, in its order, each once; never an empty list."""

    def gap(sender: str, count: int) -> None:
        """So many packets could not be had any more; those after them come."""

    def hears_changed(sender: str, hears: bool) -> None:
        """A member that is there says that it hears what is sent to the group, or has not said so
        for `liveness` seconds. One that has vanished and appears hears nothing at first."""

    def sender_vanished(sender: str) -> None:
        """A member has left, or nothing was heard from it for `liveness` seconds."""

    def writable_changed(writable: bool) -> None:
        """Packets pile up because the group's rate is lower (False), or have drained (True)."""


class DatagramGroup:
    """`to_group` and `to_one` send datagrams; both of the member's sockets bring theirs here."""

    log = Logger()

    def __init__(
        self,
        clock: IClock,
        core: GroupCore,
        receiver: IGroupReceiver,
        to_group: Callable[[Sequence[bytes]], None],
        to_one: Callable[[Sequence[bytes], Address], None],
    ) -> None:
        self.core = core
        self._clock = clock
        self._receiver = receiver
        self._to_group = to_group
        self._to_one = to_one
        self._flushing = False
        self._stopped = False
        self._alarm = Alarm(clock, self._ring)
        self._ring()

    def send(self, packets: Sequence[bytes]) -> None:
        """Send packets once to all; they go at the end of this turn, together with what follows.

        Raises `Overloaded` when too much waits, and then takes nothing; ValueError for an empty
        packet. Nothing happens after `stop`.
        """
        if packets and not self._stopped:
            self._apply(self.core.submit(packets))
            if not self._flushing:
                self._flushing = True
                self._clock.callLater(0, self._flush)

    def datagrams_received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        """What one read brought."""
        self._guarded(self.core.receive, batch)

    def stop(self) -> None:
        """Leave the group; drop what waits."""
        if not self._stopped:
            self._apply(self.core.leave())
            self._stopped = True
            self._alarm.set(None)

    def _flush(self) -> None:
        self._flushing = False
        self._guarded(self.core.flush)

    def _ring(self) -> None:
        self._guarded(self.core.handle_timeout)

    def _guarded(self, call: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """Trouble with what one member sent is not that of the others."""
        if self._stopped:
            return
        try:
            self._apply(call(*arguments, self._clock.seconds()))
        except Exception:
            self.log.failure("what came from the group could not be dealt with")

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if self._stopped:
                return
            if isinstance(effect, ToGroup):
                self._to_group(effect.datagrams)
            elif isinstance(effect, SendDown):
                self._to_one(effect.packets, effect.peer)
            else:
                self._tell_guarded(effect)
        self._alarm.set(self.core.next_timeout())

    def _tell_guarded(self, effect: _Told) -> None:
        """What the receiver makes of one sender's packets is not the trouble of the others."""
        try:
            self._tell(effect)
        except Exception:
            self.log.failure("what came from the group could not be dealt with")

    def _tell(self, effect: _Told) -> None:
        receiver = self._receiver
        if isinstance(effect, DeliverUp):
            receiver.packets_received(str(effect.peer), effect.messages)
        elif isinstance(effect, Gap):
            receiver.gap(effect.sender, effect.count)
        elif isinstance(effect, Appeared):
            receiver.sender_appeared(effect.sender)
        elif isinstance(effect, Hears):
            receiver.hears_changed(effect.sender, effect.hears)
        elif isinstance(effect, Vanished):
            receiver.sender_vanished(effect.sender)
        else:
            receiver.writable_changed(effect.writable)
