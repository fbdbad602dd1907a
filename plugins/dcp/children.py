"""The children of a node: the interest of each, and its events (DCP D12, D15, D30, D55)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import attrs

from broker.errors import BadQuery, BadQueuePolicy, Overloaded, ProtocolError
from broker.event.place import Mark
from broker.streams.contract import CarriedInterest
from broker.streams.link_key import Unmatched
from broker.streams.queue_policy import BLOCK, parse_queue_policy
from plugins.dcp.connection import Connection
from plugins.dcp.control import InForce, LateEvent, Query, Refused, SequenceStart, to_interest
from plugins.dcp.event_range import EventRange
from plugins.dcp.group_sender import GroupSender
from plugins.dcp.leaf_peer import LeafPeer
from plugins.dcp.omission import WITHHELD, is_omission
from plugins.dcp.sequences import Sequences, SequenceState

#: Of a child whose link no security level limits.
HIGHEST_RANK: Final = 2
#: Unsent control messages of a child. Further late events are not sent.
MOST_LATE_BYTES: Final = 4 << 20
#: Refused interest of one child.
_MOST_REFUSALS: Final = 100


class QueryRefusedError(Exception):
    """A query of a child is not accepted here, for the reason that the error gives."""

    def __init__(self, query: Query, error: BadQuery | Overloaded) -> None:
        super().__init__(error.text)
        self.query = query
        self.error = error


class ISetLinkInterest(Protocol):
    def __call__(
        self,
        link: Hashable,
        key: str,
        interest: CarriedInterest | None,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> object:
        """Set or remove interest behind a link, as `ITransportContext.set_link_interest`."""


@attrs.define(eq=False)
class Child:
    connection: Connection
    name: str
    link: Hashable
    clearance: int
    """Rank of the highest level of events that pass over its link."""
    takes_late: bool = True
    """False if it is of an earlier version."""
    withheld: int = 0
    """Events above the clearance, or that could not be matched for a client."""
    epoch: int = -1
    """Of its newest interest; that in force is the connection's `query_epoch`."""
    is_fed: bool = False
    """True from the first interest in force on: events are sent."""
    keys: dict[Query, str] = attrs.field(factory=dict)
    """Keys of the interest that is set behind its link."""
    wanted: frozenset[Query] = frozenset()
    unselected: set[Query] = attrs.field(factory=set)
    """Queries by which a feeder does not select yet."""
    marks: dict[str, Mark] = attrs.field(factory=dict)
    """Behind them a feeder selects by its interest."""
    last_key: int = 0
    refusals: int = 0
    """Messages with a refused query."""
    multicast: str = ""
    """Groups that it can join, as `Join.multicast`."""
    group: GroupSender | None = None
    """The group that it is a member of."""

    @property
    def has_settled(self) -> bool:
        """True if its newest interest is in force."""
        return self.is_fed and self.connection.query_epoch == self.epoch

    def leave_group(self) -> None:
        if self.group is not None:
            self.group.remove(self.connection)
            self.group = None

    @property
    def is_client(self) -> bool:
        return isinstance(self.connection.peer, LeafPeer)


class Children:
    def __init__(
        self,
        sequences: Sequences,
        set_link_interest: ISetLinkInterest,
        on_change: Callable[[], object],
        when_covered: Callable[[Callable[[], object]], object],
    ) -> None:
        """`on_change` is called when the interest of all children has changed. `when_covered` calls
        a function as soon as this node itself gets all that its children want by then."""
        self._sequences = sequences
        self._set_link_interest = set_link_interest
        self._on_change = on_change
        self._when_covered = when_covered
        self._children: dict[Connection, Child] = {}
        self.changes = 0
        """Of children, and of interest in force."""

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._children.values()))

    def __len__(self) -> int:
        return len(self._children)

    def __contains__(self, connection: object) -> bool:
        return connection in self._children

    @property
    def queries(self) -> set[Query]:
        """The queries of all children."""
        return {query for child in self._children.values() for query in child.wanted}

    # ------------------------------------------------------------------ children

    def add(
        self,
        connection: Connection,
        name: str,
        clearance: int = HIGHEST_RANK,
        multicast: str = "",
        takes_late: bool = True,
    ) -> None:
        """Add a child. `clearance` is the rank of the highest level of its events. `multicast` and
        `takes_late` are those of `Join`."""
        # The id tells a link from an earlier one to the same node.
        link = connection.peer, connection.own_id
        child = Child(connection, name, link, clearance, takes_late, multicast=multicast)
        self._children[connection] = child

    def remove(self, connection: Connection) -> None:
        child = self._children.pop(connection, None)
        if child is not None:
            child.leave_group()
            self.changes += 1
            for key in child.keys.values():
                self._set_link_interest(child.link, key, None, _ignore)
            self._on_change()

    def leave_group(self, connection: Connection) -> None:
        """Let a child's connection send its events."""
        self._children[connection].leave_group()
        self.changes += 1

    @property
    def queues(self) -> set[str]:
        """Queue policies of all children."""
        return {child.connection.buffer.policy.text for child in self._children.values()}

    def set_interest(
        self,
        connection: Connection,
        epoch: int,
        queries: Sequence[Query],
        queue: str = BLOCK.text,
    ) -> None:
        """Let a child have events of these queries from now on, and drop by a queue policy those
        that it is too slow for.

        Raises `ProtocolError` or `QueryRefusedError`: then its interest is as before.
        """
        child = self._children[connection]
        if epoch <= child.epoch:
            raise ProtocolError(f"interest of the epoch {epoch} after that of {child.epoch}")
        try:
            policy = parse_queue_policy(queue)
        except BadQueuePolicy as error:
            raise ProtocolError(f"the interest of a child: {error.text}") from None
        interests = {query: to_interest(query) for query in queries}
        added = [query for query in interests if query not in child.keys]
        self._install(child, added, interests)
        child.leave_group()
        self.changes += 1
        child.epoch, child.wanted = epoch, frozenset(interests)
        child.connection.buffer.policy = policy
        self._on_change()
        self._put_in_force_when_covered(child)

    def _select(self, child: Child, query: Query, marks: Mapping[str, Mark]) -> None:
        """Note that a feeder selects by a query behind these marks."""
        for flow, mark in marks.items():
            child.marks[flow] = max(mark, child.marks.get(flow, mark))
        child.unselected.discard(query)
        if query in child.wanted:
            self._put_in_force_when_covered(child)

    def _put_in_force_when_covered(self, child: Child) -> None:
        if not child.unselected & child.wanted:
            epoch = child.epoch
            self._when_covered(lambda: self._put_in_force(child, epoch))

    def _install(
        self,
        child: Child,
        added: Sequence[Query],
        interests: Mapping[Query, CarriedInterest],
    ) -> None:
        """Set interest behind a child's link: all, or none with an error."""
        for count, query in enumerate(added):
            child.last_key += 1
            key = str(child.last_key)
            child.unselected.add(query)
            on_active = partial(self._select, child, query)
            try:
                self._set_link_interest(child.link, key, interests[query], on_active)
            except (BadQuery, Overloaded) as error:
                child.unselected.difference_update(added)
                for each in added[:count]:
                    self._set_link_interest(child.link, child.keys.pop(each), None, _ignore)
                raise QueryRefusedError(query, error) from None
            child.keys[query] = key

    def _put_in_force(self, child: Child, epoch: int) -> None:
        """Select events by a child's interest of an epoch from now on."""
        if child.epoch != epoch or child.connection not in self._children:
            return
        if child.connection.query_epoch == epoch and child.is_fed:
            return
        for query in [each for each in child.keys if each not in child.wanted]:
            self._set_link_interest(child.link, child.keys.pop(query), None, _ignore)
        child.is_fed = True
        self.changes += 1
        child.connection.query_epoch = epoch
        starts = []
        for state in self._sequences:
            an = self._start_of(child, state)
            sequence = child.connection.buffer.open(state.description, an)
            if sequence is not None:
                starts.append(SequenceStart(sequence.index, state.description, an))
        child.connection.send_control(InForce(epoch, tuple(starts)))

    @staticmethod
    def _start_of(child: Child, state: SequenceState) -> int:
        """Return the AN behind which all events of a child's interest are sent."""
        epoch, an = child.marks.get(state.description.flow, (0, 0))
        return max(state.cut, an if epoch == state.description.epoch else 0)

    def refuse(self, connection: Connection, refusal: QueryRefusedError) -> bool:
        """Tell a child which of its queries is refused. Return False after too many times."""
        child = self._children[connection]
        child.refusals += 1
        connection.send_control(Refused(refusal.error.code, (), refusal.query))
        return child.refusals <= _MOST_REFUSALS

    # ------------------------------------------------------------------ events

    def forward(
        self, state: SequenceState, range_: EventRange, links: Sequence[frozenset[Hashable]]
    ) -> None:
        """Send a range to each child, with the events whose links have the child's.

        Of those above its clearance only the places are stated: the child requests them from the
        log, over links that may have the clearance (X12). So are those that this node could not
        match, to a client: it can not match them either. Omissions of the parents go to all.
        """
        events, entries = range_.events, range_.entries
        omitted = {n for n, event in enumerate(events) if is_omission(event)}
        highest = max([e.level for e in events if not is_omission(e)], default=0)
        unmatched = {n for n, those in enumerate(links) if isinstance(those, Unmatched)}
        parts: dict[tuple[tuple[int, ...], tuple[int, ...]], EventRange] = {}
        """By the numbers of their events, and of withheld ones among them: children with equal
        queries share one."""
        parts[tuple(range(len(events))), ()] = range_
        for child in self._children.values():
            if not child.is_fed:
                continue
            buffer = child.connection.buffer
            sequence = buffer.find(state.description.key) or buffer.open(
                state.description, range_.previous
            )
            if sequence is None:
                continue
            link = child.link
            wanted = tuple([n for n, those in enumerate(links) if link in those or n in omitted])
            withheld: tuple[int, ...] = ()
            if child.clearance < highest or (unmatched and child.is_client):
                excluded = unmatched if child.is_client else ()
                above = [n for n in wanted if n in excluded or events[n].level > child.clearance]
                withheld = tuple([n for n in above if n not in omitted])
            part = parts.get((wanted, withheld))
            if part is None:
                chosen = [events[n] for n in wanted], [entries[n] for n in wanted]
                part = EventRange(range_.previous, range_.upto, *chosen)
                if withheld:
                    part = part.omit({events[n].mark[1]: WITHHELD for n in withheld})
                parts[wanted, withheld] = part
            child.withheld += len(withheld)
            buffer.append(sequence, part)
            group = child.group
            if group is not None and not group.append(state.description, range_, part):
                child.leave_group()

    def forward_late(
        self, state: SequenceState, range_: EventRange, links: Sequence[frozenset[Hashable]]
    ) -> None:
        """Send events to each child whose link they have: its earlier ranges have left them out.

        A child with `MOST_LATE_BYTES` of unsent messages gets no further ones.
        """
        flow, epoch = state.description.flow, state.description.epoch
        for event, entry, those in zip(range_.events, range_.entries, links, strict=True):
            message = LateEvent(flow, epoch, entry)
            for child in self._children.values():
                has_room = child.connection.buffer.control.waiting_bytes < MOST_LATE_BYTES
                is_wanted = child.link in those and event.level <= child.clearance
                if child.is_fed and child.takes_late and has_room and is_wanted:
                    child.connection.send_control(message)


def _ignore(marks: Mapping[str, Mark]) -> None:
    """Interest that is removed is never in force."""
