"""Several stacks as one channel: a message goes to a set of peers, one copy each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from zope.interface import Interface, implementer

from broker.errors import Closed, Overloaded
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.driver import StackDriver
from broker.transport.multicast.core import MulticastCore, Outcome
from broker.transport.shared_message import SharedMessage
from broker.transport.stack_receiver import IStackReceiver
from broker.transport.view import LinkState, View


class IMulticastReceiver(Interface):
    """Receiver of the peers' messages. As with `IStackReceiver`, an exception ends that peer's
    stack."""

    def messages_received(peer: str, messages: Sequence[bytes]) -> None:
        """Receive messages of one peer in order. Return their credit with
        `MulticastChannel.consumed`."""

    def view_changed(peer: str, view: View) -> None:
        """A peer is connected, suspected (its stack buffers), or disconnected from now on.

        The latter two are repeated for each failed attempt to connect, so that the next attempt can
        start.
        """

    def writable_changed(peer: str, writable: bool) -> None:
        """Sending to a peer returns FULL from now on (False), or works again (True)."""


class MulticastChannel:
    """The top of the stacks of several named peers: a message goes to a set of them, one copy each.

    The owner of a stack attaches connections to it. The channel has no buffer: messages wait in the
    peer's stack, and are bounded there.
    """

    def __init__(
        self, clock: IClock, receiver: IMulticastReceiver, suspect_timeout: float = 0.0
    ) -> None:
        self.receiver = receiver
        self.outcomes = dict.fromkeys(Outcome, 0)
        self._clock = clock
        self._core = MulticastCore(suspect_timeout)
        self._members: dict[str, _Member] = {}
        self._timer = DeadlineTimer(clock, self._handle_timeout)
        self._is_sending = False
        self._pending_calls: deque[tuple[_Member, Callable[..., None], object]] = deque()

    def join(self, peer: str, driver: StackDriver) -> None:
        """Raises ValueError if the peer exists, or the stack is in use."""
        if driver.is_attached:
            raise ValueError(f"the stack of {peer!r} is already in use")
        self._core.add_peer(peer)
        self._members[peer] = driver.receiver = _Member(peer, driver, self)

    def leave(self, peer: str) -> StackDriver:
        """Remove `peer` without further reports; the caller closes the returned stack.

        Raises KeyError if there is no such peer.
        """
        member = self._members.pop(peer)
        self._core.remove_peer(peer)
        self._arm_timer()
        return member.driver

    def states(self) -> dict[str, LinkState]:
        return self._core.states()

    def send(self, message: bytes, peers: Iterable[str]) -> dict[str, Outcome]:
        """Send `message` to each of `peers`; errors of peers are outcomes.

        FULL begins at half of p2p's buffer. The other half is for messages that must not be
        refused, which use the peer's own stack.
        """
        destinations = dict.fromkeys(peers)
        if len(destinations) > 1 and not isinstance(message, SharedMessage):
            message = SharedMessage(message)
        # A message sent from a callback would overtake this one.
        self._is_sending = True
        try:
            return {peer: self._send(message, peer) for peer in destinations}
        finally:
            self._is_sending = False
            self._run_pending_calls()

    def consumed(self, peer: str, count: int) -> None:
        member = self._members.get(peer)
        if member is not None:
            member.driver.consumed(count)

    def _send(self, message: bytes, peer: str) -> Outcome:
        member = self._members.get(peer)
        # The driver's notifications may still wait in its queue.
        writable = member is not None and member.driver.is_writable
        outcome = self._core.send_outcome(peer, writable)
        if member is not None and outcome is Outcome.SENT:
            try:
                member.driver.send([message])
            except Overloaded:
                outcome = Outcome.FULL
            except Closed:
                outcome = Outcome.ABSENT
        self.outcomes[outcome] += 1
        return outcome

    def _view_changed(self, member: _Member, view: View) -> None:
        final = member.driver.failure is not None
        now = self._clock.seconds()
        views = self._core.view_changed(member.peer, view, now, final=final)
        self._arm_timer()
        for each in views:
            self._call_receiver(member, self.receiver.view_changed, each.view)

    def _handle_timeout(self) -> None:
        for each in self._core.handle_timeout(self._clock.seconds()):
            member = self._members[each.peer]
            self._pending_calls.append((member, self.receiver.view_changed, each.view))
        self._arm_timer()
        self._run_pending_calls()

    def _call_receiver(
        self, member: _Member, callback: Callable[..., None], argument: object
    ) -> None:
        if self._is_sending:
            self._pending_calls.append((member, callback, argument))
        else:
            callback(member.peer, argument)

    def _run_pending_calls(self) -> None:
        while self._pending_calls:
            member, callback, argument = self._pending_calls.popleft()
            if self._members.get(member.peer) is not member:
                continue
            try:
                callback(member.peer, argument)
            except Exception as error:
                member.driver.fail(error, "the receiver of the multicast channel failed")

    def _arm_timer(self) -> None:
        self._timer.arm(self._core.next_timeout())


@implementer(IStackReceiver)
class _Member:
    """Receiver of one peer's stack; it ignores all input after the peer has left."""

    def __init__(self, peer: str, driver: StackDriver, channel: MulticastChannel) -> None:
        self.peer = peer
        self.driver = driver
        self._channel = channel

    def messages_received(self, messages: Sequence[bytes]) -> None:
        if self._is_joined():
            self._channel._call_receiver(self, self._channel.receiver.messages_received, messages)

    def view_changed(self, view: View) -> None:
        if self._is_joined():
            self._channel._view_changed(self, view)

    def writable_changed(self, writable: bool) -> None:
        if self._is_joined():
            self._channel._call_receiver(self, self._channel.receiver.writable_changed, writable)

    def _is_joined(self) -> bool:
        return self._channel._members.get(self.peer) is self
