"""Who subscribed to what: each distinct query once, in families that share a template."""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import UnknownSubscription
from broker.event.stream import StreamPattern
from broker.matching.index.shared_index import IndexPool
from broker.matching.partial.template import Template, TemplateInstance, extract_templates
from broker.matching.query.query import Query
from broker.matching.query.tree import FunctionCall
from broker.matching.switching.entry import Entry, attach, detach, entry_of
from broker.matching.switching.family import Family
from broker.matching.switching.streams import Streams
from broker.matching.switching.structure import Structure


class Registry:
    """Subscriptions by number, and the families that their queries make.

    Adding and removing cost what the change costs: shapes hear of new families when a document of
    theirs comes (`younger_than`), and of `deaths` likewise.
    """

    def __init__(self) -> None:
        self.streams = Streams()
        self.structure = Structure()
        self.distinct = 0
        self.deaths = 0
        self._last = 0
        self.newest = 0
        """The sequence number of the newest family, dead ones included."""
        self._by_number: dict[int, Entry | None] = {}
        self._families: dict[object, Family] = {}
        self._pool = IndexPool()

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def families(self) -> int:
        """How many templates there are."""
        return len(self._families)

    def add(self, pattern: StreamPattern, query: Query) -> int:
        """A new subscription's number."""
        self._last += 1
        number = self._last
        held = self.streams.hold(pattern)
        if is_everything(query):
            self._by_number[number] = None
            self.streams.add_everything(number, held)
            return number
        entry = self._entry(query)
        entry.add(number, held)
        self._by_number[number] = entry
        return number

    def remove(self, number: int) -> Entry | None:
        """Forget a subscription; its query if nobody else has it.

        Raises `UnknownSubscription`.
        """
        entry = self.entry(number)
        del self._by_number[number]
        if entry is None:
            held = self.streams.remove_everything(number)
            assert held is not None
            self.streams.release(held)
            return None
        self.streams.release(entry.remove(number))
        if entry.pairs:
            return None
        if not entry.suspended:
            self._withdraw(entry)
        return entry

    def entry(self, number: int) -> Entry | None:
        """The query of a subscription, None for `true()`; raises `UnknownSubscription`."""
        try:
            return self._by_number[number]
        except KeyError:
            raise UnknownSubscription(f"there is no subscription {number}") from None

    def pattern(self, number: int) -> StreamPattern:
        """The streams of a subscription; raises `UnknownSubscription`."""
        entry = self.entry(number)
        if entry is None:
            held = self.streams.pattern_of_everything(number)
            assert held is not None
        else:
            held = entry.pattern(number)
        return self.streams.pattern(held)

    def suspend(self, entry: Entry) -> tuple[int, ...]:
        """Match a query no more; the numbers of its subscriptions, which stay known."""
        if not entry.suspended:
            entry.suspended = True
            self._withdraw(entry)
        return entry.numbers

    def family(self, template: Template) -> Family | None:
        """The family that shares the template, None if nobody has a query of it."""
        return self._families.get(template.key)

    def younger_than(self, sequence: int) -> Iterator[Family]:
        """The families that came after the one of this sequence number, newest first."""
        for family in reversed(self._families.values()):
            if family.sequence <= sequence:
                return
            yield family

    def _entry(self, query: Query) -> Entry:
        parts = extract_templates(query)
        families = tuple([self._family(part) for part in parts])
        members = tuple([f.add(p.literals) for f, p in zip(families, parts, strict=True)])
        known = entry_of(members)
        if known is not None:
            return known
        entry = Entry(query, families, members)
        for member in dict.fromkeys(members):
            attach(member, entry)
        self.distinct += 1
        return entry

    def _family(self, part: TemplateInstance) -> Family:
        key = part.template.key
        family = self._families.get(key)
        if family is None:
            self.newest += 1
            family = self._families[key] = Family(part.template, self.newest, self._pool)
            self.structure.add(family)
        return family

    def _withdraw(self, entry: Entry) -> None:
        self.distinct -= 1
        for member, family in dict(zip(entry.members, entry.families, strict=True)).items():
            if detach(member, entry):
                family.remove(member)
                if not family.members:
                    family.dead = True
                    self.deaths += 1
                    del self._families[family.template.key]
                    self.structure.remove(family)


def is_everything(query: Query) -> bool:
    """Whether the query is `true()`."""
    return isinstance(query.expression, FunctionCall) and query.expression.name == "true"
