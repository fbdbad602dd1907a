"""Waves: proof for an author that all reachable nodes have its tables (PIF, propagation of
information with feedback).

`docs/protocols/tables.md` has the states. The first probes form a tree, and the answers carry the
cuts up the tree. `whole` means: all nodes that were connected to the author throughout, by any
route, have the version.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

import attrs

from broker.cluster.messages import Probe, Proof
from broker.cluster.tables.effects import Send
from broker.cluster.tables.table import Cuts, GroupKey, TableTimes

#: Later ones are combined.
MAX_OWN_WAVES = 4
#: Over the first, an author's oldest wave is given up; over the second, a new wave is not whole.
_MAX_OF_AUTHOR = 2 * MAX_OWN_WAVES
_MAX_WAVES = 4096
#: Older waves are answered as not whole.
_MAX_KNOWN = 32

WaveKey = tuple[GroupKey, int, int]
CutSource = Callable[[], Iterable[tuple[str, int, int]]]
"""Returns the newest place of each own flow."""


@attrs.define(eq=False)
class Wave:
    key: WaveKey
    number: int
    started_at: float
    parent: str | None
    """None at the author."""
    awaited: set[str]
    cuts: Cuts = attrs.field(factory=dict)
    is_whole: bool = True
    is_installed: bool = False
    """This node has the version, and its cut is in `cuts`."""


@attrs.frozen
class WaveEnded:
    wave: Wave


WaveEffect = Send | WaveEnded


class Waves:
    """All waves that a node takes part in.

    The cut is never read while tables change: only in `start_wave`, `receive_probe` and
    `handle_timeout`.
    """

    def __init__(
        self, cut: CutSource, has: Callable[[GroupKey, int, int], bool], times: TableTimes
    ) -> None:
        self._cut, self._has_version, self._times = cut, has, times
        self._running: dict[WaveKey, Wave] = {}
        self._known: OrderedDict[GroupKey, deque[tuple[int, int]]] = OrderedDict()
        self._may_install = False
        self._next_wave = 0

    def __len__(self) -> int:
        return len(self._running)

    def start_wave(
        self, key: GroupKey, version: tuple[int, int], neighbours: Iterable[str], now: float
    ) -> list[WaveEffect]:
        self._next_wave += 1
        wave = Wave((key, version[0], self._next_wave), version[1], now, None, set(neighbours))
        self._record(wave.key)
        self._add_own_cut(wave)
        self._running[wave.key] = wave
        return [*self._probes(wave), *self._answer_if_done(wave)]

    def own_count(self, key: GroupKey) -> int:
        return sum(1 for wave in self._running.values() if wave.key[0] == key)

    def cancel_own(self, key: GroupKey) -> None:
        for wave in self._waves_of(key):
            del self._running[wave.key]

    def receive_probe(
        self, neighbour: str, probe: Probe, others: Iterable[str], now: float
    ) -> list[WaveEffect]:
        """Handle a probe; `others` are the other neighbours in its scope."""
        key = (GroupKey(probe.author, probe.scope), probe.incarnation, probe.wave)
        known = self._known.get(key[0], ())
        if key[1:] in known:
            return [_make_proof(neighbour, key, whole=True)]
        if (known and key[1:] < min(known)) or len(self._running) >= _MAX_WAVES:
            return [_make_proof(neighbour, key, whole=False)]
        effects: list[WaveEffect] = []
        if len(older := list(self._waves_of(key[0]))) >= _MAX_OF_AUTHOR:
            effects += self._give_up(older[0])
        wave = Wave(key, probe.number, now, neighbour, set(others))
        self._record(key)
        self._running[key] = wave
        effects += self._probes(wave)
        if self._has_version(key[0], key[1], wave.number):
            self._add_own_cut(wave)
        return effects + self._answer_if_done(wave)

    def receive_proof(self, neighbour: str, proof: Proof) -> list[WaveEffect]:
        key = (GroupKey(proof.author, proof.scope), proof.incarnation, proof.wave)
        wave = self._running.get(key)
        if wave is None or neighbour not in wave.awaited:
            return []
        wave.awaited.discard(neighbour)
        wave.is_whole = wave.is_whole and proof.is_complete
        for origin, epoch, offset in proof.cuts:
            _raise_cut(wave.cuts, origin, (epoch, offset))
        return self._answer_if_done(wave)

    def remove_neighbour(self, neighbour: str) -> list[WaveEffect]:
        """End a link; the subtrees behind it are unknown."""
        effects: list[WaveEffect] = []
        for wave in list(self._running.values()):
            if wave.parent == neighbour:
                del self._running[wave.key]
            elif neighbour in wave.awaited:
                wave.awaited.discard(neighbour)
                wave.is_whole = False
                effects += self._answer_if_done(wave)
        return effects

    def tables_updated(self, key: GroupKey) -> None:
        """Check the waves for these tables at the next timeout."""
        self._may_install = self._may_install or any(
            not w.is_installed for w in self._waves_of(key)
        )

    def next_timeout(self) -> float | None:
        """0 if a wave's tables may have arrived."""
        if self._may_install:
            return 0.0
        oldest = next(iter(self._running.values()), None)
        return None if oldest is None else oldest.started_at + self._times.wave

    def handle_timeout(self, now: float) -> list[WaveEffect]:
        effects: list[WaveEffect] = []
        self._may_install = False
        for wave in list(self._running.values()):
            if wave.started_at + self._times.wave <= now:
                effects += self._give_up(wave)
            elif not wave.is_installed and self._has_version(wave.key[0], wave.key[1], wave.number):
                self._add_own_cut(wave)
                effects += self._answer_if_done(wave)
        return effects

    def _waves_of(self, key: GroupKey) -> list[Wave]:
        return [wave for wave in self._running.values() if wave.key[0] == key]

    def _record(self, key: WaveKey) -> None:
        known = self._known.setdefault(key[0], deque(maxlen=_MAX_KNOWN))
        known.append(key[1:])
        self._known.move_to_end(key[0])
        if len(self._known) > _MAX_WAVES:
            self._known.popitem(last=False)

    def _add_own_cut(self, wave: Wave) -> None:
        wave.is_installed = True
        for origin, epoch, offset in self._cut():
            _raise_cut(wave.cuts, origin, (epoch, offset))

    def _probes(self, wave: Wave) -> Iterator[Send]:
        (author, scope), incarnation, number = wave.key
        probe = Probe(author, scope, incarnation, wave.number, number)
        for neighbour in sorted(wave.awaited):
            yield Send(neighbour, probe)

    def _give_up(self, wave: Wave) -> list[WaveEffect]:
        wave.is_whole = False
        return self._answer(wave)

    def _answer_if_done(self, wave: Wave) -> list[WaveEffect]:
        return self._answer(wave) if wave.is_installed and not wave.awaited else []

    def _answer(self, wave: Wave) -> list[WaveEffect]:
        del self._running[wave.key]
        if wave.parent is None:
            return [WaveEnded(wave)]
        return [_make_proof(wave.parent, wave.key, whole=wave.is_whole, cuts=wave.cuts)]


def _make_proof(neighbour: str, key: WaveKey, *, whole: bool, cuts: Cuts | None = None) -> Send:
    (author, scope), incarnation, wave = key
    marks = tuple((origin, *mark) for origin, mark in sorted((cuts or {}).items()))
    return Send(neighbour, Proof(author, scope, incarnation, wave, whole, marks))


def _raise_cut(cuts: Cuts, origin: str, mark: tuple[int, int]) -> None:
    if cuts.get(origin, (0, 0)) <= mark:
        cuts[origin] = mark
