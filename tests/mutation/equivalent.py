"""Mutants that survive for a stated reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

_LIST = Path(__file__).with_name("equivalent.txt")


@attrs.frozen
class Equivalents:
    """The list: a line with `#` and a reason, then a line for each mutant."""

    _listed: frozenset[tuple[str, str]]

    @classmethod
    def read(cls) -> Equivalents:
        return cls(frozenset(_entries(_LIST.read_text())))

    def has(self, path: str, key: str) -> bool:
        return (path, key) in self._listed

    @property
    def paths(self) -> frozenset[str]:
        """Modules of the listed mutants."""
        return frozenset(path for path, _ in self._listed)

    def unknown(self, path: str, keys: Iterable[str]) -> list[str]:
        """Return the listed mutants of a module that do not exist."""
        return sorted({key for listed, key in self._listed if listed == path} - {*keys})


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            path, _, key = line.strip().partition(" ")
            yield path, key
