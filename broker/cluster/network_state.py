"""State of the network as one node sees it: tables, with the map and the interest in them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs

from broker.cluster.address import NETWORK, Address, enclosing_units, is_within, unit_text
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.interest.contributions import PROFILE, SUMMARY
from broker.cluster.interest.core import InterestExchange
from broker.cluster.interest.effects import (
    BadInterest,
    Destination,
    InterestActive,
    InterestAdded,
    InterestRemoved,
    QueuePoliciesChanged,
)
from broker.cluster.interest.expiring_interest import ExpiringInterest
from broker.cluster.map.core import NetworkMap
from broker.cluster.map.name_bindings import NameBindings
from broker.cluster.map.own_links import OwnLinks, Publication
from broker.cluster.messages import Message
from broker.cluster.stack_tables import OwnStack, StackTables
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import (
    NameConflict,
    NeighbourSynchronised,
    Send,
    TableChanged,
    TableEchoed,
    TablesEffect,
)
from broker.cluster.tables.table import TableKey, TableTimes
from broker.cluster.tables.waves import CutSource
from broker.cluster.types.announcement import TYPES, UNIT_TYPES
from broker.cluster.types.core import TypeAnnounced, TypesEffect, TypeTables
from broker.dtd.reference import DtdReference
from broker.event.flow import origin_of
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import MAX_QUERIES
from broker.matching.query.query import Query
from broker.order_certificates.signing_key import SigningKey
from broker.streams.queue_policy import IQueuePolicy


@attrs.frozen
class MapChanged: ...


@attrs.frozen
class _PendingLink:
    """A link that is up, before the other node's tables have arrived."""

    far: NodeDescriptor
    transport: str
    cost: int
    clearance: int
    until: float


NetworkStateEffect: TypeAlias = (
    Send
    | InterestAdded
    | InterestRemoved
    | QueuePoliciesChanged
    | InterestActive
    | BadInterest
    | MapChanged
    | TypeAnnounced
    | NameConflict
)

_TIMES = TableTimes()
#: Seconds; then a link is used even without all tables of the other node.
SYNC_TIMEOUT = 5.0
#: Seconds; a node that has just started would announce an empty interest of its unit.
LEAD_DELAY = 1.0


class NetworkState:
    """The network as one node sees it: tables, with the map and the interest in them.

    Links are FIFO and lossless while they are up. The caller applies all effects in order before
    the next call.
    """

    def __init__(
        self,
        node: NodeDescriptor,
        cut: CutSource,
        *,
        times: TableTimes = _TIMES,
        max_queries: int = MAX_QUERIES,
        stacks: Mapping[str, OwnStack] = MappingProxyType({}),
        key: SigningKey | None = None,
        bindings: NameBindings | None = None,
    ) -> None:
        """`stacks` names the transport of each pattern that the default one does not carry. `key`
        signs the node's descriptor, and `bindings` checks those of others."""
        self.address, self.node = node.address, node
        self.tables = Tables(node.address, node.incarnation, cut, times)
        self._bindings = bindings or NameBindings()
        self.map = NetworkMap(node.address, self._bindings)
        self.profiles = InterestExchange(self.tables, max_queries)
        self.types = TypeTables(self.tables)
        self.stacks = StackTables(self.tables, stacks)
        self._links = OwnLinks(node, key)
        self._pending_links: dict[str, _PendingLink] = {}
        self._led: dict[int, bool] = {}
        self._lead_at: dict[int, float] = {}
        self._present: set[TableKey] = set()
        self._expiring = ExpiringInterest(self.tables)
        self._summary_authors: dict[str, set[str]] = {}

    def publish_descriptor(self, node: NodeDescriptor, now: float) -> list[NetworkStateEffect]:
        self.node = node
        publications = [*self._links.set_node(node), *self.stacks.publications()]
        return self._publish(publications, now)

    def request_feed(self, patterns: Collection[str], now: float) -> list[NetworkStateEffect]:
        """Ask the origins of flows of these patterns for their events in frames."""
        return self._publish([self.stacks.feed_request(patterns)] if patterns else [], now)

    def publish_in_cluster(
        self, kind: str, changes: Mapping[str, Any], now: float
    ) -> list[NetworkStateEffect]:
        """Change a table about this node, which the members of its cluster get."""
        own = self.address
        return self._publish([Publication(kind, own.node, own.unit, changes)] * bool(changes), now)

    def bind_certified(self, name: str, origin: str, now: float) -> list[NetworkStateEffect]:
        """Bind a node's name to the key of its log: its certificate proves both."""
        if not self._bindings.bind_certified(name, origin):
            return []
        self.map.check_name(name)
        return self._map_changed(now)

    def link_up(
        self, far: NodeDescriptor, transport: str, cost: int, clearance: int, now: float
    ) -> list[NetworkStateEffect]:
        """Exchange tables over a new link.

        Events use it when all tables of the other node are known: its interest may be incomplete.
        """
        self._pending_links[far.name] = _PendingLink(
            far, transport, cost, clearance, now + SYNC_TIMEOUT
        )
        return self._apply_table_effects(
            self.tables.add_neighbour(far.name, far.address.unit, now), now
        )

    def link_down(self, name: str, now: float) -> list[NetworkStateEffect]:
        self._pending_links.pop(name, None)
        effects = self._apply_table_effects(self.tables.remove_neighbour(name, now), now)
        return effects + self._publish(self._links.remove_link(name), now)

    def receive_message(
        self, neighbour: str, message: Message, now: float
    ) -> list[NetworkStateEffect]:
        """Raises `ProtocolError` for a forbidden message."""
        return self._apply_table_effects(self.tables.receive_message(neighbour, message, now), now)

    def announce_interest(
        self, key: Hashable, pattern: StreamPattern, query: Query, now: float
    ) -> list[NetworkStateEffect]:
        """The node must match for this interest already."""
        return self._apply_effects(self.profiles.add_interest(key, pattern, query, now), now)

    def set_interest_policy(
        self, key: Hashable, policy: IQueuePolicy, now: float
    ) -> list[NetworkStateEffect]:
        return self._apply_effects(self.profiles.set_policy(key, policy, now), now)

    def withdraw_interest(self, key: Hashable, now: float) -> list[NetworkStateEffect]:
        return self._apply_effects(self.profiles.remove_interest(key, now), now)

    def announce_types(
        self, texts: Mapping[DtdReference, str], origin: str, now: float
    ) -> list[NetworkStateEffect]:
        """Announce own DTDs, by content hash."""
        return self._apply_type_effects(self.types.announce(texts, origin, now), now)

    def announce_variants(
        self, texts: Mapping[DtdReference, Sequence[str]], now: float
    ) -> list[NetworkStateEffect]:
        """Announce variants that other origins use instead of the DTDs in force."""
        return self._apply_type_effects(self.types.announce_others(texts, now), now)

    def next_timeout(self) -> float | None:
        times = (
            *(each.until for each in self._pending_links.values()),
            self.tables.next_timeout(),
            self.profiles.next_timeout(),
            self.types.next_timeout(),
            *self._lead_at.values(),
            self._expiring.next_timeout(),
        )
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> list[NetworkStateEffect]:
        effects: list[NetworkStateEffect] = []
        due = self.tables.next_timeout()
        if due is not None and due <= now:
            effects += self._apply_table_effects(self.tables.handle_timeout(now), now)
        due = self.profiles.next_timeout()
        if due is not None and due <= now:
            effects += self._apply_effects(self.profiles.handle_timeout(now), now)
        effects += self._apply_type_effects(self.types.handle_timeout(now), now)
        if expired := self._expiring.handle_timeout(now, self._present):
            effects += self._apply_to_interest(expired, now)
        for name, link in list(self._pending_links.items()):
            if link.until <= now:
                effects += self._publish_link(name, now)
        units = list(enclosing_units(self.address.unit))
        for level, at in list(self._lead_at.items()):
            if at <= now:
                del self._lead_at[level]
                effects += self._apply_effects(
                    self.profiles.set_leadership(units[level], True, now), now
                )
        return effects

    def destinations(self) -> list[Address]:
        """Return the reachable other members, and reachable far units with a known interest, or
        perhaps with that of another transport."""
        own = self.address
        near = [Address(own.unit, name) for name in self.map.reachable() if name != own.node]
        far = [
            Address((*context, child), "")
            for context in enclosing_units(own.unit)
            if context != own.unit
            for child in self.map.reachable_units(context)
            if child != own.unit[len(context)]
            and (self.stacks.has_own or unit_text((*context, child)) in self._summary_authors)
        ]
        return near + far

    def is_origin_in_cluster(self, origin: str) -> bool:
        node = self.map.node_of_origin(origin_of(origin))
        return node is not None and node.node in self.map.reachable()

    def is_outside_map(self, node: Address) -> bool:
        """Return True for a node of the own cluster that is not in the map.

        It may not have this node's interest: a range that it calls empty may not be.
        """
        return node.unit == self.address.unit and node.node not in self.map.members()

    def has_other_log(self, address: Address, origin: str) -> bool:
        node = self.map.members().get(address.node)
        return node is not None and node.address == address and node.origin != origin

    def destinations_inside(self, unit: tuple[str, ...]) -> list[Address]:
        """With this node."""
        return [
            self.address,
            *(each for each in self.destinations() if is_within(each.unit, unit)),
        ]

    def to_frame_destination(self, destination: Destination) -> Address:
        if isinstance(destination, str):
            return Address(self.address.unit, destination)
        return Address(destination, "")

    def destination_of(self, target: Address) -> Address:
        """Return the member or far unit that includes `target`."""
        own = self.address.unit
        if target.unit == own:
            return target
        depth = 0
        while depth < min(len(own), len(target.unit)) and own[depth] == target.unit[depth]:
            depth += 1
        return Address(target.unit[: depth + 1], "")

    def next_hop(self, target: Address, rank: int, attempt: int = 0) -> str | None:
        if target.node:
            return self.map.next_hop(target, rank, attempt)
        return self.map.next_hop_to_unit(target.unit, rank, attempt)

    def _publish(self, publications: Iterable[Publication], now: float) -> list[NetworkStateEffect]:
        effects: list[NetworkStateEffect] = []
        map_changed = False
        for each in publications:
            _, flooded = self.tables.publish(each.kind, each.subject, each.scope, each.changes, now)
            key = TableKey(each.kind, each.subject, self.address.node)
            map_changed |= self.map.apply_change(key, each.scope, each.changes)
            effects += self._apply_table_effects(flooded, now)
        return effects + self._map_changed(now) if map_changed else effects

    def _apply_table_effects(
        self, effects: Iterable[TablesEffect], now: float
    ) -> list[NetworkStateEffect]:
        applied: list[TablesEffect] = []
        for effect in effects:
            if isinstance(effect, TableChanged) and effect.key.kind in (PROFILE, SUMMARY):
                if effect.is_removed:
                    self._present.discard(effect.key)
                    self._expiring.delay(effect, effect.changes, now)
                    continue
                self._present.add(effect.key)
                if effect.is_restart:
                    removed = [key for key, value in effect.changes.items() if value is None]
                    if removed:
                        self._expiring.delay(effect, removed, now)
                    current = {key: v for key, v in effect.changes.items() if v is not None}
                    effect = attrs.evolve(effect, changes=current)
            applied.append(effect)
        return self._apply_to_interest(applied, now)

    def _apply_to_interest(
        self, effects: Sequence[TablesEffect], now: float
    ) -> list[NetworkStateEffect]:
        known = len(self._summary_authors)
        for effect in effects:
            if isinstance(effect, TableChanged) and effect.key.kind == SUMMARY:
                self._record_summary(effect)
        done = self._apply_effects(self.profiles.apply_effects(effects, now), now)
        if len(self._summary_authors) != known:
            done.append(MapChanged())
        return done

    def _record_summary(self, effect: TableChanged) -> None:
        authors = self._summary_authors.setdefault(effect.key.subject, set())
        if effect.is_removed:
            authors.discard(effect.key.author)
        else:
            authors.add(effect.key.author)
        if not authors:
            del self._summary_authors[effect.key.subject]

    def _apply_effects(self, effects: Iterable[object], now: float) -> list[NetworkStateEffect]:
        done: list[NetworkStateEffect] = []
        map_changed = False
        for effect in effects:
            if isinstance(effect, TableChanged):
                map_changed |= self.map.apply_change(
                    effect.key, effect.scope, effect.changes, effect.is_removed
                )
                self.stacks.apply_change(effect)
                if effect.key.kind in (TYPES, UNIT_TYPES):
                    done += self._apply_type_effects(self.types.apply_change(effect, now), now)
            elif isinstance(effect, NeighbourSynchronised):
                done += self._publish_link(effect.neighbour, now)
            elif isinstance(
                effect,
                Send
                | InterestAdded
                | InterestRemoved
                | QueuePoliciesChanged
                | InterestActive
                | BadInterest
                | NameConflict,
            ):
                done.append(effect)
            else:
                assert isinstance(effect, TableEchoed)
        return done + self._map_changed(now) if map_changed else done

    def _apply_type_effects(
        self, effects: Iterable[TypesEffect], now: float
    ) -> list[NetworkStateEffect]:
        done: list[NetworkStateEffect] = []
        for effect in effects:
            done += (
                [effect]
                if isinstance(effect, TypeAnnounced)
                else self._apply_table_effects([effect], now)
            )
        return done

    def _publish_link(self, name: str, now: float) -> list[NetworkStateEffect]:
        link = self._pending_links.pop(name, None)
        if link is None:
            return []
        publications = self._links.add_link(link.far, link.transport, link.cost, link.clearance)
        return self._publish(publications, now)

    def _map_changed(self, now: float) -> list[NetworkStateEffect]:
        effects: list[NetworkStateEffect] = [MapChanged()]
        led = self.map.led_units() - {NETWORK}
        effects += self._apply_type_effects(self.types.set_led_units(led, now), now)
        for level, unit in enumerate(enclosing_units(self.address.unit)):
            leads = self.map.is_leader(level)
            if self._led.get(level, False) is leads:
                continue
            self._led[level] = leads
            if leads:
                self._lead_at[level] = now + LEAD_DELAY
            else:
                self._lead_at.pop(level, None)
                effects += self._apply_effects(self.profiles.set_leadership(unit, False, now), now)
        return effects
