"""What a node knows of the network: tables, and the map and the profiles that are in them.

A sans-I/O core. Effects are done in order, before the next call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from broker.cluster.address import NETWORK, Address, UnitPath, contexts, is_within, unit_text
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.interest.contributions import PROFILE, SUMMARY
from broker.cluster.interest.core import Profiles
from broker.cluster.interest.effects import BadWant, Destination, Flowing, Unwanted, Wanted
from broker.cluster.map.core import Map
from broker.cluster.map.own_links import OwnLinks, Publication
from broker.cluster.messages import Message
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import (
    Changed,
    Echoed,
    Namesake,
    Send,
    Synchronised,
    TablesEffect,
)
from broker.cluster.tables.table import TableKey, TableTimes
from broker.cluster.tables.waves import CutSource
from broker.cluster.types.announcement import TYPES, UNIT_TYPES
from broker.cluster.types.core import Announced, TypesEffect, TypeTables
from broker.dtd.reference import DtdReference
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import MAX_QUERIES
from broker.matching.query.query import Query


@attrs.frozen
class MapMoved:
    """Ways may be other than before, and so may be who is there."""


@attrs.frozen
class _Linking:
    """A link that is up, while what the other node knows is on its way here."""

    far: NodeDescriptor
    transport: str
    cost: int
    clearance: int
    until: float


@attrs.define
class _Lingering:
    """What an author wanted that is gone."""

    scope: UnitPath
    until: float
    entries: set[str]


KnowledgeEffect: TypeAlias = (
    Send | Wanted | Unwanted | Flowing | BadWant | MapMoved | Announced | Namesake
)

_TIMES = TableTimes()
#: Seconds for which the wants of an author that is gone still count: a leader that comes back, or
#: another one, says them again. What its unit wants must not seem to be nothing in between.
LINGER = 10.0
#: Seconds after which a link is used though the other node has not answered with all that it knows.
MOST_LINKING = 5.0
#: Seconds that a node is leader by the map before it speaks for its unit: one that has just begun
#: learns first what its neighbours know, lest it say that the unit wants nothing.
LEAD_AFTER = 1.0


class Knowledge:
    """One node's. Links are FIFO and lose nothing while they are up."""

    def __init__(
        self,
        node: NodeDescriptor,
        cut: CutSource,
        *,
        times: TableTimes = _TIMES,
        max_queries: int = MAX_QUERIES,
    ) -> None:
        self.address, self.node = node.address, node
        self.tables = Tables(node.address, node.incarnation, cut, times)
        self.map = Map(node.address)
        self.profiles = Profiles(self.tables, max_queries)
        self.types = TypeTables(self.tables)
        self._links = OwnLinks(node)
        self._linking: dict[str, _Linking] = {}
        self._led: dict[int, bool] = {}
        self._lead_at: dict[int, float] = {}
        """Units, by level, that this node is to speak for, and from when on."""
        self._present: set[TableKey] = set()
        """Tables of wants that others publish now."""
        self._lingering: dict[TableKey, _Lingering] = {}
        self._summaries: dict[str, set[str]] = {}
        """Units of which it is known what they want, and who tells it."""

    # ------------------------------------------------------------------ the node's calls

    def describe(self, node: NodeDescriptor, now: float) -> list[KnowledgeEffect]:
        """The node is what `node` says: at the start, and when that changes."""
        self.node = node
        return self._publish(self._links.describe(node), now)

    def link_up(
        self, far: NodeDescriptor, transport: str, cost: int, clearance: int, now: float
    ) -> list[KnowledgeEffect]:
        """A link to a node is up: what both know is exchanged. When all that the other one knows is
        known here, others are told of it, and events go that way: before, what is wanted there
        might be more than was known when they were sent."""
        self._linking[far.name] = _Linking(far, transport, cost, clearance, now + MOST_LINKING)
        return self._follow(self.tables.neighbour_up(far.name, far.address.unit, now), now)

    def link_down(self, name: str, now: float) -> list[KnowledgeEffect]:
        """The link to the node of this name is down."""
        self._linking.pop(name, None)
        effects = self._follow(self.tables.neighbour_down(name, now), now)
        return effects + self._publish(self._links.link_down(name), now)

    def received(self, neighbour: str, message: Message, now: float) -> list[KnowledgeEffect]:
        """A message of tables; raises `ProtocolError` for one that a neighbour must not send."""
        return self._follow(self.tables.received(neighbour, message, now), now)

    def want(
        self, key: Hashable, pattern: StreamPattern, query: Query, now: float
    ) -> list[KnowledgeEffect]:
        """Somebody here wants something, and the node matches for it already."""
        return self._done(self.profiles.want(key, pattern, query, now), now)

    def unwant(self, key: Hashable, now: float) -> list[KnowledgeEffect]:
        """Nobody has this key any more."""
        return self._done(self.profiles.unwant(key, now), now)

    def announce(
        self, texts: Mapping[DtdReference, str], origin: str, now: float
    ) -> list[KnowledgeEffect]:
        """The node's log uses these DTDs, by their content hashes."""
        return self._of_types(self.types.announce(texts, origin, now), now)

    def announce_others(
        self, texts: Mapping[DtdReference, Sequence[str]], now: float
    ) -> list[KnowledgeEffect]:
        """Other origins use these DTDs, by variant, instead of those that count."""
        return self._of_types(self.types.announce_others(texts, now), now)

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` must be called."""
        times = (
            *(each.until for each in self._linking.values()),
            self.tables.next_timeout(),
            self.profiles.next_timeout(),
            self.types.next_timeout(),
            *self._lead_at.values(),
            *(each.until for each in self._lingering.values()),
        )
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> list[KnowledgeEffect]:
        """Do what is due."""
        effects: list[KnowledgeEffect] = []
        due = self.tables.next_timeout()
        if due is not None and due <= now:
            effects += self._follow(self.tables.handle_timeout(now), now)
        due = self.profiles.next_timeout()
        if due is not None and due <= now:
            effects += self._done(self.profiles.handle_timeout(now), now)
        effects += self._of_types(self.types.handle_timeout(now), now)
        if any(each.until <= now for each in self._lingering.values()):
            effects += self._tell(self._gone(now), now)
        for name, linking in list(self._linking.items()):
            if linking.until <= now:
                effects += self._linked(name, now)
        units = list(contexts(self.address.unit))
        for level, at in list(self._lead_at.items()):
            if at <= now:
                del self._lead_at[level]
                effects += self._done(self.profiles.lead(units[level], True, now), now)
        return effects

    # ------------------------------------------------------------------ where events go

    def destinations(self) -> list[Address]:
        """Who may be sent events of this node: the others of its cluster, and far units.

        They can be reached, and it is known what they want.
        """
        own = self.address
        near = [Address(own.unit, name) for name in self.map.reachable() if name != own.node]
        far = [
            Address((*context, child), "")
            for context in contexts(own.unit)
            if context != own.unit
            for child in self.map.reachable_units(context)
            if child != own.unit[len(context)] and unit_text((*context, child)) in self._summaries
        ]
        return near + far

    def is_here(self, origin: str) -> bool:
        """Whether a node of the own cluster has the log with this origin, and can be reached."""
        node = self.map.node_of_origin(origin)
        return node is not None and node.node in self.map.reachable()

    def has_other_log(self, address: Address, origin: str) -> bool:
        """Whether the node at an address of the own cluster is known, and has another log."""
        node = self.map.members().get(address.node)
        return node is not None and node.address == address and node.origin != origin

    def inside(self, unit: tuple[str, ...]) -> list[Address]:
        """Whom events are divided among that enter `unit` here; this node is one of them."""
        return [
            self.address,
            *(each for each in self.destinations() if is_within(each.unit, unit)),
        ]

    def address_of(self, destination: Destination) -> Address:
        """A destination of wants as one of frames."""
        if isinstance(destination, str):
            return Address(self.address.unit, destination)
        return Address(destination, "")

    def towards(self, target: Address) -> Address:
        """The destination that `target` is part of: a node of the own cluster, or a far unit."""
        own = self.address.unit
        if target.unit == own:
            return target
        depth = 0
        while depth < min(len(own), len(target.unit)) and own[depth] == target.unit[depth]:
            depth += 1
        return Address(target.unit[: depth + 1], "")

    def next_hop(self, target: Address, rank: int) -> str | None:
        """The neighbour on the way to a node or a unit."""
        if target.node:
            return self.map.next_hop(target, rank)
        return self.map.next_hop_to_unit(target.unit, rank)

    # ------------------------------------------------------------------ inside

    def _publish(self, publications: Iterable[Publication], now: float) -> list[KnowledgeEffect]:
        effects: list[KnowledgeEffect] = []
        moved = False
        for each in publications:
            _, flooded = self.tables.publish(each.kind, each.subject, each.scope, each.changes, now)
            key = TableKey(each.kind, each.subject, self.address.node)
            moved |= self.map.take(key, each.scope, each.changes)
            effects += self._follow(flooded, now)
        return effects + self._moved(now) if moved else effects

    def _follow(self, effects: Iterable[TablesEffect], now: float) -> list[KnowledgeEffect]:
        told: list[TablesEffect] = []
        for effect in effects:
            if isinstance(effect, Changed) and effect.key.kind in (PROFILE, SUMMARY):
                if effect.gone:
                    self._present.discard(effect.key)
                    self._linger(effect, effect.changes, now)
                    continue
                self._present.add(effect.key)
                if effect.anew:
                    former = [key for key, value in effect.changes.items() if value is None]
                    if former:
                        self._linger(effect, former, now)
                    said = {key: v for key, v in effect.changes.items() if v is not None}
                    effect = attrs.evolve(effect, changes=said)
            told.append(effect)
        return self._tell(told, now)

    def _linger(self, effect: Changed, entries: Iterable[str], now: float) -> None:
        # Who is gone again soon has as long as before to come back.
        former = self._lingering.get(effect.key)
        kept = former.entries if former else set()
        lingering = _Lingering(effect.scope, now + LINGER, kept.union(entries))
        self._lingering[effect.key] = lingering

    def _gone(self, now: float) -> list[TablesEffect]:
        """What nobody has said again."""
        effects: list[TablesEffect] = []
        for key, lingering in list(self._lingering.items()):
            if lingering.until <= now:
                del self._lingering[key]
                present = key in self._present
                entries = lingering.entries - self.tables.get(key).keys()
                effects.append(
                    Changed(key, lingering.scope, dict.fromkeys(sorted(entries)), not present)
                )
        return effects

    def _tell(self, effects: Sequence[TablesEffect], now: float) -> list[KnowledgeEffect]:
        known = len(self._summaries)
        for effect in effects:
            if isinstance(effect, Changed) and effect.key.kind == SUMMARY:
                self._note_summary(effect)
        done = self._done(self.profiles.apply(effects, now), now)
        if len(self._summaries) != known:
            done.append(MapMoved())
        return done

    def _note_summary(self, effect: Changed) -> None:
        authors = self._summaries.setdefault(effect.key.subject, set())
        if effect.gone:
            authors.discard(effect.key.author)
        else:
            authors.add(effect.key.author)
        if not authors:
            del self._summaries[effect.key.subject]

    def _done(self, effects: Iterable[object], now: float) -> list[KnowledgeEffect]:
        done: list[KnowledgeEffect] = []
        moved = False
        for effect in effects:
            if isinstance(effect, Changed):
                moved |= self.map.take(effect.key, effect.scope, effect.changes, effect.gone)
                if effect.key.kind in (TYPES, UNIT_TYPES):
                    done += self._of_types(self.types.changed(effect, now), now)
            elif isinstance(effect, Synchronised):
                done += self._linked(effect.neighbour, now)
            elif isinstance(effect, Send | Wanted | Unwanted | Flowing | BadWant | Namesake):
                done.append(effect)
            else:
                assert isinstance(effect, Echoed)
        return done + self._moved(now) if moved else done

    def _of_types(self, effects: Iterable[TypesEffect], now: float) -> list[KnowledgeEffect]:
        done: list[KnowledgeEffect] = []
        for effect in effects:
            done += [effect] if isinstance(effect, Announced) else self._follow([effect], now)
        return done

    def _linked(self, name: str, now: float) -> list[KnowledgeEffect]:
        linking = self._linking.pop(name, None)
        if linking is None:
            return []
        told = self._links.link_up(linking.far, linking.transport, linking.cost, linking.clearance)
        return self._publish(told, now)

    def _moved(self, now: float) -> list[KnowledgeEffect]:
        effects: list[KnowledgeEffect] = [MapMoved()]
        led = self.map.led() - {NETWORK}
        effects += self._of_types(self.types.lead(led, now), now)
        for level, unit in enumerate(contexts(self.address.unit)):
            leads = self.map.leads(level)
            if self._led.get(level, False) is leads:
                continue
            self._led[level] = leads
            if leads:
                self._lead_at[level] = now + LEAD_AFTER
            else:
                self._lead_at.pop(level, None)
                effects += self._done(self.profiles.lead(unit, False, now), now)
        return effects
