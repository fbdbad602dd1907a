"""A batch on its way into the log, its parts, and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from broker.errors import BrokerError, WireError
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.wire.event_batch import Batch
from broker.wire.messages import Published

#: (record, rank of the security level, document).
Entry: TypeAlias = tuple[bytes, int, bytes]


@attrs.define(eq=False)
class Submission:
    """Progress of a batch. Parts are appended and become durable in order."""

    batch: Batch
    appended: int = 0
    """Documents, from the first on."""
    is_answered: bool = False
    requires_replica: bool = False
    """True if it must be durable at another node before the answer."""
    is_durable: bool = False
    _durable_count: int = 0
    _first_mark: Mark | None = None
    _next_mark: Mark | None = None
    _accepted_count: int = 0
    _duplicates: list[int] = attrs.field(factory=list)
    _refused: list[tuple[int, WireError]] = attrs.field(factory=list)
    _later_runs: list[tuple[int, Mark]] = attrs.field(factory=list)
    """(index of the first new event, its mark) of each part that does not follow the part
    before."""

    @property
    def remaining(self) -> int:
        return len(self.batch.documents) - self.appended

    def record_appended(self, authorised: AuthorisedPart) -> None:
        self.appended = authorised.part.stop
        self._duplicates += authorised.duplicates
        for index, error in authorised.refused:
            self._refused.append((index, error.to_wire()))

    def record_durable(self, authorised: AuthorisedPart, first: LoggedEvent | None) -> None:
        """`first` is its first new event, if any."""
        self._durable_count += authorised.part.count
        self.is_durable = self._durable_count == len(self.batch.documents)
        if first is None:
            return
        mark = (first.epoch, first.offset)
        if self._first_mark is None:
            self._first_mark = mark
        elif mark != self._next_mark:
            # Events of other publishers lie between the parts.
            self._later_runs.append((authorised.first_new_index, mark))
        count = len(authorised.entries)
        self._accepted_count += count
        self._next_mark = (first.epoch, first.offset + count)

    def build_answer(self, origin: str) -> Published:
        return Published(
            batch=self.batch.number,
            first=() if self._first_mark is None else ((origin, *self._first_mark),),
            accepted=self._accepted_count,
            duplicates=tuple(self._duplicates),
            refused=tuple(self._refused),
            later=tuple(self._later_runs),
        )


class Part:
    """Documents that are matched and appended together."""

    __slots__ = ("count", "documents", "start", "stop", "submission")

    def __init__(self, submission: Submission, start: int, stop: int) -> None:
        self.submission = submission
        self.start = start
        self.stop = stop
        self.count = stop - start
        documents = submission.batch.documents
        #: Not copied if it is the whole batch.
        self.documents = documents if self.count == len(documents) else documents[start:stop]


def limit_parts(parts: Iterable[Part], documents: int) -> list[Part]:
    """Return the parts of the first documents; the last part may be cut. Parts without documents
    are included."""
    first: list[Part] = []
    for part in parts:
        if part.count > documents:
            if documents:
                first.append(Part(part.submission, part.start, part.start + documents))
            break
        first.append(part)
        documents -= part.count
    return first


@attrs.define
class AuthorisedPart:
    """A part after authorisation. Indices are those in the batch."""

    part: Part
    refused: list[tuple[int, BrokerError]] = attrs.field(factory=list)
    duplicates: list[int] = attrs.field(factory=list)
    entries: list[Entry] = attrs.field(factory=list)
    """Of each new event."""
    matches: list[tuple[int, ...]] = attrs.field(factory=list)
    """Matching subscriptions of each new event."""
    streams: set[str] = attrs.field(factory=set)
    """Of the new events."""

    @property
    def first_new_index(self) -> int:
        """There must be one."""
        others = {*self.duplicates, *(index for index, _ in self.refused)}
        return next(i for i in range(self.part.start, self.part.stop) if i not in others)
