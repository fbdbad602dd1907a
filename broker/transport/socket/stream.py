"""The base of socket channels over byte streams, for any event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.errors import BrokerError, NotConnected, ProtocolError
from broker.transport.socket.contract import (
    IPartialPacketReceiver,
    ISocketChannel,
    ISocketReceiver,
    ITlsChannel,
)
from broker.transport.socket.framing import FrameDecoder, encode_frames


@implementer(ITlsChannel)
class StreamChannel(ABC):
    """The base of socket channels over byte streams, for any event loop.

    The adapter reports events of the transport; this class calls the receiver. `on_connect` is
    called when the connection is made.
    """

    def __init__(self, on_connect: Callable[[ISocketChannel], None], max_frame: int) -> None:
        self.peer_description = ""
        self.secure = self.confidential = False
        self._on_connect = on_connect
        self._decoder = FrameDecoder(max_frame)
        self._receiver: ISocketReceiver | None = None
        self._is_reading = True
        self._is_open = False
        self._is_lost = False
        self._is_reported = False
        self._error: BrokerError | None = None
        self._write: Callable[[list[bytes]], object] = _not_connected

    @property
    def certified_name(self) -> str:
        return ""

    @property
    def binding_kind(self) -> str:
        return ""

    def binding_data(self, kind: str) -> bytes | None:
        return None

    def peer_certificate(self) -> bytes | None:
        return None

    @property
    def receiver(self) -> ISocketReceiver | None:
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: ISocketReceiver | None) -> None:
        self._receiver = receiver
        if self._is_lost:
            self._report_lost()
        else:
            self._apply_reading()

    @property
    def max_frame(self) -> int:
        return self._decoder.max_frame

    @max_frame.setter
    def max_frame(self, max_frame: int) -> None:
        self._decoder.max_frame = max_frame

    def send(self, packets: Sequence[bytes]) -> None:
        if packets and self._is_open:
            self._write(encode_frames(packets))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._close_transport()

    def abort(self, error: BrokerError) -> None:
        """Close at once; also ends a `close` that is still sending."""
        if not self._is_lost and self._error is None:
            self._is_open = False
            self._error = error
            self._abort_transport()

    def pause(self) -> None:
        self._is_reading = False
        self._apply_reading()

    def resume(self) -> None:
        self._is_reading = True
        self._apply_reading()

    def _connected(self, write: Callable[[list[bytes]], object]) -> None:
        """`write` sends a list of bytes on the transport."""
        self._write = write
        self._is_open = True
        self._apply_reading()
        self._on_connect(self)

    def _received(self, data: bytes) -> None:
        if not self._is_open:
            return
        try:
            packets = self._decoder.feed(data)
        except BrokerError as error:
            self.abort(error)
            return
        if packets and self._receiver is not None:
            self._receiver.packets_received(packets)
        elif IPartialPacketReceiver.providedBy(self._receiver):
            self._receiver.partial_packet_received()

    def _writable_changed(self, writable: bool) -> None:
        if self._is_open and self._receiver is not None:
            self._receiver.writable_changed(writable)

    def _disconnected(self, reason: str | None) -> None:
        """`reason` is None after an orderly close."""
        is_incomplete = self._decoder.close()
        if self._error is None:
            if reason is not None:
                self._error = NotConnected(f"connection lost: {reason}")
            elif is_incomplete and self._is_open:
                self._error = ProtocolError("the connection was closed within a frame")
        self._is_open = False
        self._is_lost = True
        self._report_lost()

    def _apply_reading(self) -> None:
        if self._is_open:
            self._set_reading(self._is_reading and self._receiver is not None)

    def _report_lost(self) -> None:
        if self._receiver is not None and not self._is_reported:
            self._is_reported = True
            self._receiver.channel_lost(self._error)

    @abstractmethod
    def _close_transport(self) -> None: ...

    @abstractmethod
    def _abort_transport(self) -> None: ...

    @abstractmethod
    def _set_reading(self, reading: bool) -> None: ...


def _not_connected(_: list[bytes]) -> None:
    """A channel is open only from `_connected` to its end."""
    raise NotConnected("the connection is not established yet")
