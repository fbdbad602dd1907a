"""A connection that stores the messages of its node instead of sending them."""

from __future__ import annotations

from collections.abc import Hashable

from plugins.dcp.connection import Connection
from plugins.dcp.control import ControlMessage
from plugins.dcp.event_range import SequenceKey
from plugins.dcp.receiver import Nack
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import MAC, Owner


class RecordingConnection(Connection):
    """One end, whose peer a test plays."""

    def __init__(
        self, peer: Hashable, number: int = 1, owner: Owner | None = None, *, is_dialled: bool
    ) -> None:
        settings = DcpSettings()
        super().__init__(
            *(peer, (number, number + 1_000), MAC, settings, owner or Owner(settings), 0.0),
            is_dialled=is_dialled,
        )
        self.binding = b"link %d" % number
        self.messages: list[ControlMessage] = []
        self.nacks: list[tuple[SequenceKey, Nack]] = []
        self.probes = 0

    def send_control(self, *messages: ControlMessage) -> None:
        self.messages += messages

    def send_nack(self, key: SequenceKey, nack: Nack, now: float) -> None:
        self.nacks.append((key, nack))

    def probe(self) -> None:
        self.probes += 1

    def take_messages(self) -> list[ControlMessage]:
        taken, self.messages = self.messages, []
        return taken
