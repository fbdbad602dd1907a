"""All interleavings of few messages and lost links, for variants that need no site clock.

A step changes one site. So the steps of each site are computed once for each state of the site,
and states of the group are combinations of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple, TypeAlias

from broker.testing.order.exploration_site import Path, Sites, Step
from broker.transport.order import IOrderVariant, MessageId

#: Of one site, with its messages in the order of delivery.
_SiteState: TypeAlias = int


class Broken(AssertionError):
    """A property does not hold."""


class State(NamedTuple):
    """Cores, packets and messages are numbers: see `Sites`."""

    sites: tuple[_SiteState, ...]
    #: Packets in transit.
    transit: tuple[tuple[int, ...], ...]
    is_lost: bool
    #: Ends that do not report yet that their peer is suspected.
    unreported: frozenset[Path]
    #: Pairs of which one end has reported it, both directions.
    apart: frozenset[Path]
    #: For each sent message, `apart` at that time.
    sent: frozenset[tuple[MessageId, frozenset[Path]]]


class Exploration:
    """A group of connected sites, and all that can happen to it until nothing more happens.

    `lost` are pairs whose links are lost at one time. What is in transit on them does not arrive.
    Timeouts come when nothing else can happen, or, if they are at most `patience` away, at any
    time.
    """

    def __init__(
        self,
        variant: IOrderVariant,
        messages: dict[str, int],
        lost: Sequence[str] = (),
        patience: float = 0.0,
    ) -> None:
        self._needs_transitive = variant.name == "sequencer"
        self._patience = patience
        self._names = tuple(messages)
        self._paths = tuple(permutations(self._names, 2))
        ends = [(pair[0], pair[1]) for pair in lost]
        self._lost = frozenset(ends) | {(other, one) for one, other in ends}
        self._sites = Sites(variant, messages)

    def explore(self, most: int = 10_000_000) -> int:
        """Return the number of states. Raises `Broken` with the steps to a violation."""
        nothing: frozenset[Path] = frozenset()
        empty = ((),) * len(self._paths)
        start = State(self._sites.start, empty, False, nothing, nothing, frozenset())
        origins: dict[int, tuple[int, Step] | None] = {hash(start): None}
        stack = [start]
        while stack:
            state = stack.pop()
            steps = list(self._steps(state))
            step = Step("end")
            try:
                for step in steps:
                    after = self._perform(state, step)
                    key = hash(after)
                    if key not in origins:
                        origins[key] = hash(state), step
                        stack.append(after)
                if not steps:
                    self._check_end(state)
            except Broken as error:
                trace = "\n".join(map(str, [*_trace(origins, hash(state)), step]))
                raise Broken(f"{error}:\n{trace}") from None
            if len(origins) > most:
                raise RuntimeError(f"more than {most} states")
        return len(origins)

    # ----------------------------------------------------------------- of steps

    def _steps(self, state: State) -> Iterator[Step]:
        steps: list[Step] = []
        for name, number in zip(self._names, state.sites, strict=True):
            site = self._sites.states[number]
            if site.unsent:
                steps.append(Step("stamp", name))
            if site.reserved:
                steps.append(Step("release", name))
        for (sender, receiver), packets in zip(self._paths, state.transit, strict=True):
            if packets and not (state.is_lost and (sender, receiver) in self._lost):
                steps.append(Step("receive", receiver, sender, packets[0]))
        if self._lost and not state.is_lost:
            steps.append(Step("lose"))
        steps += [Step("report", *path) for path in sorted(state.unreported)]
        yield from steps
        waits = [
            (site.wait, name)
            for name, number in zip(self._names, state.sites, strict=True)
            if (site := self._sites.states[number]).wait is not None
        ]
        for index, (wait, name) in enumerate(sorted(waits)):
            if wait <= self._patience or not (index or steps):
                yield Step("timeout", name)

    def _perform(self, state: State, step: Step) -> State:
        if step.name == "lose":
            unreported = state.unreported | self._lost - state.apart
            return state._replace(is_lost=True, unreported=unreported)
        place = self._names.index(step.site)
        after, effects = self._sites.perform(state.sites[place], step)
        transit = list(state.transit)
        if step.name == "receive":
            path = self._paths.index((step.peer, step.site))
            transit[path] = transit[path][1:]
        state = state._replace(sites=(*state.sites[:place], after, *state.sites[place + 1 :]))
        if step.name == "report":
            state = _set_apart(state, step.site, step.peer)
        for receiver, packet in effects.packets:
            transit[self._paths.index((step.site, receiver))] += (packet,)
        if effects.sent and self._needs_transitive:
            state = state._replace(sent=state.sent | {(id, state.apart) for id in effects.sent})
        # A site is suspected before the messages that come after it are delivered.
        for peer in effects.suspected:
            if (step.site, peer) not in self._lost:
                raise Broken(f"{step.site} suspects {peer}, and the link is good")
            state = _set_apart(state, step.site, peer)
        if effects.error:
            raise Broken(f"{step.site} refused a packet: {effects.error}")
        if effects.delivered:
            self._check_deliveries(state, step.site, len(effects.delivered))
        return state._replace(transit=tuple(transit))

    # ----------------------------------------------------------------- of properties

    def _check_deliveries(self, state: State, name: str, count: int) -> None:
        """Check the last deliveries of a site."""
        deliveries = {
            each: self._sites.states[number].delivered
            for each, number in zip(self._names, state.sites, strict=True)
        }
        own = deliveries[name]
        for place in range(len(own) - count, len(own)):
            id, is_late = own[place]
            before = [other for other, _ in own[:place]]
            if id in before:
                raise Broken(f"{name} got {id} twice")
            if is_late and self._is_promised(state, {name, id.site}, id):
                raise Broken(f"{name} got {id} late")
            for peer, others in deliveries.items():
                theirs = [other for other, _ in others]
                after = theirs[theirs.index(id) + 1 :] if id in theirs and peer != name else ()
                for other in set(after).intersection(before):
                    sites = {name, peer, id.site, other.site}
                    if self._is_promised(state, sites, id, other):
                        raise Broken(f"{name} got {id} after {other}, and {peer} before it")

    def _is_promised(self, state: State, sites: set[str], *ids: MessageId) -> bool:
        """Return True if the sites have been connected from the first sending on."""
        if any(pair in state.apart for pair in permutations(sites, 2)):
            return False
        if not self._needs_transitive:
            return True
        sent = dict(state.sent)
        return self._is_transitive(state.apart) and all(sent[id] == state.apart for id in ids)

    def _is_transitive(self, apart: frozenset[Path]) -> bool:
        return all(
            (one, other) not in apart
            for one, middle, other in permutations(self._names, 3)
            if (one, middle) not in apart and (middle, other) not in apart
        )

    def _check_end(self, state: State) -> None:
        for name, number in zip(self._names, state.sites, strict=True):
            got = {id for id, _ in self._sites.states[number].delivered}
            for id in self._sites.ids:
                if id not in got and (id.site, name) not in self._lost:
                    raise Broken(f"{name} never delivers {id}")


def _set_apart(state: State, site: str, peer: str) -> State:
    unreported = state.unreported - {(site, peer)}
    if (site, peer) not in state.apart:
        # The other end suspects too.
        unreported |= {(peer, site)}
    apart = state.apart | {(site, peer), (peer, site)}
    return state._replace(unreported=unreported, apart=apart)


def _trace(origins: dict[int, tuple[int, Step] | None], key: int) -> list[Step]:
    steps: list[Step] = []
    while (origin := origins[key]) is not None:
        key, step = origin
        steps.append(step)
    return steps[::-1]
