"""Several stacks as one channel: a message goes to a set of peers, as a copy to each.

Nothing is put around a message, so a peer can not tell it from one that was sent to it alone: this
layer has no wire format. What is sent to one peer is not touched by what happens to another.
"""

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
    """Who is told what the peers bring. As with `IStackReceiver`, an exception ends that stack."""

    def messages_received(peer: str, messages: Sequence[bytes]) -> None:
        """Messages of one peer in order. Return their credit with `MulticastChannel.consumed`."""

    def view_changed(peer: str, view: View) -> None:
        """A peer is connected, suspected (its stack buffers), or disconnected from now on.

        The latter two are told again for each attempt to connect that fails in the stack, so
        whoever makes connections can make the next one then, unless one is under way.
        """

    def writable_changed(peer: str, writable: bool) -> None:
        """Sending to a peer is FULL from now on (False), or goes on (True)."""


class MulticastChannel:
    """The top of the stacks to several peers, each of which has a name.

    Who has a peer's stack attaches connections to it; the channel does the rest. It adds no
    buffer: what waits for a peer is in that peer's stack, bounded there.
    """

    def __init__(
        self, clock: IClock, receiver: IMulticastReceiver, suspect_timeout: float = 0.0
    ) -> None:
        self.receiver = receiver
        #: How often each outcome was given, for the metrics.
        self.outcomes = dict.fromkeys(Outcome, 0)
        self._clock = clock
        self._core = MulticastCore(suspect_timeout)
        self._members: dict[str, _Member] = {}
        self._timer = DeadlineTimer(clock, self._handle_timeout)
        self._is_sending = False
        #: What came up while a message went to some of its destinations, and not yet to all.
        self._pending_calls: deque[tuple[_Member, Callable[..., None], object]] = deque()

    def join(self, peer: str, driver: StackDriver) -> None:
        """Take the stack of `peer` in, before it has a connection.

        ValueError if that peer has joined before, or the stack is in use.
        """
        if driver.is_attached:
            raise ValueError(f"the stack of {peer!r} is in use already")
        self._core.add_peer(peer)
        self._members[peer] = driver.receiver = _Member(peer, driver, self)

    def leave(self, peer: str) -> StackDriver:
        """Forget `peer`; nothing is told of it any more. Its stack is the caller's, to close.

        KeyError if there is no such peer.
        """
        member = self._members.pop(peer)
        self._core.remove_peer(peer)
        self._arm_timer()
        return member.driver

    def states(self) -> dict[str, LinkState]:
        """All peers, and the state of each."""
        return self._core.states()

    def send(self, message: bytes, peers: Iterable[str]) -> dict[str, Outcome]:
        """Send `message` to each of `peers`; the outcome for each. Raises nothing for any of them.

        FULL begins when a stack asks to stop: with p2p that is at half of its buffer. The other
        half is for what can not be refused, which goes by the peer's own stack.
        """
        wanted = dict.fromkeys(peers)
        if len(wanted) > 1 and not isinstance(message, SharedMessage):
            message = SharedMessage(message)
        # Nobody is called back now: who sends from there would overtake this message.
        self._is_sending = True
        try:
            return {peer: self._send(message, peer) for peer in wanted}
        finally:
            self._is_sending = False
            self._run_pending_calls()

    def consumed(self, peer: str, count: int) -> None:
        """The user has done with `count` messages of `peer`, whether or not it is still here."""
        member = self._members.get(peer)
        if member is not None:
            member.driver.consumed(count)

    # ----------------------------------------------------------------- inside

    def _send(self, message: bytes, peer: str) -> Outcome:
        member = self._members.get(peer)
        # Asked of the driver: in a turn of its own, what it tells waits for its place in the queue.
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
        told = self._core.view_changed(member.peer, view, now, final=final)
        self._arm_timer()
        for each in told:
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
            # An exception goes to the driver, which called.
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
    """The receiver of one peer's stack, deaf once the peer has left."""

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
