"""Members are numbered in portions while others are added and removed."""

from __future__ import annotations

import random

import pytest

from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.template_members import TemplateMembers
from tests.matching.index.naive import satisfies_all

PARAMETERS = [
    Parameter(Operator.GREATER, 0),
    Parameter(Operator.LESS, 0),
    Parameter(Operator.EQUAL),
]


def literals(number: int) -> tuple[Literal, ...]:
    low = float(number * 7919 % 3001)
    return low, low + number % 50, b"%d" % (number % 30)


@pytest.mark.parametrize("portion", [1, 100, 300, 1000, 5000])
def test_bitmaps_contain_exactly_the_numbered_members(portion: int) -> None:
    chance = random.Random(portion)
    members = TemplateMembers(PARAMETERS)
    here = [members.add(literals(number)) for number in range(2600)]
    assert set(members.unnumbered) == set(here)
    added = 2600
    while members.unnumbered:
        waiting = len(members.unnumbered)
        assert members.number_members(portion) == min(portion, waiting)
        for _ in range(60):
            members.remove(here.pop(chance.randrange(len(here))))
            here.append(members.add(literals(added)))
            added += 1
        waiting_now = set(members.unnumbered)
        assert len(waiting_now) <= max(0, waiting - portion)
        for _ in range(4 if portion > 1 or not waiting % 100 else 0):
            check(members, [each for each in here if each not in waiting_now], chance)
    assert members.number_members(portion) == 0
    while here:
        members.remove(here.pop(chance.randrange(len(here))))
        if not len(here) % 300:
            check(members, here, chance)


def check(members: TemplateMembers, numbered: list[Member], chance: random.Random) -> None:
    value = float(chance.randrange(3050))
    row: tuple[float | bytes, ...] = (value, value, b"%d" % chance.randrange(30))
    assert set(members.select_members(members.full_bitmap)) == set(numbered)
    bits = members.full_bitmap
    for parameter, each in enumerate(row):
        bits &= members.match_bitmap(parameter, each)
    expected = {each for each in numbered if satisfies_all(PARAMETERS, row, each.literals)}
    assert set(members.select_members(bits)) == expected
