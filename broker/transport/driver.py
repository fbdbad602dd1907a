"""Runs one stack: carries effects between its layers and owns its timer.

A turn takes one input (a batch from the socket, a due timer, what the user asks for), gives it to
a core, and applies the effects that come back, first in first out, until none is left; then it
takes the next input. What is called back during a turn may call the driver: `send` and `consumed`
go to the top core, which is never running at that moment because cores call nobody, and what
comes of it waits for its place in the queue; everything else waits as an input. So no core is ever
re-entered, and nothing of one connection leaks into the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from broker.errors import BrokerError, Closed, StackError
from broker.transport.deadline_timer import Alarm
from broker.transport.channel_binding import Attachment
from broker.transport.clock import IClock
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Failed,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import ILayer, ILayerCore, Property
from broker.transport.stack_receiver import IStackReceiver, log_failure
from broker.transport.socket.contract import TCP_PROPERTIES, ISocketChannel
from broker.transport.stack import check
from broker.transport.view import LinkState, View

__all__ = ["IClock", "IStackReceiver", "StackDriver"]


class StackDriver:
    """One stack of layers in use: at most one socket channel below, one receiver above.

    `layers` are bottom up; `StackError` if they do not fit on `bottom`. The stack outlives its
    connections: attach another channel when one is lost. `receiver` must be set before the first.
    `on_error` is told exceptions that nobody expected.
    """

    def __init__(
        self,
        layers: Sequence[ILayer],
        clock: IClock,
        receiver: IStackReceiver | None = None,
        bottom: frozenset[Property] = TCP_PROPERTIES,
        on_error: Callable[[Exception], object] = log_failure,
    ) -> None:
        self.provides = check(layers, bottom)
        self.receiver = receiver
        #: Why this stack can not be used any more: a bug showed in its receiver or in a core.
        self.failure: BrokerError | None = None
        #: Packets that reached the bottom while there was no channel to take them.
        self.dropped = 0
        self._clock = clock
        self._on_error = on_error
        #: Bottom up, to read their counters.
        self.cores: tuple[ILayerCore, ...] = tuple(layer.create_core() for layer in layers)
        #: Whether the user may send without piling up.
        self.writable = True
        self._told_writable = True
        # Where a layer bounds what is under way, how full the socket is says nothing to the user.
        self._heeds_socket = not any(Property.BACKPRESSURE in layer.provides for layer in layers)
        self._inputs: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._top = len(self.cores) - 1
        self._effects: deque[tuple[int, list[Effect]]] = deque()
        self._turning = False
        self._attachment: Attachment | None = None
        self._blocked: set[int] = set()  # heights of what is not writable; -1 is the socket
        self._alarm = Alarm(clock, lambda: self._enqueue(self._timeouts))

    # ----------------------------------------------------------------- for the user

    @property
    def attached(self) -> bool:
        """Whether there is a socket channel below now that is not closing."""
        return self._attachment is not None and not self._attachment.closing

    def attach(self, channel: ISocketChannel) -> None:
        """Use `channel` from now on; one that is attached is aborted. The stack sees CONNECTED.

        Raises `Closed` if the stack has failed, `StackError` if it has no receiver.
        """
        if self.failure is not None:
            raise self._unusable()
        if self.receiver is None:
            raise StackError("a stack needs a receiver before it gets a channel")
        attachment = Attachment(
            channel, self._enqueue, self._packets, self._lost, self._socket_writable
        )
        self._inputs.append((self._begin, (attachment,)))
        # What the channel says from here on stands behind `_begin` in the queue.
        channel.receiver = attachment
        self._turn()

    def send(self, messages: Sequence[bytes], consumed: int = 0) -> None:
        """Send messages. They are in the stack, or were refused, when this returns.

        `consumed` is as for the method of that name: an answer also returns the credit of the
        message that it answers. Raises `Overloaded` if the top layer has no room (nothing was
        taken, and nothing counts as consumed), `Closed` if the stack has failed.
        """
        if self.failure is not None:
            raise self._unusable()
        if not messages:
            return
        if self.cores:
            now = self._clock.seconds()
            effects = self.cores[-1].submit(messages, now)
            if consumed:
                effects += self.cores[-1].consumed(consumed, now)
            for effect in effects:
                if isinstance(effect, WritableChanged) and not effect.writable:
                    # The effect waits for its place in the queue; a caller that sends in a loop
                    # must see it now.
                    self.writable = False
        else:
            effects = [SendDown(messages)]
        self._effects.append((self._top, effects))
        if not self._turning:
            self._turn()

    def consumed(self, count: int) -> None:
        """The user has done with `count` delivered messages: their credit returns to the peer.

        Raises ValueError if that is more than was delivered (by a layer that counts).
        """
        if self.cores and count:
            effects = self.cores[-1].consumed(count, self._clock.seconds())
            self._effects.append((self._top, effects))
            if not self._turning:
                self._turn()

    def close(self) -> None:
        """Let the present channel flush what it was given and close. Layers keep their buffers.

        Nothing more is delivered. The stack sees DISCONNECTED when the channel is closed, which
        is `attachment.CLOSE_TIMEOUT` seconds from now at the latest: then it is aborted.
        """
        self._enqueue(self._close)

    def abort(self, error: BrokerError) -> None:
        """Close the present channel at once; the stack sees DISCONNECTED with `error`."""
        self._enqueue(self._lose, error)

    def fail(self, error: Exception, what: str) -> None:
        """End the use of this stack: `what` (a clause) came to an unexpected `error`."""
        self._on_error(error)
        if self.failure is not None:
            return
        self.failure = Closed(f"{what}: {error}")
        self._effects.clear()
        if self._attachment is not None:
            self._attachment.channel.abort(self.failure)
            self._attachment = None
        if self.receiver is not None:
            # Not by way of the cores: they are not to be trusted any more.
            self._tell(self.receiver.view_changed, View(LinkState.DISCONNECTED, error=self.failure))
        self._turn()

    # ----------------------------------------------------------------- inputs

    def _enqueue(self, function: Callable[..., None], *args: object) -> None:
        self._inputs.append((function, args))
        if not self._turning:
            self._turn()

    def _unusable(self) -> Closed:
        return Closed(f"the stack is not usable any more: {self.failure}")

    def _begin(self, attachment: Attachment) -> None:
        if self.failure is not None:
            attachment.channel.abort(self.failure)
        elif self._attachment is not None:
            if self._attachment.closing:
                self._detached(None)  # it may go on flushing
            else:
                self._lose(Closed("a newer connection took the place of this one"))
            # Everything that comes of that belongs to the old connection, and goes first.
            self._inputs.appendleft((self._begin, (attachment,)))
        else:
            self._attachment = attachment
            self._view(View(LinkState.CONNECTED))

    def _packets(self, attachment: Attachment, packets: Sequence[bytes]) -> None:
        if self._turning:
            self._inputs.append((self._receive, (attachment, packets)))
        elif attachment is self._attachment and not attachment.closing:
            self._effects.append((-1, [DeliverUp(packets)]))
            self._turn()

    def _receive(self, attachment: Attachment, packets: Sequence[bytes]) -> None:
        if attachment is self._attachment and not attachment.closing:
            self._effects.append((-1, [DeliverUp(packets)]))

    def _lost(self, attachment: Attachment, error: BrokerError | None) -> None:
        if attachment is self._attachment:
            self._detached(error)

    def _socket_writable(self, attachment: Attachment, writable: bool) -> None:
        if attachment is self._attachment and self._heeds_socket:
            self._set_writable(-1, writable)

    def _close(self) -> None:
        if self._attachment is not None and not self._attachment.closing:
            self._attachment.close(self._clock)

    def _lose(self, error: BrokerError) -> None:
        if self._attachment is not None:
            self._attachment.channel.abort(error)
            self._detached(error)

    def _detached(self, error: BrokerError | None) -> None:
        self._attachment = None
        self._set_writable(-1, True)
        self._view(View(LinkState.DISCONNECTED, error=error))

    def _timeouts(self) -> None:
        now = self._clock.seconds()
        for height, core in enumerate(self.cores):
            due = core.next_timeout()
            if due is not None and due <= now:
                self._step(height, core.handle_timeout)

    # ----------------------------------------------------------------- the turn

    def _turn(self) -> None:
        if self._turning:
            return
        self._turning = True
        effects, inputs = self._effects, self._inputs
        try:
            while True:
                if effects:
                    height, several = effects.popleft()
                    for effect in several:
                        if isinstance(effect, DeliverUp):
                            self._up(height + 1, effect.messages, effect.peer)
                        elif isinstance(effect, SendDown):
                            self._down(height, effect.packets)
                        else:
                            self._apply(height, effect)
                        if self.failure is not None:
                            break
                elif inputs:
                    function, args = inputs.popleft()
                    function(*args)
                else:
                    break
        finally:
            self._turning = False
        deadline = None
        for core in self.cores if self.failure is None else ():
            due = core.next_timeout()
            if due is not None and (deadline is None or due < deadline):
                deadline = due
        # To ring early costs less than to set the alarm again with every packet.
        if deadline is None or self._alarm.at is None or deadline < self._alarm.at:
            self._alarm.set(deadline)

    def _apply(self, height: int, effect: Effect) -> None:
        match effect:
            case Consumed(count):
                if height > 0:
                    self._step(height - 1, self.cores[height - 1].consumed, count)
            case WritableChanged(writable):
                self._set_writable(height, writable)
            case ViewChanged(view):
                self._view(view, height + 1)
            case Failed(error):
                self._lose(error)

    def _down(self, height: int, packets: Sequence[bytes]) -> None:
        if height > 0:
            self._step(height - 1, self.cores[height - 1].submit, packets)
        elif self._attachment is not None and not self._attachment.closing:
            try:
                self._attachment.channel.send(packets)
            except Exception as error:
                self.fail(error, "the socket channel failed")
        else:
            self.dropped += len(packets)

    def _up(self, height: int, messages: Sequence[bytes], peer: object) -> None:
        if height <= self._top:
            try:
                effects = self.cores[height].receive(messages, peer, self._clock.seconds())
            except Exception as error:
                self.fail(error, f"layer {height} of the stack failed")
            else:
                self._effects.append((height, effects))
        elif messages and self.receiver is not None:
            try:
                self.receiver.messages_received(messages)
            except Exception as error:
                self.fail(error, "the receiver of the stack failed")

    def _view(self, view: View, height: int = 0) -> None:
        if height < len(self.cores):
            self._step(height, self.cores[height].view_changed, view)
        elif self.receiver is not None:
            self._tell(self.receiver.view_changed, view)

    def _set_writable(self, height: int, writable: bool) -> None:
        if writable:
            self._blocked.discard(height)
        else:
            self._blocked.add(height)
        self.writable = not self._blocked
        if self.writable is not self._told_writable:
            self._told_writable = self.writable
            if self.receiver is not None:
                self._tell(self.receiver.writable_changed, self.writable)

    def _step(self, height: int, operation: Callable[..., list[Effect]], *args: object) -> None:
        if self.failure is not None:
            return
        try:
            effects = operation(*args, self._clock.seconds())
        except Exception as error:
            self.fail(error, f"layer {height} of the stack failed")
        else:
            self._effects.append((height, effects))

    def _tell(self, callback: Callable[..., None], argument: object) -> None:
        try:
            callback(argument)
        except Exception as error:
            self.fail(error, "the receiver of the stack failed")
