"""Exchange of interest between nodes, on top of tables (Mspaces M42, G7, G13).

`docs/protocols/tables.md` describes when interest becomes active. The caller applies all results in
order before the next call. The node must match events against its own interest before it calls
`add_interest`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from broker.cluster.address import UnitPath, enclosing_units, unit_text
from broker.cluster.interest.contributions import (
    PROFILE,
    SUMMARY,
    ContributionChange,
    Contributions,
)
from broker.cluster.interest.effects import InterestActive, InterestEffect
from broker.cluster.interest.entries import SETTLED_KEY
from broker.cluster.interest.own_profile import OwnProfile
from broker.cluster.interest.propagation import (
    CUTS_KEY,
    TERM_KEY,
    merge_cuts,
    parse_covered,
    parse_term,
)
from broker.cluster.interest.queue_policies import QUEUE_KINDS
from broker.cluster.interest.summary import Summary
from broker.cluster.messages import Value
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged, TableEchoed, TablesEffect
from broker.cluster.tables.table import TableKey
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import MAX_QUERIES
from broker.matching.query.query import Query
from broker.streams.queue_policy import IQueuePolicy

FLOWING = "flowing"
_INTEREST_KINDS = (*QUEUE_KINDS, *QUEUE_KINDS.values())


class InterestExchange:
    """Own interest, interest of others, and summaries of the units that this node leads."""

    def __init__(self, tables: Tables, max_queries: int = MAX_QUERIES) -> None:
        self._tables = tables
        self._node, self._cluster = tables.address.node, tables.address.unit
        self._max_queries = max_queries
        #: From below.
        self._units = tuple(enclosing_units(self._cluster))
        self._own_profile = OwnProfile(max_queries)
        self._contributions = Contributions(self._cluster, self._node)
        self._leading: set[UnitPath] = set()
        self._summaries: dict[UnitPath, Summary] = {}
        self._may_advance = False

    @property
    def bad_entries(self) -> int:
        return self._contributions.bad_entries

    def add_interest(
        self, key: Hashable, pattern: StreamPattern, query: Query, now: float
    ) -> list[InterestEffect]:
        """Raises `ValueError` for a used key."""
        return (
            [InterestActive(key, {})] if self._own_profile.add_interest(key, pattern, query) else []
        )

    def remove_interest(self, key: Hashable, now: float) -> list[InterestEffect]:
        """Raises `KeyError` for an unknown key."""
        self._own_profile.remove_interest(key)
        return []

    def set_policy(self, key: Hashable, policy: IQueuePolicy, now: float) -> list[InterestEffect]:
        """Set the queue policy of an added key's interest; `block` before."""
        self._own_profile.set_policy(key, policy)
        return []

    def set_leadership(self, unit: UnitPath, leads: bool, now: float) -> list[InterestEffect]:
        """A former leader's summary stays until a new leader's summary covers it."""
        if unit not in self._units:
            raise ValueError(f"{unit_text(unit)!r} does not contain {self._tables.address}")
        if not unit or leads == (unit in self._leading):
            return []
        self._may_advance = True
        if not leads:
            self._leading.discard(unit)
            return [*self._publish_term(unit, now), *self._withdraw_replaced(now)]
        self._leading.add(unit)
        if unit not in self._summaries:
            self._summaries[unit] = Summary(unit, self._contributions, self._max_queries)
        terms = [parse_term(table)[0] for _, table in self._leader_tables(unit)]
        self._summaries[unit].term = 1 + max(terms, default=0)
        return list(self._publish_term(unit, now))

    def apply_effects(self, effects: Iterable[TablesEffect], now: float) -> list[InterestEffect]:
        """Return effects unrelated to interest unchanged."""
        done: list[InterestEffect] = []
        queue = deque(effects)
        while queue:
            effect = queue.popleft()
            match effect:
                case TableChanged(key=TableKey(kind=kind)) if kind in _INTEREST_KINDS:
                    done += self._apply_table(effect)
                case TableChanged(key=TableKey(kind="flowing")):
                    self._may_advance = True
                    queue += self._raise_terms(now)
                    done += self._withdraw_replaced(now)
                case TableEchoed(key=TableKey(kind="profile")):
                    self._may_advance = True
                    queue += self._finish_profile_echo(effect, now)
                case TableEchoed(key=TableKey(kind="summary")):
                    self._may_advance = True
                    queue += self._finish_summary_echo(effect, now)
                case _:
                    done.append(effect)
        if self._may_advance:
            self._may_advance = False
            done += self._advance_propagations()
        return done

    def next_timeout(self) -> float | None:
        """0 with unpublished changes: those of one reactor turn are published together."""
        waiting = self._own_profile.has_changes or any(
            s.has_changes for s in self._summaries.values()
        )
        return 0.0 if waiting else None

    def handle_timeout(self, now: float) -> list[InterestEffect]:
        effects: list[TablesEffect] = []
        if self._own_profile.has_changes:
            effects += self._publish_profile(now)
        for summary in self._summaries.values():
            if summary.has_changes:
                effects += self._publish_summary(summary, now)
        return self.apply_effects(effects, now)

    def _publish_profile(self, now: float) -> list[TablesEffect]:
        changes = self._own_profile.changes
        propagation = self._own_profile.mark_published()
        version, effects = self._publish(
            PROFILE, self._node, self._cluster, changes, now, echo=propagation is not None
        )
        if propagation is not None:
            propagation.version = (self._tables.incarnation, version)
        policies = self._own_profile.take_policy_changes()
        return effects + self._publish_policies(PROFILE, self._node, self._cluster, policies, now)

    def _finish_profile_echo(self, echoed: TableEchoed, now: float) -> list[TablesEffect]:
        for propagation in self._own_profile.propagations:
            if propagation.level is None and propagation.version[1] <= echoed.version:
                merge_cuts(propagation.cuts, echoed.cuts.items())
                propagation.restart(self._node)
        return self._publish_settled(PROFILE, self._node, self._cluster, echoed.version, now)

    def _advance_propagations(self) -> list[InterestEffect]:
        effects: list[InterestEffect] = []
        for propagation in list(self._own_profile.propagations):
            if propagation.level and not self._has_leader_table(
                propagation.level - 1, propagation.author
            ):
                propagation.restart(self._node)
            while propagation.level is not None and propagation.level < len(self._units) - 1:
                unit = self._units[propagation.level]
                if not any(
                    propagation.advance(leader, table)
                    for leader, table in self._leader_tables(unit)
                ):
                    break
            if propagation.level == len(self._units) - 1:
                keys = self._own_profile.complete(propagation)
                effects += [
                    InterestActive(key, dict(propagation.cuts)) for key in sorted(keys, key=repr)
                ]
        return effects

    def _has_leader_table(self, level: int, author: str) -> bool:
        return any(leader == author for leader, _ in self._leader_tables(self._units[level]))

    def _leader_tables(self, unit: UnitPath) -> list[tuple[str, dict[str, Value]]]:
        """Also of former leaders that have a summary."""
        return [
            (key.author, dict(table))
            for key, table in self._tables.items(FLOWING)
            if key.subject == unit_text(unit)
        ]

    def _apply_table(self, effect: TableChanged) -> list[InterestEffect]:
        change, effects = self._contributions.apply_change(
            effect.key, effect.scope, effect.changes, is_removed=effect.is_removed
        )
        self._update_summary(change)
        return effects

    def _update_summary(self, change: ContributionChange | None) -> None:
        if change is not None and change.contributor.scope in self._summaries:
            self._summaries[change.contributor.scope].apply_change(change)

    def _publish_summary(self, summary: Summary, now: float) -> list[TablesEffect]:
        version, effects = self._publish(
            *(SUMMARY, unit_text(summary.unit), summary.unit[:-1], summary.changes, now),
            echo=summary.needs_echo,
        )
        summary.mark_published(version)
        policies, text = summary.take_policy_changes(), unit_text(summary.unit)
        return effects + self._publish_policies(SUMMARY, text, summary.unit[:-1], policies, now)

    def _publish_policies(
        self,
        kind: str,
        subject: str,
        scope: UnitPath,
        changes: dict[str, Value | None],
        now: float,
    ) -> list[TablesEffect]:
        if not changes:
            return []
        return self._publish(QUEUE_KINDS[kind], subject, scope, changes, now, echo=False)[1]

    def _finish_summary_echo(self, echoed: TableEchoed, now: float) -> list[TablesEffect]:
        """Publish to members and the leader above that the scope above has the summary."""
        text = echoed.key.subject
        summary = next((s for s in self._summaries.values() if unit_text(s.unit) == text), None)
        if summary is None or not summary.mark_echoed(echoed.version):
            return []
        own_version = (self._tables.incarnation, echoed.version)
        key = TableKey(FLOWING, text, self._node)
        changes: dict[str, Value | None] = dict.fromkeys(self._tables.get(key))
        changes |= {author: (*covered, *own_version) for author, covered in summary.covered.items()}
        cuts: dict[str, tuple[int, int]] = {}
        merge_cuts(cuts, echoed.cuts.items())
        changes[TERM_KEY] = (summary.term, summary.unit in self._leading)
        changes[CUTS_KEY] = tuple((origin, *mark) for origin, mark in sorted(cuts.items()))
        _, effects = self._tables.publish(FLOWING, text, summary.unit, changes, now)
        if len(summary.unit) > 1:
            effects += self._publish_settled(SUMMARY, text, summary.unit[:-1], echoed.version, now)
        return effects

    def _withdraw_replaced(self, now: float) -> list[InterestEffect]:
        """Withdraw summaries that a later leader covers."""
        effects: list[TablesEffect] = []
        for unit in [unit for unit in self._summaries if unit not in self._leading]:
            covered = self._summaries[unit].current_coverage()
            own_rank = (self._summaries[unit].term, self._node)
            if any(
                (parse_term(table)[0], leader) > own_rank and _covers_all(table, covered)
                for leader, table in self._leader_tables(unit)
            ):
                del self._summaries[unit]
                effects += self._withdraw_summary(unit, now)
        return list(effects)

    def _raise_terms(self, now: float) -> list[TablesEffect]:
        """Raise the own term above former leaders, so that they can withdraw."""
        effects: list[TablesEffect] = []
        for unit in self._leading:
            summary = self._summaries[unit]
            higher_terms = [
                term
                for leader, table in self._leader_tables(unit)
                for term, leads in [parse_term(table)]
                if not leads and (term, leader) > (summary.term, self._node)
            ]
            if higher_terms:
                summary.term = 1 + max(higher_terms)
                effects += self._publish_term(unit, now)
        return effects

    def _publish_term(self, unit: UnitPath, now: float) -> list[TablesEffect]:
        key = TableKey(FLOWING, unit_text(unit), self._node)
        if unit not in self._summaries or not self._tables.get(key):
            return []
        term: Value = (self._summaries[unit].term, unit in self._leading)
        return self._tables.publish(FLOWING, key.subject, unit, {TERM_KEY: term}, now)[1]

    def _withdraw_summary(self, unit: UnitPath, now: float) -> list[TablesEffect]:
        key = TableKey(SUMMARY, unit_text(unit), self._node)
        entries = dict.fromkeys(self._tables.get(key))
        change, _ = self._contributions.apply_change(key, unit[:-1], entries, is_removed=True)
        self._update_summary(change)
        policies = key._replace(kind=QUEUE_KINDS[SUMMARY])
        entries = dict.fromkeys(self._tables.get(policies))
        change, _ = self._contributions.apply_change(policies, unit[:-1], entries, is_removed=True)
        self._update_summary(change)
        return [
            *self._tables.withdraw(SUMMARY, key.subject, now),
            *self._tables.withdraw(QUEUE_KINDS[SUMMARY], key.subject, now),
            *self._tables.withdraw(FLOWING, key.subject, now),
        ]

    def _publish(
        self,
        kind: str,
        subject: str,
        scope: UnitPath,
        changes: dict[str, Value | None],
        now: float,
        *,
        echo: bool,
    ) -> tuple[int, list[TablesEffect]]:
        version, effects = self._tables.publish(kind, subject, scope, changes, now, echo=echo)
        change, _ = self._contributions.apply_change(
            TableKey(kind, subject, self._node), scope, changes
        )
        self._update_summary(change)
        return version, effects

    def _publish_settled(
        self, kind: str, subject: str, scope: UnitPath, version: int, now: float
    ) -> list[TablesEffect]:
        """Publish that the scope has this version, so that the leader can cover it."""
        settled = {SETTLED_KEY: (self._tables.incarnation, version)}
        return self._publish(kind, subject, scope, dict(settled), now, echo=False)[1]


def _covers_all(table: dict[str, Value], covered: dict[str, tuple[int, int]]) -> bool:
    for author, own_version in covered.items():
        entry = parse_covered(table.get(author))
        if entry is None or entry[0] < own_version:
            return False
    return True
