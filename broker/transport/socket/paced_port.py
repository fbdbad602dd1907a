"""TCP ports that accept few connections at a time, and let more of them wait.

While the clients of a restarted node come back, Twisted accepts 100 and more in one turn of the
reactor, which takes 5 ms. It asks the system to hold 50: the rest try again after a second.
"""

from __future__ import annotations

from typing import Any, Final, cast

from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime
from twisted.internet.tcp import Port

#: Connections accepted in one turn of the reactor.
MAX_ACCEPTS: Final = 10
#: For other work after so many.
PAUSE_SECONDS: Final = 0.002
#: Least number of connections that may wait in the system (which has a bound of its own).
MIN_BACKLOG: Final = 1_024


class PacedPort(Port):
    """A port that pauses after `MAX_ACCEPTS` connections of one turn of the reactor."""

    @property
    def numberAccepts(self) -> int:
        """For the next turn. Twisted adjusts it to the last one's connections, without a bound."""
        return self._number_accepts

    @numberAccepts.setter
    def numberAccepts(self, number: int) -> None:
        self._number_accepts = min(number, MAX_ACCEPTS)

    def doRead(self) -> None:
        before = self.sessionno
        super().doRead()
        if self.sessionno - before >= MAX_ACCEPTS:
            self.stopReading()
            cast(IReactorTime, self.reactor).callLater(PAUSE_SECONDS, self._continue)

    def _continue(self) -> None:
        if self.connected and not self.disconnecting:
            self.startReading()


class PacedReactor:
    """A reactor for endpoints, whose TCP ports are `PacedPort`s."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(
        self, port: int, factory: IProtocolFactory, backlog: int = 50, interface: str = ""
    ) -> IListeningPort:
        most = max(backlog, MIN_BACKLOG)
        listening = PacedPort(port, factory, most, interface, self._reactor)
        listening.startListening()
        return listening
