"""The mark of each origin up to which a log is complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.event.flow import is_default_flow
from broker.event.place import Mark

NO_MARKS: Final[Mapping[str, Mark]] = {}


class Coverage:
    """A mark for each origin, and a version that rises with each change.

    A user stores the version that it has sent.
    """

    def __init__(self, marks: Mapping[str, Mark]) -> None:
        # In order of their last change.
        self._marks = dict(marks)
        self._versions = dict.fromkeys(marks, 0)
        self._start_offsets = {origin: mark[1] for origin, mark in marks.items()}
        self.version = 0

    def __getitem__(self, origin: str) -> Mark:
        """(0, 0) for an unknown origin."""
        return self._marks.get(origin, (0, 0))

    def __contains__(self, origin: str) -> bool:
        return origin in self._marks

    def __iter__(self) -> Iterator[str]:
        return iter(self._marks)

    @property
    def marks(self) -> dict[str, Mark]:
        return dict(self._marks)

    def count_places(self, but: str) -> int:
        """Return the places of logs covered since the start, except that of `but`."""
        begun, marks = self._start_offsets, self._marks.items()
        return sum(mark[1] - begun[o] for o, mark in marks if o != but and is_default_flow(o))

    def advance(self, marks: Mapping[str, Mark], since: Mapping[str, Mark] = NO_MARKS) -> None:
        """Set higher marks; a new origin begins after its mark in `since`."""
        if not marks:
            return
        self.version += 1
        for origin, mark in marks.items():
            self._marks.pop(origin, None)
            self._marks[origin] = mark
            self._versions[origin] = self.version
            if origin not in self._start_offsets:
                self._start_offsets[origin] = since.get(origin, (0, 0))[1]

    def changed_since(self, version: int) -> list[tuple[str, Mark]]:
        """Return the marks changed after `version`, the newest first."""
        risen: list[tuple[str, Mark]] = []
        for origin in reversed(self._marks):
            if self._versions[origin] <= version:
                break
            risen.append((origin, self._marks[origin]))
        return risen
