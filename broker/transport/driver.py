"""The driver of one stack: it carries effects between the layers and owns the stack's timer.

One run passes an input to a core, and applies the returned effects first in, first out, until none
is left. Only `send` and `consumed` call a core during a run: the top core, which is never active
then. All other calls wait as inputs. So no core is re-entered, and no effect of one connection
reaches the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from broker.errors import BrokerError, Closed, StackError
from broker.transport.channel_binding import ChannelBinding
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
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
from broker.transport.socket.contract import TCP_PROPERTIES, ISocketChannel
from broker.transport.stack import check_layers
from broker.transport.stack_receiver import IStackReceiver, log_failure
from broker.transport.view import LinkState, View

__all__ = ["IClock", "IStackReceiver", "StackDriver"]


class StackDriver:
    """One stack in use: at most one socket channel below, one receiver above.

    `layers` are bottom up. Raises `StackError` if they do not fit on `bottom`. The stack outlives
    its connections. Set `receiver` before the first channel.
    """

    def __init__(
        self,
        layers: Sequence[ILayer],
        clock: IClock,
        receiver: IStackReceiver | None = None,
        bottom: frozenset[Property] = TCP_PROPERTIES,
        on_error: Callable[[Exception], object] = log_failure,
    ) -> None:
        self.provides = check_layers(layers, bottom)
        self.receiver = receiver
        #: After a bug the stack is not usable.
        self.failure: BrokerError | None = None
        #: Packets without an open channel.
        self.dropped = 0
        self._clock = clock
        self._on_error = on_error
        #: Bottom up.
        self.cores: tuple[ILayerCore, ...] = tuple(layer.create_core() for layer in layers)
        self.is_writable = True
        self._reported_writable = True
        # A layer with back-pressure bounds the bytes in flight itself.
        self._uses_socket_pressure = not any(
            Property.BACKPRESSURE in layer.provides for layer in layers
        )
        self._inputs: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._top = len(self.cores) - 1
        self._effects: deque[tuple[int, list[Effect]]] = deque()
        self._is_running = False
        self._binding: ChannelBinding | None = None
        # Indices of layers that are not writable; -1 is the socket.
        self._blocked_heights: set[int] = set()
        self._timer = DeadlineTimer(clock, lambda: self._enqueue(self._handle_timeouts))

    @property
    def is_attached(self) -> bool:
        return self._binding is not None and not self._binding.is_closing

    def attach(self, channel: ISocketChannel) -> None:
        """Use `channel` from now on, and abort the present one.

        Raises `Closed` if the stack has failed, `StackError` if it has no receiver.
        """
        if self.failure is not None:
            raise self._unusable()
        if self.receiver is None:
            raise StackError("a stack needs a receiver before it gets a channel")
        binding = ChannelBinding(
            channel,
            self._enqueue,
            self._packets_received,
            self._channel_lost,
            self._socket_writable_changed,
        )
        self._inputs.append((self._bind_channel, (binding,)))
        # Inputs of the channel follow `_bind_channel` in the queue.
        channel.receiver = binding
        self._run()

    def send(self, messages: Sequence[bytes], consumed: int = 0) -> None:
        """Put messages into the stack, and return the credit of `consumed` messages.

        Raises `Overloaded` if the top layer has no room: then no message is accepted and none
        counts as consumed. Raises `Closed` if the stack has failed.
        """
        if self.failure is not None:
            raise self._unusable()
        if not messages:
            return
        if self.cores:
            now = self._clock.seconds()
            effects = self.cores[-1].submit(messages, now)
            # A wrong count raises, and the messages are in the stack.
            self._effects.append((self._top, effects))
            if consumed:
                effects += self.cores[-1].consumed(consumed, now)
            for effect in effects:
                if isinstance(effect, WritableChanged) and not effect.writable:
                    # A caller that sends in a loop must see the change at once.
                    self.is_writable = False
        else:
            self._effects.append((self._top, [SendDown(messages)]))
        if not self._is_running:
            self._run()

    def consumed(self, count: int) -> None:
        """Raises ValueError for more messages than were delivered, if a layer counts them."""
        if self.cores and count:
            effects = self.cores[-1].consumed(count, self._clock.seconds())
            self._effects.append((self._top, effects))
            if not self._is_running:
                self._run()

    def close(self) -> None:
        """Let the present channel send its bytes. Layers keep their buffers.

        Nothing more is delivered. After `channel_binding.CLOSE_TIMEOUT` seconds the channel is
        aborted.
        """
        self._enqueue(self._close_channel)

    def abort(self, error: BrokerError) -> None:
        self._enqueue(self._drop_channel, error)

    def fail(self, error: Exception, what: str) -> None:
        """End the use of this stack; `what` is a clause."""
        self._on_error(error)
        if self.failure is not None:
            return
        self.failure = Closed(f"{what}: {error}")
        self._effects.clear()
        if self._binding is not None:
            self._binding.channel.abort(self.failure)
            self._binding = None
        if self.receiver is not None:
            # Not by way of the cores, which may be damaged.
            self._call_receiver(
                self.receiver.view_changed, View(LinkState.DISCONNECTED, error=self.failure)
            )
        self._run()

    def _enqueue(self, function: Callable[..., None], *args: object) -> None:
        self._inputs.append((function, args))
        if not self._is_running:
            self._run()

    def _unusable(self) -> Closed:
        return Closed(f"the stack is not usable any more: {self.failure}")

    def _bind_channel(self, binding: ChannelBinding) -> None:
        if self.failure is not None:
            binding.channel.abort(self.failure)
        elif self._binding is not None:
            if self._binding.is_closing:
                self._report_disconnected(None)  # it may still send its last bytes
            else:
                self._drop_channel(Closed("a newer connection took the place of this one"))
            # These effects belong to the old connection.
            self._inputs.appendleft((self._bind_channel, (binding,)))
        else:
            self._binding = binding
            self._pass_view_up(View(LinkState.CONNECTED))

    def _packets_received(self, binding: ChannelBinding, packets: Sequence[bytes]) -> None:
        if self._is_running or self._inputs:
            self._inputs.append((self._deliver_packets, (binding, packets)))
        elif binding is self._binding and not binding.is_closing:
            self._effects.append((-1, [DeliverUp(packets)]))
            self._run()

    def _deliver_packets(self, binding: ChannelBinding, packets: Sequence[bytes]) -> None:
        if binding is self._binding and not binding.is_closing:
            self._effects.append((-1, [DeliverUp(packets)]))

    def _channel_lost(self, binding: ChannelBinding, error: BrokerError | None) -> None:
        if binding is self._binding:
            self._report_disconnected(error)

    def _socket_writable_changed(self, binding: ChannelBinding, writable: bool) -> None:
        if binding is self._binding and self._uses_socket_pressure:
            self._set_writable(-1, writable)

    def _close_channel(self) -> None:
        if self._binding is not None and not self._binding.is_closing:
            self._binding.close(self._clock)

    def _drop_channel(self, error: BrokerError) -> None:
        if self._binding is not None:
            self._binding.channel.abort(error)
            self._report_disconnected(error)

    def _report_disconnected(self, error: BrokerError | None) -> None:
        self._binding = None
        self._set_writable(-1, True)
        self._pass_view_up(View(LinkState.DISCONNECTED, error=error))

    def _handle_timeouts(self) -> None:
        now = self._clock.seconds()
        for height, core in enumerate(self.cores):
            due = core.next_timeout()
            if due is not None and due <= now:
                self._call_core(height, core.handle_timeout)

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        effects, inputs = self._effects, self._inputs
        try:
            while True:
                if effects:
                    height, several = effects.popleft()
                    for effect in several:
                        if isinstance(effect, DeliverUp):
                            self._deliver_up(height + 1, effect.messages, effect.peer)
                        elif isinstance(effect, SendDown):
                            self._send_down(height, effect.packets)
                        else:
                            self._apply_effect(height, effect)
                        if self.failure is not None:
                            break
                elif inputs:
                    function, args = inputs.popleft()
                    function(*args)
                else:
                    break
        finally:
            self._is_running = False
        deadline = None
        for core in self.cores if self.failure is None else ():
            due = core.next_timeout()
            if due is not None and (deadline is None or due < deadline):
                deadline = due
        # An early call costs less than arming the timer with every packet.
        if deadline is None or self._timer.deadline is None or deadline < self._timer.deadline:
            self._timer.arm(deadline)

    def _apply_effect(self, height: int, effect: Effect) -> None:
        match effect:
            case Consumed(count):
                if height > 0:
                    self._call_core(height - 1, self.cores[height - 1].consumed, count)
            case WritableChanged(writable):
                self._set_writable(height, writable)
            case ViewChanged(view):
                self._pass_view_up(view, height + 1)
            case Failed(error):
                self._drop_channel(error)

    def _send_down(self, height: int, packets: Sequence[bytes]) -> None:
        if height > 0:
            self._call_core(height - 1, self.cores[height - 1].submit, packets)
        elif self._binding is not None and not self._binding.is_closing:
            try:
                self._binding.channel.send(packets)
            except Exception as error:
                self.fail(error, "the socket channel failed")
        else:
            self.dropped += len(packets)

    def _deliver_up(self, height: int, messages: Sequence[bytes], peer: object) -> None:
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

    def _pass_view_up(self, view: View, height: int = 0) -> None:
        if height < len(self.cores):
            self._call_core(height, self.cores[height].view_changed, view)
        elif self.receiver is not None:
            self._call_receiver(self.receiver.view_changed, view)

    def _set_writable(self, height: int, writable: bool) -> None:
        if writable:
            self._blocked_heights.discard(height)
        else:
            self._blocked_heights.add(height)
        self.is_writable = not self._blocked_heights
        if self.is_writable is not self._reported_writable:
            self._reported_writable = self.is_writable
            if self.receiver is not None:
                self._call_receiver(self.receiver.writable_changed, self.is_writable)

    def _call_core(
        self, height: int, operation: Callable[..., list[Effect]], *args: object
    ) -> None:
        if self.failure is not None:
            return
        try:
            effects = operation(*args, self._clock.seconds())
        except Exception as error:
            self.fail(error, f"layer {height} of the stack failed")
        else:
            self._effects.append((height, effects))

    def _call_receiver(self, callback: Callable[..., None], argument: object) -> None:
        try:
            callback(argument)
        except Exception as error:
            self.fail(error, "the receiver of the stack failed")
