"""A node whose parents a test plays."""

from __future__ import annotations

from collections.abc import Iterable

from plugins.dcp.connection import Connection
from plugins.dcp.control import InForce, Interest, SequenceStart
from plugins.dcp.event_range import Description, EventRange
from plugins.dcp.mesh.selection import Candidate
from plugins.dcp.parents import Parents
from plugins.dcp.receiver import SequenceReceiver
from plugins.dcp.sequences import Sequences, SequenceState
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import DESCRIPTION, Owner, make_range
from tests.plugins.dcp.receiving_child import Delivered
from tests.plugins.dcp.recording_connection import RecordingConnection


class Node(Owner):
    """The parents of a node, and all that they have delivered."""

    def __init__(
        self, *, is_root: bool = False, first_epoch: int = 0, confirms: bool = False
    ) -> None:
        settings = DcpSettings(confirms=confirms)
        super().__init__(settings)
        self.covered: list[str] = []
        """Names of the calls that were made as covered."""
        self.sequences = Sequences()
        self.core = Parents(
            *(self.sequences, settings, self._take),
            is_root=is_root,
            first_epoch=first_epoch,
        )
        self.connections: list[RecordingConnection] = []
        self._delivered: Delivered = []

    def _take(self, state: SequenceState, ranges: Iterable[EventRange]) -> None:
        for each in ranges:
            ans = [event.mark[1] for event in each.events]
            self._delivered.append((each.previous, each.upto, ans))
        self.core.watch(state)

    def sequence_opened(self, connection: Connection, start: SequenceStart, now: float) -> None:
        self.core.open_sequence(connection, start, now)

    # ------------------------------------------------------------------ steps

    def when_covered(self, name: str) -> None:
        self.core.when_covered(lambda: self.covered.append(name))

    def add_parent(self, name: str, number: int) -> RecordingConnection:
        connection = RecordingConnection(name, number, self, is_dialled=True)
        self.core.add(connection, Candidate(name, 0, {}), 0.0)
        self.connections.append(connection)
        return connection

    def put_in_force(
        self,
        connection: RecordingConnection,
        epoch: int,
        an: int | None = None,
    ) -> None:
        """Let a parent state an epoch, with the begin of a sequence if there is an AN."""
        starts = () if an is None else (SequenceStart(1, DESCRIPTION, an),)
        self.core.put_in_force(connection, InForce(epoch, starts), 0.0)

    def give(
        self, connection: RecordingConnection, previous: int, upto: int, *ans: int, now: float = 0.0
    ) -> Delivered:
        """Take a range of a parent, and return what was delivered since the last call."""
        range_ = make_range(previous, upto, *ans)
        self._take(self.state(), self.receiver().receive(connection, range_, now))
        return self.take_delivered()

    def take_delivered(self) -> Delivered:
        taken, self._delivered = self._delivered, []
        return taken

    def state(self, description: Description = DESCRIPTION) -> SequenceState:
        found = self.sequences.get(description.key)
        assert found is not None
        return found

    def receiver(self, description: Description = DESCRIPTION) -> SequenceReceiver[EventRange]:
        found = self.state(description).receiver
        assert found is not None
        return found


def interest_epochs(connection: RecordingConnection) -> list[int]:
    """Return the epochs of the interest that a parent has got."""
    return [each.epoch for each in connection.messages if isinstance(each, Interest)]
