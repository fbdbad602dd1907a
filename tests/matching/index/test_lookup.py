"""Lookups stay up to date when their index changes."""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from broker.matching.index.lookup import Lookup
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.predicate_index import Constants
from broker.matching.index.shared_index import IndexPool, SharedIndex, Signature
from tests.matching.index.naive import satisfies_all

NAN = float("nan")
TEXTS = (b"a", b"b", b"c")
NUMBERS = (1.0, 2.0, 3.0)


def index_of(*operators: Operator) -> SharedIndex:
    parameters = tuple(Parameter(operator, 0) for operator in operators)
    return IndexPool().get_index(Signature(parameters, (0,) * len(parameters)))


def found(lookup: Lookup, values: Sequence[Literal]) -> list[Any]:
    """Return the members that the lookup finds for a document with these values."""
    if lookup.matcher is None:
        return []
    columns: list[Sequence[Literal]] = [
        [value] if at in lookup.positions else () for at, value in enumerate(values)
    ]
    return [posting.entry for _, hits in lookup.matcher.match_rows(columns, 1) for posting in hits]


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
def test_a_lookup_finds_the_present_members(
    operators: list[Operator], positions: list[tuple[int, ...]]
) -> None:
    chance = random.Random(1)
    index = index_of(*operators)
    parameters = [Parameter(operator) for operator in operators]
    lookups: dict[tuple[tuple[int, Literal], ...], Lookup] = {}
    here: list[Member] = []
    most = 0

    def literal(parameter: Parameter) -> Literal:
        return chance.choice(NUMBERS) if parameter.is_numeric else chance.choice(TEXTS)

    for turn in range(1500):
        growing = turn % 500 < 250
        if not here or chance.random() < (0.7 if growing else 0.3):
            here.append(index.add(tuple(map(literal, parameters)), Member(())))
        else:
            index.remove(here.pop(chance.randrange(len(here))))
        most = max(most, len(here))
        # All thresholds have the same subject here.
        ordered = chance.choice(NUMBERS)
        asked = tuple(
            [ordered if parameter.is_threshold else literal(parameter) for parameter in parameters]
        )
        constants: Constants = {at: asked[at] for at in chance.choice(positions)}
        key = tuple(constants.items())
        lookup = lookups.setdefault(key, index.lookup_for(constants))
        assert lookup is index.lookup_for(constants)
        expected = [each for each in here if satisfies_all(parameters, asked, each.literals)]
        assert set(found(lookup, asked)) == {each.entry for each in expected}
    assert most > 50


def test_a_lookup_changes_only_with_its_own_members() -> None:
    index = index_of(Operator.EQUAL, Operator.GREATER)
    here = index.add((b"here", 1.0), Member(()))
    lookup, nobody = index.lookup_for({0: b"here"}), index.lookup_for({0: b"nobody"})
    before = index.version
    others = [index.add((b"%d" % n, 1.0), Member(())) for n in range(30)]
    also_here = index.add((b"here", 2.0), Member(()))
    assert index.version == before
    assert nobody.matcher is None
    assert found(lookup, (b"here", 3.0)) == [here.entry, also_here.entry]
    for posting in (*others, here):
        index.remove(posting)
    assert index.version == before
    index.remove(also_here)
    assert index.version == before + 1
    assert lookup.matcher is None
    index.add((b"nobody", 1.0), Member(()))
    assert index.version == before + 2
    assert nobody.matcher is not None


def test_a_partial_lookup_changes_with_its_first_and_last_member() -> None:
    index = index_of(Operator.EQUAL, Operator.EQUAL)
    lookup = index.lookup_for({0: b"name"})
    assert lookup.matcher is None
    before = index.version
    one, other = [index.add((b"name", value), Member(())) for value in (b"1", b"2")]
    assert lookup.matcher is not None and index.version == before + 1
    index.add((b"another", b"1"), Member(()))
    index.remove(one)
    assert lookup.matcher is not None and index.version == before + 1
    index.remove(other)
    assert lookup.matcher is None and index.version == before + 2


def test_nan_constants_find_nothing() -> None:
    index = index_of(Operator.NUMBER_EQUAL, Operator.NUMBER_EQUAL)
    lookups = [index.lookup_for({0: NAN}), index.lookup_for({0: NAN, 1: 1.0})]
    index.add((NAN, 1.0), Member(()))
    assert [lookup.matcher for lookup in lookups] == [None, None]


def test_unreferenced_lookups_are_freed() -> None:
    index = index_of(Operator.EQUAL, Operator.EQUAL)
    for constants in ({0: b"1"}, {0: b"1", 1: b"1"}):
        seen = weakref.ref(index.lookup_for(constants))
        assert seen() is None
        kept = index.lookup_for(constants)
        assert index.lookup_for(constants) is kept
