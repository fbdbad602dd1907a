"""Two monitors with one connection in virtual time, each direction of which can be held."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from zope.interface import implementer

from broker.transport.effects import DeliverUp, Effect, Failed, SendDown, ViewChanged
from broker.transport.monitor import ILinkOwner, MonitorSettings
from broker.transport.monitor.core import MonitorCore
from broker.transport.view import LinkState, View

UP = View(LinkState.CONNECTED)
DOWN = View(LinkState.DISCONNECTED)
LATENCY = 0.01
STEP = 0.005


@implementer(ILinkOwner)
class Owner:
    """Owner with a clock of any offset, that can delay its answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock_offset = 0.0
        self.answers = self.accepts = True
        self.error: Exception | None = None
        self.calls: list[str] = []

    def read_site_clock(self, now: float) -> int:
        return round((now + self.clock_offset) * 1e6)

    def make_offer(self, now: float) -> bytes:
        self.calls.append("offer")
        return self.name.encode()

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        if self.error is not None:
            raise self.error
        self.calls.append(f"answer {offer.decode()}")
        return offer + self.name.encode() if self.answers else None

    def accept_answer(self, answer: bytes, now: float) -> bool:
        self.calls.append(f"accept {answer.decode()}")
        return self.accepts


class End:
    """One monitor, and what it has reported."""

    def __init__(self, name: str, settings: MonitorSettings, owner: Owner | None) -> None:
        self.core = MonitorCore(1, settings, owner)
        self.name = name
        self.views: list[tuple[float, View]] = []
        self.delivered: list[bytes] = []
        self.errors: list[Exception] = []
        self.sends_at: list[float] = []
        self.is_attached = False
        # Packets on the way to this end, with the time of their arrival.
        self.inbox: list[tuple[float, bytes]] = []
        self.free_at = 0.0
        self.is_held = False
        """True while nothing reaches this end."""

    @property
    def reported(self) -> list[tuple[float, View]]:
        """Times and views without the notices of connections."""
        return [each for each in self.views if not each[1].is_new_connection]

    @property
    def states(self) -> list[str]:
        """Return the states without repeated ones, which have another reason."""
        return [state for state, _ in groupby(view.state.value for _, view in self.reported)]

    @property
    def last(self) -> View:
        return self.views[-1][1]

    def time_of(self, state: LinkState) -> float:
        """Return the time of the last view with a state."""
        return next(time for time, view in reversed(self.views) if view.state is state)


class CorePair:
    def __init__(
        self,
        *settings: MonitorSettings,
        owners: tuple[Owner | None, Owner | None] = (None, None),
    ) -> None:
        self.now = 0.0
        both = settings * 2 if len(settings) == 1 else settings or (MonitorSettings(),) * 2
        self.one, self.other = (
            End(name, each, owner) for name, each, owner in zip("ab", both, owners, strict=True)
        )
        self.ends = (self.one, self.other)
        self.latency = LATENCY
        self.spacing = 0.0
        """Time of one packet on a slow link."""

    def connect(self) -> None:
        for end in self.ends:
            end.is_attached = True
            end.inbox.clear()
            end.free_at = 0.0
        for end in self.ends:
            self._apply(end, end.core.view_changed(UP, self.now))

    def disconnect(self, *ends: End, error: Exception | None = None) -> None:
        for end in ends or self.ends:
            if end.is_attached:
                end.is_attached = False
                view = View(LinkState.DISCONNECTED, error=error)  # type: ignore[arg-type]
                self._apply(end, end.core.view_changed(view, self.now))

    def send(self, end: End, *packets: bytes) -> None:
        self._apply(end, end.core.submit(packets, self.now))

    def suspect(self, end: End, reason: str) -> None:
        self._apply(end, end.core.suspect(reason, self.now))

    def hold(self, *ends: End) -> None:
        """Let nothing reach some ends, or both."""
        for end in ends or self.ends:
            end.is_held = True

    def heal(self) -> None:
        """Let what has waited arrive, too."""
        for end in self.ends:
            end.is_held = False

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until - STEP / 2:
            self.now = round(self.now + STEP, 6)
            for end in self.ends:
                due = [packet for time, packet in end.inbox if time <= self.now]
                if due and not end.is_held and end.is_attached:
                    end.inbox = [each for each in end.inbox if each[0] > self.now]
                    self._apply(end, end.core.receive(due, self.now))
                time = end.core.next_timeout()
                if time is not None and time <= self.now:
                    self._apply(end, end.core.handle_timeout(self.now))
                    after = end.core.next_timeout()
                    assert after is None or after > self.now

    def _apply(self, end: End, effects: Sequence[Effect]) -> None:
        peer = self.other if end is self.one else self.one
        for effect in effects:
            match effect:
                case SendDown(packets):
                    end.sends_at.append(self.now)
                    if end.is_attached and peer.is_attached:
                        for each in packets:
                            peer.free_at = max(peer.free_at, self.now + self.latency) + self.spacing
                            peer.inbox.append((peer.free_at, each))
                case ViewChanged(view):
                    end.views.append((self.now, view))
                case DeliverUp(messages):
                    end.delivered += messages
                case Failed(error):
                    end.errors.append(error)
                    self.disconnect(end, error=error)
