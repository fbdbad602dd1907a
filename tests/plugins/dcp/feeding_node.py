"""A node with children, whose feeder and parents a test plays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from broker.errors import BadQuery, Overloaded
from broker.event.place import Mark
from broker.streams.contract import CarriedInterest
from plugins.dcp.children import Child, Children
from plugins.dcp.control import Query
from plugins.dcp.sequences import Sequences, SequenceState
from tests.plugins.dcp.connection_pipe import DESCRIPTION
from tests.plugins.dcp.recording_connection import RecordingConnection


class Node:
    """All interest that is set behind the links of its children, and the calls that set it."""

    def __init__(self) -> None:
        self.is_covered = True
        self.bad: dict[str, BadQuery | Overloaded] = {}
        """Errors of queries that the matching rejects."""
        self.interest: dict[tuple[Hashable, str], str] = {}
        """Query by link and key."""
        self.calls: list[tuple[str, str | None]] = []
        """Key and query of each call; None: removed."""
        self.changes = 0
        self.sequences = Sequences()
        self.core = Children(self.sequences, self.set_link_interest, self._change, self._cover)
        self._active: dict[str, Callable[[Mapping[str, Mark]], object]] = {}
        self._covering: list[Callable[[], object]] = []

    def _change(self) -> None:
        self.changes += 1

    def set_link_interest(
        self,
        link: Hashable,
        key: str,
        interest: CarriedInterest | None,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        self.calls.append((key, None if interest is None else interest.query))
        if interest is None:
            del self.interest[link, key]
        elif interest.query in self.bad:
            raise self.bad[interest.query]
        else:
            assert (link, key) not in self.interest
            self.interest[link, key] = interest.query
            self._active[interest.query] = on_active

    def _cover(self, call: Callable[[], object]) -> None:
        if self.is_covered:
            call()
        else:
            self._covering.append(call)

    def cover(self) -> None:
        """Let the parents of the node select by the interest of its children."""
        self.is_covered = True
        covering, self._covering = self._covering, []
        for call in covering:
            call()

    def select(self, *texts: str, an: int = 0) -> None:
        """Let the feeder select by queries, behind an AN of the flow."""
        for text in texts:
            self._active[text]({DESCRIPTION.flow: (DESCRIPTION.epoch, an)} if an else {})

    def add_sequence(self, end: int) -> SequenceState:
        state = SequenceState(DESCRIPTION, None, end)
        assert self.sequences.add(state)
        return state

    def add_child(
        self, name: Hashable = "c1", number: int = 1, clearance: int = 2
    ) -> RecordingConnection:
        """Add a child at the address of its name."""
        connection = RecordingConnection(name, number, is_dialled=False)
        self.core.add(connection, str(name), clearance)
        return connection

    def feed_child(
        self, name: Hashable, number: int, *queries: Query, clearance: int = 2
    ) -> RecordingConnection:
        """Return a child whose interest is in force."""
        connection = self.add_child(name, number, clearance)
        self.core.set_interest(connection, 1, queries)
        self.select(*(text for _, text, _ in queries))
        assert self.child(connection).is_fed
        return connection

    def child(self, connection: RecordingConnection) -> Child:
        (found,) = [each for each in self.core if each.connection is connection]
        return found

    def texts(self) -> list[str]:
        return sorted(self.interest.values())
