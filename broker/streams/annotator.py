"""Annotations of own events by their stream transports, written in their commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from broker.event.flow import CarryingPatterns
from broker.event.place import Mark
from broker.log.known_flows import stream_of
from broker.streams.contract import CarriedEvent
from broker.streams.instance import TransportInstance

#: (record, rank of the security level, document).
Entry: TypeAlias = tuple[bytes, int, bytes]
#: Returns the entries of the next commit, some with annotations in their records.
AnnotateEntries: TypeAlias = Callable[[list[Entry]], list[Entry]]


class Annotator:
    """Gives own events the annotations of the transports that carry their streams."""

    def __init__(
        self,
        carrying: CarryingPatterns,
        by_pattern: Mapping[str, TransportInstance],
        own_end: Callable[[], Mark],
    ) -> None:
        """`own_end` returns the last given place: the entries get the next ones."""
        self._carrying = carrying
        self._by_pattern = by_pattern
        self._own_end = own_end

    def annotate_entries(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries that are appended next, with annotations."""
        found: dict[TransportInstance, list[int]] = {}
        # Neighbours are mostly of one stream.
        last, instance = None, None
        for index, (record, _, _) in enumerate(entries):
            stream = stream_of(record)
            if stream != last:
                last, pattern = stream, self._carrying.find_pattern(stream)
                instance = None if pattern is None else self._by_pattern[pattern.text]
            if instance is not None:
                found.setdefault(instance, []).append(index)
        if not found:
            return entries
        epoch, offset = self._own_end()
        annotated = list(entries)
        for instance, indices in found.items():
            marks = [(epoch, offset + 1 + index) for index in indices]
            records, levels, documents = zip(*[entries[index] for index in indices], strict=True)
            events = list(map(CarriedEvent, marks, records, documents, levels))
            for index, record in zip(indices, instance.annotate(events), strict=True):
                _, level, document = entries[index]
                annotated[index] = (record, level, document)
        return annotated
