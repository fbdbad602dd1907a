"""Nondeterministic automaton of all patterns with shared prefixes (YFilter, F2).

It runs once for each label path. Reached states are cached, so a label path costs one step (F3).
"""

from __future__ import annotations

import attrs

from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.pattern import DocumentRole, LabelKind, Pattern

#: Cached references to states, 8 bytes each; beyond them the cache is cleared.
MAX_CACHED_STATES = 1_000_000


@attrs.define(eq=False)
class State:
    """State of the automaton; `descendant_state` is the looping state behind a `//` from here."""

    parent: tuple[State, str | None] | None
    is_loop: bool = attrs.field(default=False, kw_only=True)
    edges: dict[str, State] = attrs.field(factory=dict)
    descendant_state: State | None = None
    entry: PatternEntry | None = None


class PatternEntry:
    """A pattern in use.

    `rows` maps each index row that requires it to the column (see `index.py`).
    """

    __slots__ = ("key", "pattern", "rows", "state")

    def __init__(self, pattern: Pattern, state: State) -> None:
        self.pattern = pattern
        self.state = state
        self.key = pattern.steps[-1].key
        self.rows: dict[int, int] = {}


class Automaton:
    def __init__(self, max_remembered: int = MAX_CACHED_STATES) -> None:
        self._start_states = {document: State(None) for document in DocumentRole}
        self._entries: dict[Pattern, PatternEntry] = {}
        self._states_by_path: dict[LabelPath, tuple[State, ...]] = {}
        self._cached_states = 0
        self._max_cached_states = max_remembered
        self._has_new_states = False
        self.state_count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add_pattern(self, pattern: Pattern) -> PatternEntry:
        entry = self._entries.get(pattern)
        if entry is None:
            state = self._start_states[pattern.document]
            for step in pattern.steps:
                if step.descendant:
                    if state.descendant_state is None:
                        state.descendant_state = self._new_state((state, None), is_loop=True)
                    state = state.descendant_state
                onward = state.edges.get(step.key)
                if onward is None:
                    onward = state.edges[step.key] = self._new_state((state, step.key))
                state = onward
            entry = self._entries[pattern] = state.entry = PatternEntry(pattern, state)
        return entry

    def remove_pattern(self, entry: PatternEntry) -> None:
        del self._entries[entry.pattern]
        state = entry.state
        state.entry = None
        while state.parent and not (state.edges or state.descendant_state or state.entry):
            parent, key = state.parent
            if key is None:
                parent.descendant_state = None
            else:
                del parent.edges[key]
            self.state_count -= 1
            state = parent

    def find_accepted(self, path: LabelPath) -> list[PatternEntry]:
        if self._has_new_states or self._cached_states > self._max_cached_states:
            self._states_by_path.clear()
            self._cached_states = 0
            self._has_new_states = False
        return [state.entry for state in self._states_after(path) if state.entry is not None]

    def _states_after(self, path: LabelPath) -> tuple[State, ...]:
        ways = []
        here = path
        known = self._states_by_path.get(here)
        while known is None and here.parent is not None:
            ways.append(here)
            here = here.parent
            known = self._states_by_path.get(here)
        if known is None:
            start = self._start_states[here.document]
            known = (start,) if start.descendant_state is None else (start, start.descendant_state)
        for way in reversed(ways):
            known = _advance_states(known, way)
            if way.is_interned and way.kind is LabelKind.ELEMENT:
                self._states_by_path[way] = known
                self._cached_states += len(known)
        return known

    def _new_state(self, parent: tuple[State, str | None], *, is_loop: bool = False) -> State:
        self.state_count += 1
        self._has_new_states = True
        return State(parent, is_loop=is_loop)


def _advance_states(states: tuple[State, ...], path: LabelPath) -> tuple[State, ...]:
    onward: set[State] = set()
    element = path.kind is LabelKind.ELEMENT
    name, namespace, anything = path.keys
    for state in states:
        if state.is_loop and element:
            onward.add(state)
        edges = state.edges
        if edges:
            for key in (name, namespace, anything):
                reached = edges.get(key)
                if reached is not None:
                    onward.add(reached)
                    if reached.descendant_state is not None and element:
                        onward.add(reached.descendant_state)
    return tuple(onward)
