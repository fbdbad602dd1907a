"""Turns on the reactor: who has much to do does it in pieces, and others come in between.

A turn is bounded by the clock, which is looked at between two pieces. So a piece has to be small
against a turn: how many documents are one is measured, publisher by publisher (`Pace`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.channel.clock import IClock

#: How long others may have to wait for what one session has to do.
SECONDS_A_TURN = 0.02
#: Documents are taken in portions that need about such a part of a turn.
_PORTIONS_A_TURN = 2
#: The first portion of a session, of whose documents nothing is known yet.
DOCUMENTS_AT_FIRST = 16
#: The largest one. The price of a call of `match` is shared by enough documents then; and more of
#: them could be cheap so far, and dear now.
MOST_DOCUMENTS = 512


class Turns:
    """Work that is done now, or where that takes long in turns that follow.

    `step` does the next piece, if there is one, and says whether there is more. What it raises goes
    to the caller in the first turn and to `failed` in a later one; nothing more is done then.
    """

    def __init__(
        self, clock: IClock, step: Callable[[], bool], failed: Callable[[Exception], object]
    ) -> None:
        self._clock = clock
        self._step = step
        self._failed = failed
        self._working = False
        """Now, or in a turn to come: whoever brings more meanwhile brings it behind that."""

    def work(self) -> None:
        """Do what there is to do, from now on."""
        if not self._working:
            self._working = True
            self._turn()

    def work_later(self) -> None:
        """Do what there is to do, from the next turn on."""
        if not self._working:
            self._working = True
            self._clock.callLater(0, self._later_turn)

    def _turn(self) -> None:
        clock = self._clock
        enough = clock.seconds() + SECONDS_A_TURN
        while self._step():
            if clock.seconds() >= enough:
                clock.callLater(0, self._later_turn)
                return
        self._working = False

    def _later_turn(self) -> None:
        try:
            self._turn()
        except Exception as error:
            self._failed(error)


class Pace:
    """How many documents of one publisher make a portion, by what the last ones took."""

    def __init__(self) -> None:
        self.documents = DOCUMENTS_AT_FIRST

    def took(self, documents: int, seconds: float) -> None:
        """So many were taken at one go, in so long: the next portion is at most twice as large."""
        if not documents:
            return
        most = min(2 * self.documents, MOST_DOCUMENTS)
        time = SECONDS_A_TURN / _PORTIONS_A_TURN
        if seconds > time:
            self.documents = max(1, min(int(documents * time / seconds), most))
        elif documents >= self.documents:
            fitting = int(documents * time / seconds) if seconds else most
            self.documents = max(1, min(fitting, most))
