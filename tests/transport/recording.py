from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import (
    BrokerError,
)
from broker.transport.driver import IStackReceiver
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    SendDown,
    ViewChanged,
)
from broker.transport.layer import ILinkCore, ILinkLayer, LinkPassThrough, Property
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.view import View

Log = list[tuple[object, ...]]


@implementer(ISocketChannel)
class RecordingChannel:
    peer_description = "nobody"
    secure = False
    confidential = True
    certified_name = ""
    max_frame = 1000

    def __init__(self) -> None:
        self.receiver: ISocketReceiver | None = None
        self.log: Log = []

    def send(self, packets: Sequence[bytes]) -> None:
        self.log.append(("send", list(packets)))

    def close(self) -> None:
        self.log.append(("close",))

    def abort(self, error: BrokerError) -> None:
        self.log.append(("abort", type(error)))

    def pause(self) -> None:
        self.log.append(("pause",))

    def resume(self) -> None:
        self.log.append(("resume",))

    def deliver(self, *packets: bytes) -> None:
        assert self.receiver is not None
        self.receiver.packets_received(packets)

    def lose(self, error: BrokerError | None = None) -> None:
        assert self.receiver is not None
        self.receiver.channel_lost(error)


@implementer(IStackReceiver)
class RecordingReceiver:
    """A user that records callbacks, and then calls a function of the test."""

    def __init__(self) -> None:
        self.log: Log = []
        self.reaction: Callable[[], None] = lambda: None

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.log.append(("messages", list(messages)))
        self.reaction()

    def view_changed(self, peer: object, view: View) -> None:
        self.log.append(("view", view.state, type(view.error)))
        self.reaction()

    def writable_changed(self, peer: object, writable: bool) -> None:
        self.log.append(("writable", writable))
        self.reaction()


@implementer(ILinkCore)
class RecordingCore(LinkPassThrough):
    """A core that adds its mark to each message, and detects re-entry."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.running = False
        self.log: list[str] = []
        self.deadline: float | None = None
        self.extra: list[Effect] = []

    def _enter(self, what: str) -> list[Effect]:
        assert not self.running, "re-entered"
        self.running = True
        self.log.append(what)
        extra, self.extra = self.extra, []
        self.running = False
        return extra

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        extra = self._enter("submit")
        return [SendDown([self.mark + message for message in messages]), *extra]

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        extra = self._enter("receive")
        return [DeliverUp([packet + self.mark for packet in packets]), *extra]

    def view_changed(self, view: View, now: float) -> list[Effect]:
        return [ViewChanged(view), *self._enter(view.state.value)]

    def consumed(self, count: int, now: float) -> list[Effect]:
        if count > 99:
            raise ValueError("fewer messages were delivered")
        return [Consumed(count), *self._enter(f"consumed {count}")]

    def handle_timeout(self, now: float) -> list[Effect]:
        self.deadline = None
        return self._enter(f"timeout {now:g}")

    def next_timeout(self) -> float | None:
        return self.deadline


@implementer(ILinkLayer)
@attrs.frozen
class RecordingLayer:
    core: RecordingCore
    provides: frozenset[Property] = frozenset()
    name: ClassVar[str] = "recorder"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> RecordingCore:
        return self.core


@attrs.frozen
class FifoLayer(RecordingLayer):
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FIFO})
