"""Ways that are kept up to date: what a change of an index means to those who asked before."""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from broker.matching.index.access import Constants
from broker.matching.index.holes import Hole, Literal, Operator
from broker.matching.index.member import Member
from broker.matching.index.shared import Pool, SharedIndex, Signature
from broker.matching.index.way import Way
from tests.matching.index.naive import satisfied

NAN = float("nan")
TEXTS = (b"a", b"b", b"c")
NUMBERS = (1.0, 2.0, 3.0)


def index_of(*operators: Operator) -> SharedIndex:
    holes = tuple(Hole(operator, 0) for operator in operators)
    return Pool().index(Signature(holes, (0,) * len(holes)))


def found(way: Way, values: Sequence[Literal]) -> list[Any]:
    """The members that the way leads to, for a document with these values."""
    if way.finder is None:
        return []
    columns: list[Sequence[Literal]] = [
        [value] if at in way.read else () for at, value in enumerate(values)
    ]
    return [posting.entry for _, hits in way.finder.find_rows(columns, 1) for posting in hits]


@pytest.mark.parametrize(
    ("operators", "positions"),
    [
        ([Operator.EQUAL], [(0,)]),
        ([Operator.EQUAL, Operator.GREATER, Operator.LESS], [(0,)]),
        ([Operator.EQUAL, Operator.EQUAL], [(), (0,), (1,), (0, 1)]),
        ([Operator.EQUAL, Operator.NUMBER_EQUAL, Operator.GREATER], [(1,), (0, 1), (0, 1, 2)]),
        ([Operator.EQUAL, Operator.STARTS_WITH], [(0,), (0, 1), (1,)]),
        ([Operator.GREATER, Operator.LESS], [(), (0,)]),
    ],
)
def test_a_way_leads_to_whoever_is_there(
    operators: list[Operator], positions: list[tuple[int, ...]]
) -> None:
    chance = random.Random(1)
    index = index_of(*operators)
    holes = [Hole(operator) for operator in operators]
    ways: dict[tuple[tuple[int, Literal], ...], Way] = {}
    here: list[Member] = []
    most = 0

    def literal(hole: Hole) -> Literal:
        return chance.choice(NUMBERS) if hole.numeric else chance.choice(TEXTS)

    for turn in range(1500):
        growing = turn % 500 < 250
        if not here or chance.random() < (0.7 if growing else 0.3):
            here.append(index.add(tuple(map(literal, holes)), Member(())))
        else:
            index.remove(here.pop(chance.randrange(len(here))))
        most = max(most, len(here))
        # What is compared by order is one subject here.
        ordered = chance.choice(NUMBERS)
        asked = tuple([ordered if hole.threshold else literal(hole) for hole in holes])
        constants: Constants = {at: asked[at] for at in chance.choice(positions)}
        key = tuple(constants.items())
        way = ways.setdefault(key, index.among(constants))
        assert way is index.among(constants)
        expected = [each for each in here if satisfied(holes, asked, each.literals)]
        assert set(found(way, asked)) == {each.entry for each in expected}
    assert most > 50


def test_a_change_elsewhere_is_none_for_those_who_asked() -> None:
    index = index_of(Operator.EQUAL, Operator.GREATER)
    here = index.add((b"here", 1.0), Member(()))
    way, nobody = index.among({0: b"here"}), index.among({0: b"nobody"})
    before = index.changes
    others = [index.add((b"%d" % n, 1.0), Member(())) for n in range(30)]
    also_here = index.add((b"here", 2.0), Member(()))
    assert index.changes == before
    assert nobody.finder is None
    assert found(way, (b"here", 3.0)) == [here.entry, also_here.entry]
    for posting in (*others, here):
        index.remove(posting)
    assert index.changes == before
    index.remove(also_here)
    assert index.changes == before + 1
    assert way.finder is None
    index.add((b"nobody", 1.0), Member(()))
    assert index.changes == before + 2
    assert nobody.finder is not None


def test_a_part_of_the_key_is_told_of_the_first_and_the_last() -> None:
    index = index_of(Operator.EQUAL, Operator.EQUAL)
    way = index.among({0: b"name"})
    assert way.finder is None
    before = index.changes
    one, other = [index.add((b"name", value), Member(())) for value in (b"1", b"2")]
    assert way.finder is not None and index.changes == before + 1
    index.add((b"another", b"1"), Member(()))
    index.remove(one)
    assert way.finder is not None and index.changes == before + 1
    index.remove(other)
    assert way.finder is None and index.changes == before + 2


def test_nothing_leads_to_what_is_no_number() -> None:
    index = index_of(Operator.NUMBER_EQUAL, Operator.NUMBER_EQUAL)
    ways = [index.among({0: NAN}), index.among({0: NAN, 1: 1.0})]
    index.add((NAN, 1.0), Member(()))
    assert [way.finder for way in ways] == [None, None]


def test_nobody_keeps_a_way_that_nobody_has() -> None:
    index = index_of(Operator.EQUAL, Operator.EQUAL)
    for constants in ({0: b"1"}, {0: b"1", 1: b"1"}):
        seen = weakref.ref(index.among(constants))
        assert seen() is None
        kept = index.among(constants)
        assert index.among(constants) is kept
