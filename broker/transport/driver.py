"""The driver of one stack, for any number of peers: it carries effects between the layers.

One run passes an input to a core, and applies the returned effects first in, first out, until none
is left. What goes down is carried out at once, as is the news for layers above the links that a
peer is full. So a message has its outcomes when `send` returns, and no message overtakes another.
Only `send` and `consumed` call a core during a run: the top core, which is never active then. All
other calls wait as inputs. So no core is re-entered, and no effect of one connection reaches the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from broker.errors import BrokerError, Closed, Overloaded, StackError
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.effect_queue import CoreOwner, EffectQueue
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Failed,
    Outcomes,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import IBufferingCore, ILayer, Property, is_changed
from broker.transport.link import Link
from broker.transport.message import Message, Outcome, Peer
from broker.transport.multicast.sharing_core import GROUP, SharingCore
from broker.transport.socket.contract import TCP_PROPERTIES, ISocketChannel
from broker.transport.stack import (
    Stack,
    check_layers,
    create_link_cores,
    create_upper_cores,
    is_of_link,
    upper_names,
)
from broker.transport.stack_receiver import IStackReceiver, log_failure
from broker.transport.view import LinkState, View

__all__ = ["IClock", "IStackReceiver", "Link", "StackDriver"]


class StackDriver:
    """One stack in use: a link to each peer that has joined below, one receiver above.

    `layers` are bottom up. Raises `StackError` if they do not fit on `bottom`. Set `receiver`
    before the first channel. The owner bounds the number of peers.
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
        #: After a bug in a layer above the links the stack is not usable.
        self.failure: BrokerError | None = None
        self.links: dict[Peer, Link] = {}
        #: Of the layers above the links, bottom up.
        self.cores = create_upper_cores(layers)
        # A core that only passes on is not called for each message.
        self.receives = any(is_changed(core, "receive") for core in self.cores)
        self.credits = any(is_changed(core, "consumed") for core in self.cores)
        self.timed_cores = [core for core in self.cores if is_changed(core, "next_timeout")]
        self._clock = clock
        self._on_error = on_error
        self._layers = layers
        self._top = len(self.cores) - 1
        self._queue = EffectQueue()
        self.timer = DeadlineTimer(clock, partial(self._queue.enqueue, self._handle_timeouts))

    # ----------------------------------------------------------------- for the user

    def join(self, peer: Peer, stack: Stack | None = None) -> Link:
        """Add a peer. The layers of its link are those of `stack`, or else of this driver.

        Raises ValueError if the peer has joined, `Closed` if the stack has failed, `StackError` if
        `stack` has other layers above the links.
        """
        if self.failure is not None:
            raise self._unusable()
        if peer in self.links:
            raise ValueError(f"{peer!r} has joined before")
        layers = self._layers if stack is None else stack.layers
        if upper_names(layers) != upper_names(self._layers):
            raise StackError(f"the stack for {peer!r} has other layers above the links")
        # A layer with back-pressure bounds the bytes in flight itself.
        bounds_itself = any(Property.BACKPRESSURE in layer.provides for layer in layers)
        cores = create_link_cores(layers)
        link = Link(peer, cores, self._clock, self._queue, self, not bounds_itself)
        self.links[peer] = link
        return link

    def join_group(self, channel: ISocketChannel) -> None:
        """Add the peer `GROUP` of layers above the links; packets of its channel may be lost."""
        # It has no layers of a link.
        layers = [layer for layer in self._layers if not is_of_link(layer)]
        self.join(GROUP, Stack("group", layers, frozenset(Property)))
        self.attach(GROUP, channel)

    def leave_group(self, error: BrokerError) -> None:
        """Abort the channel of the group, if there is one."""
        if GROUP in self.links:
            self.remove(GROUP, error)

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of the layers above the links, for `status`."""
        sharing = [core for core in self.cores if isinstance(core, SharingCore)]
        return {name: count for core in sharing for name, count in core.counts.items()}

    def attach(self, peer: Peer, channel: ISocketChannel) -> None:
        """Use `channel` for a peer, as `Link.attach`. Raises KeyError if it has not joined."""
        self.links[peer].attach(channel)

    def close(self, peer: Peer) -> None:
        """Raises KeyError if the peer has not joined."""
        self.links[peer].close()

    def abort(self, peer: Peer, error: BrokerError) -> None:
        """Raises KeyError if the peer has not joined."""
        self.links[peer].abort(error)

    def suspect(self, peer: Peer, reason: str) -> None:
        """Suspect the peer for its quality (`IMonitorCore.suspect`).

        Raises KeyError if the peer has not joined, `StackError` if no layer is a monitor.
        """
        link = self.links[peer]
        monitor = link.monitor
        if monitor is None:
            raise StackError("the links of this stack have no monitor")
        height = link.cores.index(monitor)
        self._queue.enqueue(link.call_core, height, monitor.suspect, reason)

    def drop_unsent(self, peer: Peer) -> None:
        """Drop what waits for a peer (`IBufferingCore.drop_unsent`).

        Raises KeyError if the peer has not joined.
        """
        link = self.links[peer]
        for height, core in enumerate(link.cores):
            if IBufferingCore.providedBy(core):
                self._queue.enqueue(link.call_core, height, core.drop_unsent)

    def remove(self, peer: Peer, error: BrokerError) -> None:
        """Abort the peer's channel, and report nothing more about it. All layers drop its state.

        Raises KeyError if it has not joined.
        """
        link = self.links.pop(peer)
        link.end(error)
        for each in link.cores:
            if IBufferingCore.providedBy(each):
                each.release_memory()
        for height, core in enumerate(self.cores):
            self._queue.perform(self._call_core, height, core.peer_removed, peer)

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages to their destinations: each message then has its `outcomes`.

        It is SENT where a layer keeps the message for a while.
        """
        if self.cores:
            self._queue.perform(self._submit, self._top, messages)
        for message in messages:
            if self.failure is not None:
                message.outcomes.update(dict.fromkeys(message.destinations, Outcome.ABSENT))
            elif len(message.outcomes) < len(message.destinations):
                self._complete_outcomes(message)

    def _complete_outcomes(self, message: Message) -> None:
        for peer in message.destinations:
            if peer not in message.outcomes:
                message.outcomes[peer] = Outcome.SENT
                if not self.cores:
                    self._queue.perform(self._send_to_link, peer, [message])

    def consumed(self, peer: Peer, count: int) -> None:
        """Return credit of a peer; without effect if it has not joined."""
        link = self.links.get(peer)
        if link is None or not count:
            return
        if self.credits:
            self._queue.perform(self._call_core, self._top, self.cores[-1].consumed, peer, count)
        else:
            link.consumed(count)

    # ----------------------------------------------------------------- for the links

    def send_to_one(self, messages: Sequence[bytes], peer: Peer) -> None:
        outgoing = [Message(payload, destinations=(peer,)) for payload in messages]
        self.send(outgoing)
        outcomes = {message.outcomes.get(peer) for message in outgoing}
        if Outcome.FULL in outcomes:
            raise Overloaded(f"there is no room for {len(messages)} messages to {peer!r}")
        if Outcome.ABSENT in outcomes:
            raise Closed(f"{peer!r} is not connected")

    def drop_effects(self, link: Link) -> None:
        def is_obsolete(owner: CoreOwner, effect: Effect) -> bool:
            return owner is link or (owner is self and effect.peer == link.peer)

        self._queue.drop(is_obsolete)

    def deliver(self, link: Link, packets: Sequence[bytes]) -> None:
        if packets:
            messages = [Message(packet, link.peer) for packet in packets]
            self._call_core(0, self.cores[0].receive, messages, link.peer)

    def report_view(self, link: Link, view: View) -> None:
        if self.cores and self.failure is None:
            self._call_core(0, self.cores[0].view_changed, link.peer, view)
        elif self.receiver is not None:
            self._call_receiver(link, self.receiver.view_changed, view)

    def report_writable(self, link: Link) -> None:
        if self.cores:
            self._call_core(0, self.cores[0].writable_changed, link.peer, link.is_writable)
        elif self.receiver is not None:
            self._call_receiver(link, self.receiver.writable_changed, link.is_writable)

    def report_failure(self, error: Exception) -> None:
        self._on_error(error)

    # ----------------------------------------------------------------- above the links

    def apply_effect(self, height: int, effect: Effect) -> None:
        link = self.links.get(effect.peer)
        if link is None:
            return
        is_top, receiver = height == self._top, self.receiver
        match effect:
            case DeliverUp(messages, peer) if not is_top:
                self._call_core(height + 1, self.cores[height + 1].receive, messages, peer)
            case DeliverUp(messages) if receiver is not None:
                payloads = [message.payload for message in messages]
                self._call_receiver(link, receiver.messages_received, payloads)
            case ViewChanged(view, peer) if not is_top:
                self._call_core(height + 1, self.cores[height + 1].view_changed, peer, view)
            case ViewChanged(view) if receiver is not None:
                self._call_receiver(link, receiver.view_changed, view)
            case WritableChanged(writable) if receiver is not None:
                self._call_receiver(link, receiver.writable_changed, writable)
            case Consumed(count, peer) if height > 0:
                self._call_core(height - 1, self.cores[height - 1].consumed, peer, count)
            case Consumed(count):
                link.release_credit(count)
            case Failed(error):
                link.drop_channel(error)

    def _take_effects(self, height: int, effects: Sequence[Effect]) -> None:
        """Carry out what goes down, tell upper layers of outcomes, and put the rest into the
        queue."""
        if self.timed_cores:
            self._queue.touched[self] = None
        upper = self.cores[height + 1] if height < self._top else None
        for effect in effects:
            if isinstance(effect, SendDown):
                if height > 0:
                    self._submit(height - 1, effect.packets)
                else:
                    self._send_to_link(effect.peer, effect.packets)
            elif isinstance(effect, Outcomes):
                if upper is not None:
                    self._call_core(height + 1, upper.outcomes, effect.messages)
            elif isinstance(effect, WritableChanged) and upper is not None:
                changed = upper.writable_changed
                self._call_core(height + 1, changed, effect.peer, effect.writable)
            else:
                self._queue.effects.append((self, height, effect))

    def _submit(self, height: int, messages: Sequence[Message]) -> None:
        if self.failure is not None:
            return
        try:
            effects = self.cores[height].submit(messages, self._clock.seconds())
        except Overloaded:
            for message in messages:
                message.outcomes.update(dict.fromkeys(message.destinations, Outcome.FULL))
            effects = [Outcomes(messages)]
        except Exception as error:
            self._fail(error, height)
            return
        self._take_effects(height, effects)

    def _send_to_link(self, peer: Peer | None, messages: Sequence[Message]) -> None:
        link = self.links.get(peer)
        if link is not None:
            link.submit(messages)
            return
        for message in messages:
            message.outcomes[peer] = Outcome.ABSENT

    def _handle_timeouts(self) -> None:
        self._queue.touched[self] = None
        now = self._clock.seconds()
        for height, core in enumerate(self.cores):
            due = core.next_timeout()
            if due is not None and due <= now:
                self._call_core(height, core.handle_timeout)

    def _call_core(
        self, height: int, operation: Callable[..., list[Effect]], *args: object
    ) -> None:
        if self.failure is not None:
            return
        try:
            effects = operation(*args, self._clock.seconds())
        except Exception as error:
            self._fail(error, height)
        else:
            self._take_effects(height, effects)

    def _fail(self, error: Exception, height: int) -> None:
        """End the use of the stack, for all peers."""
        self._on_error(error)
        if self.failure is not None:
            return
        self.failure = Closed(f"layer {height} above the links failed: {error}")
        self._queue.touched[self] = None
        for link in list(self.links.values()):
            link.end(self.failure)
            self.report_view(link, View(LinkState.DISCONNECTED, error=self.failure))

    def _call_receiver(self, link: Link, callback: Callable[..., None], argument: object) -> None:
        try:
            callback(link.peer, argument)
        except Exception as error:
            link.fail(error, "the receiver of the stack failed")

    def _unusable(self) -> Closed:
        return Closed(f"the stack is not usable any more: {self.failure}")
