"""What nodes want, told to those who send it: a sans-I/O core on top of tables.

Mspaces M42, G7, G13; `docs/protocols/tables.md` tells how a want comes to flow. Everything that
goes into or comes out of `Tables` passes through `apply`; what it returns is done in order, before
the next call. The node itself matches against its own wants: it does that before `want` is called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from broker.cluster.address import UnitPath, contexts, unit_text
from broker.cluster.interest.contributions import PROFILE, SUMMARY, Change, Members
from broker.cluster.interest.effects import Flowing, ProfilesEffect
from broker.cluster.interest.entries import SETTLED
from broker.cluster.interest.own_profile import OwnWants
from broker.cluster.interest.propagation import CUTS, TERM, covered_of, merge_cuts, term_of
from broker.cluster.interest.summary import Summary
from broker.cluster.messages import Value
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import Changed, Echoed, TablesEffect
from broker.cluster.tables.table import TableKey
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import MAX_QUERIES
from broker.matching.query.query import Query

FLOWING = "flowing"


class Profiles:
    """The own wants, the wants of others, and the summaries of the units that this node leads."""

    def __init__(self, tables: Tables, max_queries: int = MAX_QUERIES) -> None:
        self._tables = tables
        self._node, self._cluster = tables.address.node, tables.address.unit
        self._max_queries = max_queries
        #: The own cluster and what it is in, from below; the last is the whole network.
        self._units = tuple(contexts(self._cluster))
        self._own = OwnWants(max_queries)
        self._members = Members(self._cluster, self._node)
        self._leading: set[UnitPath] = set()
        self._summaries: dict[UnitPath, Summary] = {}
        self._climbing = False
        """Whether something has changed that may let a climb move."""

    @property
    def bad(self) -> int:
        """How many entries of others were no wants."""
        return self._members.bad

    # ------------------------------------------------------------------------- the node's calls

    def want(
        self, key: Hashable, pattern: StreamPattern, query: Query, now: float
    ) -> list[ProfilesEffect]:
        """Somebody here wants something. `ValueError` if the key wants something already."""
        return [Flowing(key, {})] if self._own.want(key, pattern, query) else []

    def unwant(self, key: Hashable, now: float) -> list[ProfilesEffect]:
        """Who had this key does not want it any more. `KeyError` if there is none."""
        self._own.unwant(key)
        return []

    def lead(self, unit: UnitPath, leads: bool, now: float) -> list[ProfilesEffect]:
        """This node is, or is not, the leader of a unit that it is in: as the map says.

        Its summary goes on until a new leader's covers as much.
        """
        if unit not in self._units:
            raise ValueError(f"{unit_text(unit)!r} does not contain {self._tables.address}")
        if not unit or leads == (unit in self._leading):
            return []
        self._climbing = True
        if not leads:
            self._leading.discard(unit)
            return [*self._say_term(unit, now), *self._retire(now)]
        self._leading.add(unit)
        if unit not in self._summaries:
            self._summaries[unit] = Summary(unit, self._members, self._max_queries)
        terms = [term_of(table)[0] for _, table in self._flowing(unit)]
        self._summaries[unit].term = 1 + max(terms, default=0)
        return list(self._say_term(unit, now))

    def apply(self, effects: Iterable[TablesEffect], now: float) -> list[ProfilesEffect]:
        """What follows from effects of the tables; those that are not for profiles stay."""
        done: list[ProfilesEffect] = []
        queue = deque(effects)
        while queue:
            effect = queue.popleft()
            match effect:
                case Changed(key=TableKey(kind=("profile" | "summary"))):
                    done += self._others_changed(effect)
                case Changed(key=TableKey(kind="flowing")):
                    self._climbing = True
                    queue += self._overtake(now)
                    done += self._retire(now)
                case Echoed(key=TableKey(kind="profile")):
                    self._climbing = True
                    queue += self._profile_echoed(effect, now)
                case Echoed(key=TableKey(kind="summary")):
                    self._climbing = True
                    queue += self._summary_echoed(effect, now)
                case _:
                    done.append(effect)
        if self._climbing:
            self._climbing = False
            done += self._climbed()
        return done

    # ------------------------------------------------------------------------- time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` must be called: at once where something is to be published, so
        that what changes in one turn is published together."""
        waiting = self._own.to_publish or any(s.to_publish for s in self._summaries.values())
        return 0.0 if waiting else None

    def handle_timeout(self, now: float) -> list[ProfilesEffect]:
        """Publish what changed."""
        effects: list[TablesEffect] = []
        if self._own.to_publish:
            effects += self._publish_profile(now)
        for summary in self._summaries.values():
            if summary.to_publish:
                effects += self._publish_summary(summary, now)
        return self.apply(effects, now)

    # ------------------------------------------------------------------------- the own profile

    def _publish_profile(self, now: float) -> list[TablesEffect]:
        changes = self._own.changes
        climb = self._own.published()
        version, effects = self._publish(
            PROFILE, self._node, self._cluster, changes, now, echo=climb is not None
        )
        if climb is not None:
            climb.stand = (self._tables.incarnation, version)
        return effects

    def _profile_echoed(self, echoed: Echoed, now: float) -> list[TablesEffect]:
        for climb in self._own.climbs:
            if climb.level is None and climb.stand[1] <= echoed.version:
                merge_cuts(climb.cuts, echoed.cuts.items())
                climb.start(self._node)
        return self._settle(PROFILE, self._node, self._cluster, echoed.version, now)

    def _climbed(self) -> list[ProfilesEffect]:
        """Move all climbs as far up as the leaders' tables allow."""
        effects: list[ProfilesEffect] = []
        for climb in list(self._own.climbs):
            if climb.level and not self._leads_still(climb.level - 1, climb.author):
                climb.start(self._node)
            while climb.level is not None and climb.level < len(self._units) - 1:
                unit = self._units[climb.level]
                if not any(climb.step(who, table) for who, table in self._flowing(unit)):
                    break
            if climb.level == len(self._units) - 1:
                keys = self._own.arrived(climb)
                effects += [Flowing(key, dict(climb.cuts)) for key in sorted(keys, key=repr)]
        return effects

    def _leads_still(self, level: int, author: str) -> bool:
        return any(who == author for who, _ in self._flowing(self._units[level]))

    def _flowing(self, unit: UnitPath) -> list[tuple[str, dict[str, Value]]]:
        """What leaders of a unit say of its members; old leaders too, while they have a summary."""
        return [
            (key.author, dict(table))
            for key, table in self._tables.items(FLOWING)
            if key.subject == unit_text(unit)
        ]

    # ------------------------------------------------------------------------- others

    def _others_changed(self, effect: Changed) -> list[ProfilesEffect]:
        change, effects = self._members.changed(
            effect.key, effect.scope, effect.changes, gone=effect.gone
        )
        self._member_changed(change)
        return effects

    def _member_changed(self, change: Change | None) -> None:
        if change is not None and change.member.scope in self._summaries:
            self._summaries[change.member.scope].changed(change)

    # ------------------------------------------------------------------------- summaries

    def _publish_summary(self, summary: Summary, now: float) -> list[TablesEffect]:
        version, effects = self._publish(
            *(SUMMARY, unit_text(summary.unit), summary.unit[:-1], summary.changes, now),
            echo=summary.to_echo,
        )
        summary.published(version)
        return effects

    def _summary_echoed(self, echoed: Echoed, now: float) -> list[TablesEffect]:
        """The scope above has the summary: tell it to the members, and to the leader above."""
        text = echoed.key.subject
        summary = next((s for s in self._summaries.values() if unit_text(s.unit) == text), None)
        if summary is None or not summary.echoed(echoed.version):
            return []
        stand = (self._tables.incarnation, echoed.version)
        key = TableKey(FLOWING, text, self._node)
        changes: dict[str, Value | None] = dict.fromkeys(self._tables.get(key))
        changes |= {author: (*covered, *stand) for author, covered in summary.covered.items()}
        cuts: dict[str, tuple[int, int]] = {}
        merge_cuts(cuts, echoed.cuts.items())
        changes[TERM] = (summary.term, summary.unit in self._leading)
        changes[CUTS] = tuple((origin, *mark) for origin, mark in sorted(cuts.items()))
        _, effects = self._tables.publish(FLOWING, text, summary.unit, changes, now)
        if len(summary.unit) > 1:
            effects += self._settle(SUMMARY, text, summary.unit[:-1], echoed.version, now)
        return effects

    def _retire(self, now: float) -> list[ProfilesEffect]:
        """Withdraw what a later leader says as well: the last one stays, whoever leads."""
        effects: list[TablesEffect] = []
        for unit in [unit for unit in self._summaries if unit not in self._leading]:
            covered = self._summaries[unit].covered_now()
            mine = (self._summaries[unit].term, self._node)
            if any(
                (term_of(table)[0], who) > mine and _covers(table, covered)
                for who, table in self._flowing(unit)
            ):
                del self._summaries[unit]
                effects += self._withdraw_summary(unit, now)
        return list(effects)

    def _overtake(self, now: float) -> list[TablesEffect]:
        """Come after one who leads no more, so that it may retire. Two who lead do not race."""
        effects: list[TablesEffect] = []
        for unit in self._leading:
            summary = self._summaries[unit]
            former = [
                term
                for who, table in self._flowing(unit)
                for term, leads in [term_of(table)]
                if not leads and (term, who) > (summary.term, self._node)
            ]
            if former:
                summary.term = 1 + max(former)
                effects += self._say_term(unit, now)
        return effects

    def _say_term(self, unit: UnitPath, now: float) -> list[TablesEffect]:
        """Once there is something to say to the members; else it goes with that."""
        key = TableKey(FLOWING, unit_text(unit), self._node)
        if unit not in self._summaries or not self._tables.get(key):
            return []
        term: Value = (self._summaries[unit].term, unit in self._leading)
        return self._tables.publish(FLOWING, key.subject, unit, {TERM: term}, now)[1]

    def _withdraw_summary(self, unit: UnitPath, now: float) -> list[TablesEffect]:
        key = TableKey(SUMMARY, unit_text(unit), self._node)
        entries = dict.fromkeys(self._tables.get(key))
        change, _ = self._members.changed(key, unit[:-1], entries, gone=True)
        self._member_changed(change)
        return [
            *self._tables.withdraw(SUMMARY, key.subject, now),
            *self._tables.withdraw(FLOWING, key.subject, now),
        ]

    # ------------------------------------------------------------------------- publishing

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
        """Publish, and be a member of the own unit as everybody else."""
        version, effects = self._tables.publish(kind, subject, scope, changes, now, echo=echo)
        change, _ = self._members.changed(TableKey(kind, subject, self._node), scope, changes)
        self._member_changed(change)
        return version, effects

    def _settle(
        self, kind: str, subject: str, scope: UnitPath, version: int, now: float
    ) -> list[TablesEffect]:
        """Say up to where everybody in the scope has a table: its leader may go on with that."""
        settled = {SETTLED: (self._tables.incarnation, version)}
        return self._publish(kind, subject, scope, dict(settled), now, echo=False)[1]


def _covers(table: dict[str, Value], covered: dict[str, tuple[int, int]]) -> bool:
    """Whether a leader's flowing table says as much as another one covers."""
    for author, stand in covered.items():
        entry = covered_of(table.get(author))
        if entry is None or entry[0] < stand:
            return False
    return True
