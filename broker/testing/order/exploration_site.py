"""States of one site in an exploration, each with its steps."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable
from itertools import permutations
from typing import NamedTuple, TypeAlias

import attrs

from broker.transport.effects import Failed
from broker.transport.order import (
    Deliver,
    Instant,
    IOrderCore,
    IOrderVariant,
    Message,
    MessageId,
    OrderEffect,
    OrderSettings,
    Send,
    Suspect,
)
from broker.transport.order.effects import Packet
from broker.transport.view import LinkState

#: Sender and receiver, or site and peer.
Path: TypeAlias = tuple[str, str]


class Step(NamedTuple):
    name: str
    site: str = ""
    peer: str = ""
    #: Its number, of a received packet.
    packet: int = -1

    def __str__(self) -> str:
        return " ".join(filter(None, self[:3]))


class SiteState(NamedTuple):
    """The core is pickled. The local time stands still but for timeouts."""

    core: bytes
    now: float
    #: Seconds until the next timeout.
    wait: float | None
    unsent: int
    reserved: int
    #: Messages in the order of delivery, and whether they were late.
    delivered: tuple[tuple[MessageId, bool], ...]


@attrs.define
class Effects:
    """Results of a step of a site for others."""

    #: Receivers and packets.
    packets: list[tuple[str, int]] = attrs.field(factory=list)
    sent: list[MessageId] = attrs.field(factory=list)
    delivered: list[tuple[MessageId, bool]] = attrs.field(factory=list)
    suspected: list[str] = attrs.field(factory=list)
    error: str = ""


class Sites:
    """All states of the sites of a group, by number."""

    def __init__(self, variant: IOrderVariant, messages: dict[str, int]) -> None:
        self.states: list[SiteState] = []
        self.ids = [
            MessageId(site, 1, number + 1)
            for site, count in messages.items()
            for number in range(count)
        ]
        self._names = tuple(messages)
        self._packets: list[Packet] = []
        self._numbers: dict[object, int] = {}
        self._steps: dict[tuple[int, Step], tuple[int, Effects]] = {}
        self.start = self._connect(variant, messages)

    def perform(self, number: int, step: Step) -> tuple[int, Effects]:
        """Return the state after a step of a site, and the effects."""
        known = self._steps.get((number, step))
        if known is None:
            known = self._steps[number, step] = self._perform(self.states[number], step)
        return known

    def _perform(self, state: SiteState, step: Step) -> tuple[int, Effects]:
        core: IOrderCore = pickle.loads(state.core)
        at = Instant(state.now, 0)
        effects: Iterable[OrderEffect] = ()
        match step.name:
            case "stamp":
                core.stamp(1, at)
                state = state._replace(unsent=state.unsent - 1, reserved=state.reserved + 1)
            case "release":
                effects = core.release([b""], at)
                state = state._replace(reserved=state.reserved - 1)
            case "receive":
                effects = core.receive(step.peer, [self._packets[step.packet]], at)
            case "report":
                effects = core.disconnect(step.peer, LinkState.SUSPECTED, at)
            case "timeout":
                assert state.wait is not None
                at = at._replace(now=at.now + max(0.0, state.wait))
                effects = core.handle_timeout(at)
        collected = Effects()
        self._collect(core, step.site, effects, at, collected)
        state = state._replace(now=at.now, delivered=(*state.delivered, *collected.delivered))
        return self._store(state, step.site, core), collected

    def _collect(
        self,
        core: IOrderCore,
        site: str,
        effects: Iterable[OrderEffect],
        at: Instant,
        collected: Effects,
    ) -> None:
        for effect in effects:
            match effect:
                case Send(packets, sites):
                    receivers = self._names if sites is None else sites
                    collected.packets += [
                        (other, self._number(packet, packet))
                        for packet in packets
                        for other in receivers
                        if other != site
                    ]
                    collected.sent += [each.id for each in packets if isinstance(each, Message)]
                case Deliver(message, _, late):
                    collected.delivered.append((message.id, late is not None))
                case Suspect(peer, _):
                    collected.suspected.append(peer)
                    more = core.disconnect(peer, LinkState.SUSPECTED, at)
                    self._collect(core, site, more, at, collected)
                case Failed(error):
                    collected.error = str(error)

    def _store(self, state: SiteState, site: str, core: IOrderCore) -> int:
        due = core.next_timeout()
        wait = None if due is None else due - state.now
        contents = site, _freeze(core, state.now), state[3:]
        number = self._numbers.setdefault(contents, len(self.states))
        if number == len(self.states):
            self.states.append(state._replace(core=pickle.dumps(core), wait=wait))
        return number

    def _number(self, packet: Packet, contents: object) -> int:
        key = "packet", _freeze(contents, 0.0)
        number = self._numbers.setdefault(key, len(self._packets))
        if number == len(self._packets):
            self._packets.append(packet)
        return number

    def _connect(self, variant: IOrderVariant, messages: dict[str, int]) -> tuple[int, ...]:
        """Return the states of sites that are all connected, with nothing in transit."""
        cores = {site: variant.create_core(site, 1, OrderSettings()) for site in messages}
        now = dict.fromkeys(messages, 0.0)
        transit: deque[tuple[str, str, Packet]] = deque()

        def apply(site: str, effects: Iterable[OrderEffect]) -> None:
            for effect in effects:
                assert isinstance(effect, Send) and effect.sites is not None
                for other in effect.sites:
                    transit.extend((site, other, packet) for packet in effect.packets)

        for one, other in permutations(messages, 2):
            at = Instant(0.0, 0)
            answer = cores[other].answer_clock(one, cores[one].offer_clock(other, at), at)
            assert answer is not None
            apply(one, cores[one].connect(other, answer, at) or ())
        while True:
            while transit:
                sender, receiver, packet = transit.popleft()
                at = Instant(now[receiver], 0)
                apply(receiver, cores[receiver].receive(sender, [packet], at))
            waiting = [site for site, core in cores.items() if core.next_timeout() is not None]
            if not waiting:
                break
            for site in waiting:
                now[site] = max(now[site], cores[site].next_timeout() or 0.0)
                apply(site, cores[site].handle_timeout(Instant(now[site], 0)))
        return tuple(
            self._store(SiteState(b"", now[site], None, messages[site], 0, ()), site, core)
            for site, core in cores.items()
        )


#: Attributes that do not count for what happens later.
_IGNORED = frozenset(("_settings", "_arrivals", "duplicates", "refused", "__weakref__"))


def _freeze(value: object, now: float) -> object:
    """Return a hashable value, which is equal for equal states. Times count from `now` on."""
    match value:
        case float():
            return round(value - now, 3)
        case str() | bytes() | int() | None:
            return value
        case dict():
            return frozenset((_freeze(key, now), _freeze(each, now)) for key, each in value.items())
        case set() | frozenset():
            return frozenset(_freeze(each, now) for each in value)
        case tuple() | list() | deque():
            return tuple(_freeze(each, now) for each in value)
    names = getattr(value, "__slots__", None) or vars(value)
    fields = ((name, getattr(value, name)) for name in names if name not in _IGNORED)
    return type(value).__name__, tuple((name, _freeze(each, now)) for name, each in fields)
