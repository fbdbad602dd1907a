"""One peer of a stack: the cores of its link, its channel and its timer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.errors import BrokerError, Closed, Overloaded, StackError
from broker.transport.channel_binding import ChannelBinding
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.effect_queue import EffectQueue
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Failed,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import ILinkCore, IMonitorCore
from broker.transport.message import Message, Outcome, Peer
from broker.transport.socket.contract import ISocketChannel
from broker.transport.stack_receiver import IStackReceiver
from broker.transport.view import LinkState, View


class AboveLinks(Protocol):
    """The layers above all links of a stack, or its receiver if there are none."""

    @property
    def cores(self) -> Sequence[object]: ...

    @property
    def receiver(self) -> IStackReceiver | None: ...

    @property
    def receives(self) -> bool:
        """True if a layer changes received messages."""

    @property
    def credits(self) -> bool:
        """True if a layer changes the return of credit."""

    def deliver(self, link: Link, packets: Sequence[bytes]) -> None:
        """Take packets that the link has received, if there are layers above."""

    def report_view(self, link: Link, view: View) -> None:
        """Take a new state of the link."""

    def report_writable(self, link: Link) -> None:
        """Take a change of `link.is_writable`."""

    def report_failure(self, error: Exception) -> None:
        """Log an error of a link that fails or has failed."""

    def drop_effects(self, link: Link) -> None:
        """Drop the queued effects of a link."""

    def send_to_one(self, messages: Sequence[bytes], peer: Peer) -> None:
        """Send by way of the layers above the links."""

    def consumed(self, peer: Peer, count: int) -> None:
        """Return credit by way of the layers above the links."""


class Link:
    """The adapter of layers that are written for one link: it holds their cores for one peer.

    `StackDriver.join` makes a link. At most one socket channel is below. The link outlives its
    connections.
    """

    def __init__(
        self,
        peer: Peer,
        cores: tuple[ILinkCore, ...],
        clock: IClock,
        queue: EffectQueue,
        above: AboveLinks,
        uses_socket_pressure: bool,
    ) -> None:
        self.peer = peer
        #: Bottom up.
        self.cores = self.timed_cores = cores
        #: After a bug the link is not usable.
        self.failure: BrokerError | None = None
        #: Packets without an open channel.
        self.dropped = 0
        #: False while its layers, or the socket, ask to stop.
        self.is_writable = True
        self.timer = DeadlineTimer(clock, self._check_deadlines)
        self._clock = clock
        self._queue = queue
        self._above = above
        self._top = len(cores) - 1
        self._reported_writable = True
        self._uses_socket_pressure = uses_socket_pressure
        self._binding: ChannelBinding | None = None
        # Indices of layers that are not writable; -1 is the socket.
        self._blocked_heights: set[int] = set()

    # ----------------------------------------------------------------- for the user

    @property
    def is_attached(self) -> bool:
        return self._binding is not None and not self._binding.is_closing

    def attach(self, channel: ISocketChannel) -> None:
        """Use `channel` from now on, and abort the present one.

        Raises `Closed` if the link has failed, `StackError` if the stack has no receiver.
        """
        if self.failure is not None:
            raise self._unusable()
        if self._above.receiver is None:
            raise StackError("a stack needs a receiver before it gets a channel")
        binding = ChannelBinding(channel, self)
        self._queue.inputs.append((self._bind_channel, (binding,)))
        # Inputs of the channel follow `_bind_channel` in the queue.
        channel.receiver = binding
        self._queue.run()

    def send(self, messages: Sequence[bytes], consumed: int = 0) -> None:
        """Send messages to this peer, and return the credit of `consumed` messages.

        Raises `Overloaded` if there is no room: then no message is accepted and none counts as
        consumed. Raises `Closed` if the link has failed. With layers above the links, a batch may
        be accepted in part, and a peer that these call absent raises `Closed`.
        """
        if self.failure is not None:
            raise self._unusable()
        if not messages:
            return
        if self._above.cores:
            self._above.send_to_one(messages, self.peer)
            self._above.consumed(self.peer, consumed)
            return
        queue = self._queue
        was_running, queue.is_running = queue.is_running, True
        try:
            core, now = self.cores[-1], self._clock.seconds()
            effects = core.submit(messages, now)
            try:
                if consumed:
                    effects += core.consumed(consumed, now)
            finally:
                # A wrong count raises, and the messages are in the stack.
                self._take_effects(self._top, effects)
        finally:
            queue.is_running = was_running
        if not was_running:
            queue.run()

    def consumed(self, count: int) -> None:
        """Raises ValueError for more messages than were delivered, if a layer counts them."""
        if self._above.credits:
            self._above.consumed(self.peer, count)
        elif count:
            effects = self.cores[-1].consumed(count, self._clock.seconds())
            self._queue.touched[self] = None
            if effects:
                self._queue.perform(self._take_effects, self._top, effects)
            elif not self._queue.is_running:
                self._queue.run()

    @property
    def monitor(self) -> IMonitorCore | None:
        """The core that decides whether the peer is connected."""
        return next((each for each in self.cores if IMonitorCore.providedBy(each)), None)

    def close(self) -> None:
        """Let the present channel send its bytes. Layers keep their buffers.

        Nothing more is delivered. After `channel_binding.CLOSE_TIMEOUT` seconds the channel is
        aborted.
        """
        self._queue.enqueue(self._close_channel)

    def abort(self, error: BrokerError) -> None:
        self._queue.enqueue(self.drop_channel, error)

    # ----------------------------------------------------------------- for the driver

    def fail(self, error: Exception, clause: str) -> None:
        """End the use of this link after a bug, which the clause names."""
        self._above.report_failure(error)
        if self.failure is None:
            failure = Closed(f"{clause}: {error}")
            self.end(failure)
            # Not by way of the cores of the link, which may be damaged.
            self._above.report_view(self, View(LinkState.DISCONNECTED, error=failure))

    def end(self, failure: BrokerError) -> None:
        """Abort the channel, and report nothing more."""
        self.failure = failure
        self.timer.arm(None)
        self._above.drop_effects(self)
        if self._binding is not None:
            self._binding.channel.abort(failure)
            self._binding = None

    def submit(self, messages: Sequence[Message]) -> None:
        """Send messages of the layers above the links, and record the refused ones."""
        outcome = Outcome.ABSENT if self.failure is not None else None
        if outcome is None:
            packets = [message.encode() for message in messages]
            try:
                effects = self.cores[-1].submit(packets, self._clock.seconds())
                self._take_effects(self._top, effects)
            except Overloaded:
                outcome = Outcome.FULL
            except Exception as error:
                self.fail(error, f"layer {self._top} of the link failed")
                outcome = Outcome.ABSENT
        if outcome is not None:
            for message in messages:
                message.outcomes[self.peer] = outcome

    def release_credit(self, count: int) -> None:
        """Return the credit of messages with which the layers above the links have finished."""
        self.call_core(self._top, self.cores[-1].consumed, count)

    def drop_channel(self, error: BrokerError) -> None:
        if self._binding is not None:
            self._binding.channel.abort(error)
            self._report_disconnected(error)

    def apply_effect(self, height: int, effect: Effect) -> None:
        """Apply an effect of the layer at `height`; -1 is the socket."""
        if self.failure is not None:
            return
        if isinstance(effect, DeliverUp):
            self._deliver_up(height + 1, effect.messages)
            return
        match effect:
            case ViewChanged(view):
                self._pass_view_up(height + 1, view)
            case Consumed(count) if height > 0:
                self.call_core(height - 1, self.cores[height - 1].consumed, count)
            case Failed(error):
                self.drop_channel(error)
            case WritableChanged() if self.is_writable is not self._reported_writable:
                self._reported_writable = self.is_writable
                self._above.report_writable(self)

    # ----------------------------------------------------------------- of the channel

    def receive_packets(self, binding: ChannelBinding, packets: Sequence[bytes]) -> None:
        queue = self._queue
        if queue.is_running or queue.inputs:
            queue.inputs.append((self._receive_late, (binding, packets)))
        elif binding is self._binding and not binding.is_closing:
            queue.is_running = True
            try:
                self._deliver_up(0, packets)
            finally:
                queue.is_running = False
            queue.run()

    def _receive_late(self, binding: ChannelBinding, packets: Sequence[bytes]) -> None:
        if binding is self._binding and not binding.is_closing:
            self._deliver_up(0, packets)

    def lose_channel(self, binding: ChannelBinding, error: BrokerError | None) -> None:
        self._queue.enqueue(self._channel_lost, binding, error)

    def change_socket_writable(self, binding: ChannelBinding, writable: bool) -> None:
        self._queue.enqueue(self._socket_writable_changed, binding, writable)

    def _bind_channel(self, binding: ChannelBinding) -> None:
        if self.failure is not None:
            binding.channel.abort(self.failure)
        elif self._binding is not None:
            if self._binding.is_closing:
                self._report_disconnected(None)  # it may still send its last bytes
            else:
                self.drop_channel(Closed("a newer connection took the place of this one"))
            # These effects belong to the old connection.
            self._queue.inputs.appendleft((self._bind_channel, (binding,)))
        else:
            self._binding = binding
            self._pass_view_up(0, View(LinkState.CONNECTED))

    def _channel_lost(self, binding: ChannelBinding, error: BrokerError | None) -> None:
        if binding is self._binding:
            self._report_disconnected(error)

    def _socket_writable_changed(self, binding: ChannelBinding, writable: bool) -> None:
        if binding is self._binding and self._uses_socket_pressure:
            self._set_writable(-1, writable)

    def _close_channel(self) -> None:
        if self._binding is not None and not self._binding.is_closing:
            self._binding.close(self._clock)

    def _report_disconnected(self, error: BrokerError | None) -> None:
        self._binding = None
        self._set_writable(-1, True)
        self._pass_view_up(0, View(LinkState.DISCONNECTED, error=error))

    # ----------------------------------------------------------------- of the cores

    def _take_effects(self, height: int, effects: Sequence[Effect]) -> None:
        """Carry out `SendDown` at once, and put other effects into the queue."""
        queue = self._queue
        queue.touched[self] = None
        for effect in effects:
            if isinstance(effect, SendDown):
                if height > 0:
                    self.call_core(height - 1, self.cores[height - 1].submit, effect.packets)
                elif self._binding is not None and not self._binding.is_closing:
                    try:
                        self._binding.channel.send(effect.packets)
                    except Exception as error:
                        self.fail(error, "the socket channel failed")
                else:
                    self.dropped += len(effect.packets)
                if self.failure is not None:
                    return
            elif isinstance(effect, WritableChanged):
                self._set_writable(height, effect.writable)
            else:
                queue.effects.append((self, height, effect))

    def _check_deadlines(self) -> None:
        """Handle due times. Mostly the timer is early, and only armed again."""
        deadline = None
        for core in self.cores:
            due = core.next_timeout()
            if due is not None and (deadline is None or due < deadline):
                deadline = due
        if deadline is None or deadline > self._clock.seconds():
            self.timer.arm(deadline)
        else:
            self._queue.enqueue(self._handle_timeouts)

    def _handle_timeouts(self) -> None:
        self._queue.touched[self] = None
        now = self._clock.seconds()
        for height, core in enumerate(self.cores):
            due = core.next_timeout() if self.failure is None else None
            if due is not None and due <= now:
                self.call_core(height, core.handle_timeout)

    def _deliver_up(self, height: int, packets: Sequence[bytes]) -> None:
        if height <= self._top:
            self._queue.touched[self] = None
            try:
                effects = self.cores[height].receive(packets, self._clock.seconds())
            except Exception as error:
                self.fail(error, f"layer {height} of the link failed")
            else:
                if effects:
                    self._take_effects(height, effects)
        elif self._above.receives or (self._above.cores and self._queue.effects):
            # Views that came before pass through the layers above.
            self._above.deliver(self, packets)
        elif packets and self._above.receiver is not None:
            try:
                self._above.receiver.messages_received(self.peer, packets)
            except Exception as error:
                self.fail(error, "the receiver of the stack failed")

    def _pass_view_up(self, height: int, view: View) -> None:
        if height <= self._top:
            self.call_core(height, self.cores[height].view_changed, view)
        else:
            self._above.report_view(self, view)

    def _set_writable(self, height: int, writable: bool) -> None:
        if writable:
            self._blocked_heights.discard(height)
        else:
            self._blocked_heights.add(height)
        is_writable = not self._blocked_heights
        if is_writable is not self.is_writable:
            self.is_writable = is_writable
            if self._above.cores:
                self._above.report_writable(self)
            else:
                # The receiver is called after the effects that came before.
                self._queue.effects.append((self, self._top, WritableChanged(is_writable)))

    def call_core(self, height: int, operation: Callable[..., list[Effect]], *args: object) -> None:
        if self.failure is not None:
            return
        try:
            effects = operation(*args, self._clock.seconds())
        except Exception as error:
            self.fail(error, f"layer {height} of the link failed")
        else:
            self._take_effects(height, effects)

    def _unusable(self) -> Closed:
        return Closed(f"the link is not usable any more: {self.failure}")
