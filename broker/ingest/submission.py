"""A batch on its way into the log, in as many parts as it takes, and the one answer to it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from broker.errors import BrokerError, WireError
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.wire.event_batch import Batch
from broker.wire.messages import Published


@attrs.define(eq=False)
class Submission:
    """One batch: what of it was taken, what of that is durable, and what is to be answered.

    Parts are taken in their order, and the log tells of them in that order.
    """

    batch: Batch
    taken: int = 0
    """Documents, from the first on, that were matched, judged and given to the log."""
    answered: bool = False
    guarded: bool = False
    """Whether it is not safe before another node has it, too."""
    is_durable: bool = False
    """Whether all of it is durable."""
    _durable: int = 0
    _first: Mark | None = None
    _next: Mark | None = None
    _accepted: int = 0
    _duplicates: list[int] = attrs.field(factory=list)
    _refused: list[tuple[int, WireError]] = attrs.field(factory=list)
    _later: list[tuple[int, Mark]] = attrs.field(factory=list)
    """Where a part does not follow the one before it: (index of its first new event, its mark)."""

    @property
    def left(self) -> int:
        """Documents that were not taken yet."""
        return len(self.batch.documents) - self.taken

    def take(self, judged: Judged) -> None:
        """The next part goes to the log."""
        self.taken = judged.part.stop
        self._duplicates += judged.duplicates
        for index, error in judged.refused:
            self._refused.append((index, error.to_wire()))

    def settle(self, judged: Judged, first: LoggedEvent | None) -> None:
        """A part is durable; `first` is the first of its new events, if it has any."""
        self._durable += judged.part.count
        self.is_durable = self._durable == len(self.batch.documents)
        if first is None:
            return
        mark = (first.epoch, first.offset)
        if self._first is None:
            self._first = mark
        elif mark != self._next:
            # Events of other publishers lie in between.
            self._later.append((judged.first_new, mark))
        accepted = len(judged.entries)
        self._accepted += accepted
        self._next = (first.epoch, first.offset + accepted)

    def answer(self, origin: str) -> Published:
        """What became of the batch, of which all is durable."""
        return Published(
            batch=self.batch.number,
            first=() if self._first is None else ((origin, *self._first),),
            accepted=self._accepted,
            duplicates=tuple(self._duplicates),
            refused=tuple(self._refused),
            later=tuple(self._later),
        )


class Part:
    """Neighbouring documents of a batch that are matched and appended together."""

    __slots__ = ("count", "documents", "of", "start", "stop")

    def __init__(self, of: Submission, start: int, stop: int) -> None:
        self.of = of
        self.start = start
        self.stop = stop
        self.count = stop - start
        documents = of.batch.documents
        #: Usually the whole batch, which is not copied.
        self.documents = documents if self.count == len(documents) else documents[start:stop]


def first_of(parts: Iterable[Part], documents: int) -> list[Part]:
    """The parts, or what there is of them, that so many documents are; empty ones with them."""
    first: list[Part] = []
    for part in parts:
        if part.count > documents:
            if documents:
                first.append(Part(part.of, part.start, part.start + documents))
            break
        first.append(part)
        documents -= part.count
    return first


@attrs.define
class Judged:
    """A part after matching, on its way through a commit. Indices are those in the batch."""

    part: Part
    refused: list[tuple[int, BrokerError]] = attrs.field(factory=list)
    duplicates: list[int] = attrs.field(factory=list)
    entries: list[tuple[bytes, int, bytes]] = attrs.field(factory=list)
    """(record, rank of the security level, document) of each event that is new."""
    matches: list[tuple[int, ...]] = attrs.field(factory=list)
    """The subscriptions that each of them matches."""
    streams: set[str] = attrs.field(factory=set)
    """The streams of these events."""

    @property
    def first_new(self) -> int:
        """The index of the first new event, of which there is one."""
        others = {*self.duplicates, *(index for index, _ in self.refused)}
        return next(i for i in range(self.part.start, self.part.stop) if i not in others)
