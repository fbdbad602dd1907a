"""Epochs in which other sites give no more numbers (L3)."""

from __future__ import annotations

from collections.abc import Iterable


class LeftEpochs:
    """For each connected site the counter up to which it numbers no more.

    A site between two sequencers follows one of them, and follows the other one when the first is
    lost. Numbers that the second one has given by then must not be below delivered ones. So nothing
    of an epoch is delivered before each site that may become the sequencer has left lower ones.
    """

    def __init__(self) -> None:
        self._left: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._asked_at: dict[str, float] = {}  # of sites that have not answered

    def add_site(self, site: str, counter: int) -> None:
        self._left[site] = self._asked[site] = counter

    def remove_site(self, site: str) -> None:
        for table in (self._left, self._asked, self._asked_at):
            table.pop(site, None)

    def add_left(self, sites: Iterable[str], counter: int) -> None:
        """Record that sites give no numbers up to this counter any more."""
        for site in sites:
            if site in self._left:
                self._left[site] = max(self._left[site], counter)
                if self._left[site] >= self._asked[site]:
                    self._asked_at.pop(site, None)

    def have_left(self, sites: Iterable[str], counter: int) -> bool:
        return all(self._left.get(site, 0) >= counter for site in sites)

    def ask_sites(self, sites: Iterable[str], counter: int, now: float) -> tuple[str, ...]:
        """Return those of the sites that must be asked, once for each counter."""
        asked = tuple(site for site in sites if max(self._left[site], self._asked[site]) < counter)
        for site in asked:
            self._asked[site] = counter
            self._asked_at.setdefault(site, now)
        return asked

    @property
    def waits_since(self) -> float | None:
        """The time of the first question without an answer."""
        return min(self._asked_at.values(), default=None)

    def take_overdue(self, now: float, patience: float) -> list[str]:
        """Return sites that have not answered within some seconds, once."""
        overdue = sorted(site for site, asked in self._asked_at.items() if asked + patience <= now)
        for site in overdue:
            del self._asked_at[site]
        return overdue
