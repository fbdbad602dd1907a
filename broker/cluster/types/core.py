"""Announcements of event types in tables.

A node announces its types to its cluster. The leader of a unit announces the union to the unit
above. So each node learns all types of the network. Old nodes forward these tables unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from broker.cluster.address import (
    Address,
    UnitPath,
    enclosing_units,
    is_within,
    parse_unit,
    unit_text,
)
from broker.cluster.messages import Value
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged, TablesEffect
from broker.cluster.tables.table import TableKey
from broker.cluster.types.announcement import (
    MAX_OF_NODE,
    MAX_OF_UNIT,
    MAX_ORIGINS,
    ORIGIN_KEY,
    TYPES,
    UNIT_TYPES,
    Announcement,
    node_entry,
    origins_of,
    other_entry,
    read_node_table,
    read_unit_table,
    unit_entry,
)
from broker.dtd.reference import DtdReference
from broker.errors import BadName, Overloaded

GATHER_SECONDS = 0.1


@attrs.frozen
class TypeAnnounced:
    announcement: Announcement
    author: str
    unit: UnitPath
    """The author's cluster, or the unit that it leads."""
    is_of_unit: bool
    is_own: bool = False
    """True for the author's own text, in its own table."""


TypesEffect: TypeAlias = TablesEffect | TypeAnnounced


@attrs.frozen
class _AuthorTypes:
    unit: UnitPath
    is_of_unit: bool
    announcements: tuple[Announcement, ...]
    origins: tuple[str, ...] = ()


class TypeTables:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._own = tables.address
        self._sources: dict[TableKey, _AuthorTypes] = {}
        self._own_texts: dict[DtdReference, str] = {}
        self._other_texts: dict[DtdReference, tuple[str, ...]] = {}
        self._origin = ""
        self._led_units: frozenset[UnitPath] = frozenset()
        self._gather_at: float | None = None
        self.bad_entries = 0
        """Malformed or excess entries of others."""
        self.left_out = 0
        """Own types over the limit."""

    def announced_types(self) -> Iterator[TypeAnnounced]:
        for key, source in self._sources.items():
            for each in source.announcements:
                own = not source.is_of_unit and each.origins == source.origins
                yield TypeAnnounced(each, key.author, source.unit, source.is_of_unit, own)

    def hash_of(self, reference: DtdReference, origin: str, origin_node: Address) -> str | None:
        """Return the hash of the text that an origin uses under a name.

        The announcement of `origin_node`, which has the origin's log, counts more than others.
        """
        of_origin: set[str] = set()
        of_unit: set[str] = set()
        for key, source in self._sources.items():
            for each in source.announcements:
                if each.reference != reference:
                    continue
                if origin in each.origins:
                    if not source.is_of_unit and key.author == origin_node.node:
                        return each.content_hash
                    of_origin.add(each.content_hash)
                elif (
                    source.is_of_unit
                    and not each.origins
                    and is_within(origin_node.unit, source.unit)
                ):
                    of_unit.add(each.content_hash)
        hashes = of_origin or of_unit
        return hashes.pop() if len(hashes) == 1 else None

    def announce_others(
        self, texts: Mapping[DtdReference, Sequence[str]], now: float
    ) -> list[TypesEffect]:
        """Announce texts of other origins: their nodes may be gone, but not their events."""
        changes: dict[str, Value | None] = {}
        for variant, origins in texts.items():
            if (
                len(self._own_texts) + len(self._other_texts) < MAX_OF_NODE
                or variant in self._other_texts
            ):
                self._other_texts[variant] = tuple(origins[:MAX_ORIGINS])
                changes |= [other_entry(variant, origins)]
            else:
                self.left_out += 1
        return self._publish(TYPES, self._own.node, self._own.unit, changes, now)

    def announce(
        self, texts: Mapping[DtdReference, str], origin: str, now: float
    ) -> list[TypesEffect]:
        """Announce own types, by content hash, for the log `origin`."""
        changes: dict[str, Value | None] = {}
        if origin != self._origin:
            self._origin = changes[ORIGIN_KEY] = origin
        for reference, content_hash in texts.items():
            if reference not in self._own_texts and len(self._own_texts) >= MAX_OF_NODE:
                self.left_out += 1
                continue
            self._own_texts[reference] = content_hash
            key, value = node_entry(reference, content_hash)
            changes[key] = value
        return self._publish(TYPES, self._own.node, self._own.unit, changes, now)

    def _publish(
        self,
        kind: str,
        subject: str,
        scope: UnitPath,
        changes: Mapping[str, Value | None],
        now: float,
    ) -> list[TypesEffect]:
        if not changes:
            return []
        try:
            _, effects = self._tables.publish(kind, subject, scope, changes, now)
        except Overloaded:
            self.left_out += len(changes)
            return []
        self._schedule_gathering(now)
        return list(effects)

    def apply_change(self, effect: TableChanged, now: float) -> list[TypesEffect]:
        key = effect.key
        source = None if effect.is_removed else self._read_table(key, effect.scope)
        before = self._sources.pop(key, None)
        if source is None:
            if before is not None:
                self._schedule_gathering(now)
            return []
        self._sources[key] = source
        known = frozenset() if before is None else frozenset(before.announcements)
        new = [each for each in source.announcements if each not in known]
        if new or len(known) != len(source.announcements):
            self._schedule_gathering(now)
        return [TypeAnnounced(each, key.author, source.unit, source.is_of_unit) for each in new]

    def _read_table(self, key: TableKey, scope: UnitPath) -> _AuthorTypes | None:
        table = self._tables.get(key)
        if key.kind == TYPES and key.subject == key.author and scope == self._own.unit:
            announcements, bad = read_node_table(table)
            unit = self._own.unit
            origins = origins_of(table)
        elif key.kind == UNIT_TYPES:
            try:
                unit = parse_unit(key.subject)
            except BadName:
                return None
            if not unit or unit[:-1] != scope or is_within(self._own.unit, unit):
                # This node has the sources of the own unit's announcements.
                return None
            announcements, bad = read_unit_table(table)
            origins = ()
        else:
            return None
        self.bad_entries += bad
        return _AuthorTypes(unit, key.kind == UNIT_TYPES, tuple(announcements), origins)

    def set_led_units(self, units: frozenset[UnitPath], now: float) -> list[TypesEffect]:
        effects: list[TypesEffect] = []
        for unit in self._led_units - units:
            effects += self._tables.withdraw(UNIT_TYPES, unit_text(unit), now)
        self._led_units = units
        self._schedule_gathering(now)
        return effects

    def next_timeout(self) -> float | None:
        return self._gather_at

    def handle_timeout(self, now: float) -> list[TypesEffect]:
        if self._gather_at is None or now < self._gather_at:
            return []
        self._gather_at = None
        effects: list[TypesEffect] = []
        # The smallest unit first: larger ones contain its types.
        for unit in enclosing_units(self._own.unit):
            if unit and unit in self._led_units:
                entries = dict(map(unit_entry, self._union(unit)))
                known = self._tables.get(TableKey(UNIT_TYPES, unit_text(unit), self._own.node))
                changes: dict[str, Value | None] = dict.fromkeys(known.keys() - entries.keys())
                changes |= {key: value for key, value in entries.items() if known.get(key) != value}
                subject = unit_text(unit)
                effects += self._publish(UNIT_TYPES, subject, unit[:-1], changes, now)
        self._gather_at = None
        return effects

    def _schedule_gathering(self, now: float) -> None:
        if self._led_units and self._gather_at is None:
            self._gather_at = now + GATHER_SECONDS

    def _union(self, unit: UnitPath) -> list[Announcement]:
        """Return a unit's types, with an equal share of the limit for each author."""
        parts = list(self._texts_by_author(unit))
        everywhere = self._texts_everywhere()
        share = MAX_OF_UNIT // max(1, len(parts))
        origins: dict[DtdReference, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        room = MAX_OF_UNIT
        for part in parts:
            for each in part[: max(share, MAX_OF_UNIT // 32)]:
                texts = origins[each.reference]
                if each.content_hash not in texts:
                    if not room:
                        continue
                    room -= 1
                texts[each.content_hash].update(each.origins)
        return [
            # If all origins use one text, none are listed.
            Announcement(
                reference, text, tuple(sorted(users)) if len(everywhere[reference]) > 1 else ()
            )
            for reference, texts in origins.items()
            for text, users in texts.items()
        ]

    def _texts_everywhere(self) -> Mapping[DtdReference, set[str]]:
        """Also of other units."""
        found: dict[DtdReference, set[str]] = defaultdict(set)
        for reference, text in self._own_texts.items():
            found[reference].add(text)
        for variant in self._other_texts:
            found[DtdReference(variant.type, variant.version)].add(variant.variant)
        for source in self._sources.values():
            for each in source.announcements:
                found[each.reference].add(each.content_hash)
        return found

    def _texts_by_author(self, unit: UnitPath) -> Iterable[list[Announcement]]:
        own = [Announcement(r, text, (self._origin,)) for r, text in self._own_texts.items()]
        own += [
            Announcement(DtdReference(each.type, each.version), each.variant, origins)
            for each, origins in self._other_texts.items()
        ]
        if own:
            yield own
        for _, source in sorted(self._sources.items()):
            if is_within(source.unit, unit):
                yield list(source.announcements)
