"""All patterns in one nondeterministic automaton with shared prefixes (YFilter, F2).

It is run once for each label path, not for each document; the states reached are remembered, so a
label path costs one step from its parent's (F3).
"""

from __future__ import annotations

from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.pattern import Document, LabelKind, Pattern

#: References to states that are remembered: 8 bytes each. All are forgotten when there are more.
MAX_REMEMBERED = 1_000_000


class State:
    """What has been read so far. `below` is the state behind a `//` from here; it `loops`."""

    __slots__ = ("below", "edges", "entry", "loops", "parent")

    def __init__(self, parent: tuple[State, str | None] | None, *, loops: bool = False) -> None:
        self.parent = parent
        self.loops = loops
        self.edges: dict[str, State] = {}
        self.below: State | None = None
        self.entry: PatternEntry | None = None


class PatternEntry:
    """A pattern in use; `rows` are the places in the index where it is a requirement.

    A row is in the column that the value names (see `index.py`).
    """

    __slots__ = ("key", "pattern", "rows", "state")

    def __init__(self, pattern: Pattern, state: State) -> None:
        self.pattern = pattern
        self.state = state
        self.key = pattern.steps[-1].key
        self.rows: dict[int, int] = {}


class Automaton:
    """Patterns come and go; `accepted` tells which of them a label path has."""

    def __init__(self, max_remembered: int = MAX_REMEMBERED) -> None:
        self._starts = {document: State(None) for document in Document}
        self._entries: dict[Pattern, PatternEntry] = {}
        self._reached: dict[LabelPath, tuple[State, ...]] = {}
        self._remembered = 0
        self._max_remembered = max_remembered
        self._grown = False
        self.states = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, pattern: Pattern) -> PatternEntry:
        """The entry of a pattern, which is new or there already."""
        entry = self._entries.get(pattern)
        if entry is None:
            state = self._starts[pattern.document]
            for step in pattern.steps:
                if step.descendant:
                    if state.below is None:
                        state.below = self._new((state, None), loops=True)
                    state = state.below
                onward = state.edges.get(step.key)
                if onward is None:
                    onward = state.edges[step.key] = self._new((state, step.key))
                state = onward
            entry = self._entries[pattern] = state.entry = PatternEntry(pattern, state)
        return entry

    def remove(self, entry: PatternEntry) -> None:
        """Forget a pattern and the states that it alone needs."""
        del self._entries[entry.pattern]
        state = entry.state
        state.entry = None
        while state.parent and not (state.edges or state.below or state.entry):
            parent, key = state.parent
            if key is None:
                parent.below = None
            else:
                del parent.edges[key]
            self.states -= 1
            state = parent

    def accepted(self, path: LabelPath) -> list[PatternEntry]:
        """The patterns that describe the label path."""
        if self._grown or self._remembered > self._max_remembered:
            self._reached.clear()
            self._remembered = 0
            self._grown = False
        return [state.entry for state in self._states(path) if state.entry is not None]

    def _states(self, path: LabelPath) -> tuple[State, ...]:
        ways = []
        here = path
        known = self._reached.get(here)
        while known is None and here.parent is not None:
            ways.append(here)
            here = here.parent
            known = self._reached.get(here)
        if known is None:
            start = self._starts[here.document]
            known = (start,) if start.below is None else (start, start.below)
        for way in reversed(ways):
            known = _advanced(known, way)
            if way.kept and way.kind is LabelKind.ELEMENT:
                self._reached[way] = known
                self._remembered += len(known)
        return known

    def _new(self, parent: tuple[State, str | None], *, loops: bool = False) -> State:
        self.states += 1
        self._grown = True
        return State(parent, loops=loops)


def _advanced(states: tuple[State, ...], path: LabelPath) -> tuple[State, ...]:
    onward: set[State] = set()
    element = path.kind is LabelKind.ELEMENT
    name, namespace, anything = path.keys
    for state in states:
        if state.loops and element:
            onward.add(state)
        edges = state.edges
        if edges:
            for key in (name, namespace, anything):
                reached = edges.get(key)
                if reached is not None:
                    onward.add(reached)
                    if reached.below is not None and element:
                        onward.add(reached.below)
    return tuple(onward)
