"""One member of a group over datagrams: its core, its timer, and its receiver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from twisted.logger import Logger
from zope.interface import Interface

from broker.transport.arq.group_core import GroupCore
from broker.transport.arq.group_effects import (
    Effect,
    PacketsLost,
    ReachabilityChanged,
    SenderAppeared,
    SenderDisappeared,
    SendToGroup,
)
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.effects import DeliverUp, SendDown, WritableChanged
from broker.transport.socket.datagram_transport import Address

_ReceiverEffect: TypeAlias = (
    DeliverUp
    | PacketsLost
    | SenderAppeared
    | ReachabilityChanged
    | SenderDisappeared
    | WritableChanged
)


class IGroupReceiver(Interface):
    """Receiver of a group's packets. A sender is identified by its name."""

    def sender_appeared(sender: str) -> None:
        """A member is present, or has restarted: its packets from now on follow."""

    def packets_received(sender: str, packets: Sequence[bytes]) -> None:
        """Receive packets of one sender, in order, each once; never an empty list."""

    def packets_lost(sender: str, count: int) -> None:
        """`count` packets can not be recovered; later ones follow."""

    def reachability_changed(sender: str, is_reachable: bool) -> None:
        """A present member confirms that it receives this member's packets, or has not confirmed
        that for `liveness` seconds. A member that reappears is unreachable at first."""

    def sender_disappeared(sender: str) -> None:
        """A member has left, or was silent for `liveness` seconds."""

    def writable_changed(writable: bool) -> None:
        """Packets accumulate because the group's rate is lower (False), or have drained (True)."""


class GroupMember:
    """One member of a group; both of its sockets deliver here."""

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
        self._is_flush_due = False
        self._is_stopped = False
        self._timer = DeadlineTimer(clock, self._handle_timeout)
        self._handle_timeout()

    def send(self, packets: Sequence[bytes]) -> None:
        """Send packets once to all, at the end of this turn, together with later ones.

        Raises `Overloaded`, and accepts none, when too many bytes wait; ValueError for an empty
        packet. No effect after `stop`.
        """
        if packets and not self._is_stopped:
            self._apply_effects(self.core.submit(packets))
            if not self._is_flush_due:
                self._is_flush_due = True
                self._clock.callLater(0, self._flush)

    def datagrams_received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        self._call_core(self.core.receive, batch)

    def stop(self) -> None:
        """Waiting packets are dropped."""
        if not self._is_stopped:
            self._apply_effects(self.core.leave())
            self._is_stopped = True
            self._timer.arm(None)

    def _flush(self) -> None:
        self._is_flush_due = False
        self._call_core(self.core.flush)

    def _handle_timeout(self) -> None:
        self._call_core(self.core.handle_timeout)

    def _call_core(self, call: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """An error with one member's datagrams does not affect the others."""
        if self._is_stopped:
            return
        try:
            self._apply_effects(call(*arguments, self._clock.seconds()))
        except Exception:
            self.log.failure("processing datagrams of the multicast group failed")

    def _apply_effects(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if self._is_stopped:
                return
            if isinstance(effect, SendToGroup):
                self._to_group(effect.datagrams)
            elif isinstance(effect, SendDown):
                self._to_one(effect.packets, effect.peer)
            else:
                self._notify_receiver(effect)
        self._timer.arm(self.core.next_timeout())

    def _notify_receiver(self, effect: _ReceiverEffect) -> None:
        try:
            self._dispatch(effect)
        except Exception:
            self.log.failure("processing datagrams of the multicast group failed")

    def _dispatch(self, effect: _ReceiverEffect) -> None:
        receiver = self._receiver
        if isinstance(effect, DeliverUp):
            receiver.packets_received(str(effect.peer), effect.messages)
        elif isinstance(effect, PacketsLost):
            receiver.packets_lost(effect.sender, effect.count)
        elif isinstance(effect, SenderAppeared):
            receiver.sender_appeared(effect.sender)
        elif isinstance(effect, ReachabilityChanged):
            receiver.reachability_changed(effect.sender, effect.is_reachable)
        elif isinstance(effect, SenderDisappeared):
            receiver.sender_disappeared(effect.sender)
        else:
            receiver.writable_changed(effect.writable)
