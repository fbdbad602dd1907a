"""Members that get their numbers in portions, while others come and go."""

from __future__ import annotations

import random

import pytest

from broker.matching.index.holes import Hole, Literal, Operator
from broker.matching.index.member import Member
from broker.matching.index.members import Members
from tests.matching.index.naive import satisfied

HOLES = [Hole(Operator.GREATER, 0), Hole(Operator.LESS, 0), Hole(Operator.EQUAL)]


def literals(number: int) -> tuple[Literal, ...]:
    low = float(number * 7919 % 3001)
    return low, low + number % 50, b"%d" % (number % 30)


@pytest.mark.parametrize("portion", [1, 100, 300, 1000, 5000])
def test_bitmaps_show_exactly_those_that_have_a_number(portion: int) -> None:
    chance = random.Random(portion)
    members = Members(HOLES)
    here = [members.add(literals(number)) for number in range(2600)]
    assert set(members.unnumbered) == set(here)
    added = 2600
    while members.unnumbered:
        waiting = len(members.unnumbered)
        assert members.number(portion) == min(portion, waiting)
        for _ in range(60):
            members.remove(here.pop(chance.randrange(len(here))))
            here.append(members.add(literals(added)))
            added += 1
        waiting_now = set(members.unnumbered)
        assert len(waiting_now) <= max(0, waiting - portion)
        for _ in range(4 if portion > 1 or not waiting % 100 else 0):
            check(members, [each for each in here if each not in waiting_now], chance)
    assert members.number(portion) == 0
    while here:
        members.remove(here.pop(chance.randrange(len(here))))
        if not len(here) % 300:
            check(members, here, chance)


def check(members: Members, numbered: list[Member], chance: random.Random) -> None:
    value = float(chance.randrange(3050))
    row = value, value, b"%d" % chance.randrange(30)
    assert set(members.members_of(members.everyone)) == set(numbered)
    bits = members.everyone
    for hole, each in enumerate(row):
        bits &= members.bits(hole, each)
    expected = {each for each in numbered if satisfied(HOLES, row, each.literals)}
    assert set(members.members_of(bits)) == expected
