"""The events that the roots of a mesh have published."""

from __future__ import annotations

from bisect import bisect_right

import attrs

from broker.event.place import Mark


@attrs.define
class PublishedFlow:
    """All events of one flow."""

    marks: list[Mark] = attrs.Factory(list)
    """Ascending."""
    events: dict[Mark, tuple[bytes, float]] = attrs.Factory(dict)
    """Document and time."""

    def add(self, mark: Mark, document: bytes, time: float) -> None:
        assert not self.marks or self.marks[-1] < mark
        self.marks.append(mark)
        self.events[mark] = document, time

    def between(self, after: Mark, upto: Mark) -> list[Mark]:
        """Return the marks in (`after`, `upto`]."""
        return self.marks[bisect_right(self.marks, after) : bisect_right(self.marks, upto)]
