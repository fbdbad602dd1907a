"""A send buffer whose packets a test reads."""

from __future__ import annotations

from random import Random
from typing import Final

from broker.transport.arq.pacer import Pacer
from plugins.dcp.event_range import Description, EventRange
from plugins.dcp.incoming_sequences import decode_opening
from plugins.dcp.outgoing_sequence import OutgoingSequence
from plugins.dcp.packet import STREAM, SYN, Packet
from plugins.dcp.packet_writer import PacketWriter
from plugins.dcp.parts import MissingParts
from plugins.dcp.receiver import Nack
from plugins.dcp.send_buffer import SendBuffer
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import DESCRIPTION, MAC, read

MTU: Final = 300
LARGE: Final = Random(1).randbytes(2_000)


class Sending:
    """A buffer, and the packets that it writes."""

    def __init__(self, settings: DcpSettings | None = None) -> None:
        settings = settings or DcpSettings(mtu=MTU)
        self.writer = PacketWriter(7, MAC, settings.mtu)
        pacer = Pacer(settings.pacing, 0.0)
        self.core = SendBuffer(self.writer, pacer, settings, lambda: 3)
        self.sequence = self.open(DESCRIPTION)

    def open(self, description: Description, start: int = 0) -> OutgoingSequence:
        found = self.core.open(description, start)
        assert found is not None
        return found

    def send(self, *ranges: EventRange, now: float = 0.0) -> list[Packet]:
        for each in ranges:
            self.core.append(self.sequence, each)
        return self.flush(now)

    def flush(self, now: float = 0.0) -> list[Packet]:
        self.core.flush(now)
        packets = self.writer.take_packets()
        assert all(len(data) <= MTU for data in packets)
        return [read(data) for data in packets]

    def repair(self, now: float, current: int = 0, *numbers: int) -> list[Packet]:
        """Return the answer to a request, for some parts of the first range if there are any."""
        parts = MissingParts(0, 10, numbers) if numbers else None
        self.core.answer(self.sequence.index, Nack(current, []), parts, now, 0.1)
        return self.flush(now)


def bodies_of(packets: list[Packet]) -> list[bytes]:
    """Return the bodies without the description of their sequence."""
    return [
        decode_opening(each.body)[1] if each.flags & SYN else each.body
        for each in packets
        if not each.flags & STREAM
    ]
