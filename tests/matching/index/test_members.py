"""The index answers what comparing every member would, after any adds and removes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.matching.index import intervals

from broker.matching.index import sheet

from broker.matching.index import table
from broker.matching.index.holes import Hole, Literal, Operator
from broker.matching.index.member import Member
from broker.matching.index.members import Members
from tests.matching.index.naive import Indexed, find, satisfied, satisfies

SUBJECTS = st.integers(0, 1)
NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0, math.inf, -math.inf, math.nan, float("nan")]),
    st.integers(-40, 40).map(float),
    st.floats(),
)
TEXTS = st.one_of(
    st.sampled_from([b"", b"a", b"ab", b"abc", b"abcd", b"xabcx", "Zürich".encode(), b"\xff\x00"]),
    st.text("abc", max_size=6).map(str.encode),
    st.binary(max_size=8),
)
HOLES = st.one_of(
    st.builds(Hole, st.sampled_from(list(Operator)), st.none()),
    st.builds(Hole, st.sampled_from([each for each in Operator if Hole(each).threshold]), SUBJECTS),
)


def values_for(hole: Hole) -> st.SearchStrategy[Literal]:
    return NUMBERS if hole.numeric else TEXTS


def check(indexed: Indexed, holes: Sequence[Hole], rows: Sequence[Sequence[Literal]]) -> None:
    """`find` and the others agree with the naive answer for rows with one value for a subject."""
    everyone = list(indexed)
    expected = [
        {member for member in everyone if satisfied(holes, row, member.literals)} for row in rows
    ]
    for row, wanted in zip(rows, expected, strict=True):
        same(find(indexed, row), wanted)
        for constants in (dict(enumerate(row)), dict(list(enumerate(row))[1:])):
            once = indexed.find_among(constants, [[value] for value in row], 1)
            same([member for _, those in once for member in those], wanted)
    found: list[list[Member]] = [[] for _ in rows]
    columns = [[row[hole] for row in rows] for hole in range(len(holes))]
    for at, those in indexed.find_rows(columns, len(rows)):
        found[at] += those
    for these, wanted in zip(found, expected, strict=True):
        same(these, wanted)


def check_bits(indexed: Indexed, holes: Sequence[Hole], row: Sequence[Literal]) -> None:
    members, everyone = indexed.members, list(indexed)
    same(members.members_of(members.everyone), set(everyone))
    assert members.everyone.bit_count() == len(everyone)
    for at, hole in enumerate(holes):
        bits = members.bits(at, row[at])
        assert bits & ~members.everyone == 0
        wanted = {
            member for member in everyone if satisfies(hole.operator, row[at], member.literals[at])
        }
        same(members.members_of(bits), wanted)
        same(members.members_of(members.everyone & ~bits), set(everyone) - wanted)


def same(found: Sequence[Member], wanted: set[Member]) -> None:
    assert len(found) == len(wanted) and set(found) == wanted


class Index(RuleBasedStateMachine):
    """Random holes; members come and go; every answer is checked against the naive one."""

    @initialize(holes=st.lists(HOLES, max_size=4))
    def begin(self, holes: list[Hole]) -> None:
        self.holes = holes
        self.members = Indexed(self.holes)
        self.known: list[Member] = []
        self.row = st.tuples(*map(values_for, self.holes))
        self.document = st.builds(self.same_value_for_a_subject, self.row)

    def same_value_for_a_subject(self, row: tuple[Literal, ...]) -> tuple[Literal, ...]:
        first: dict[tuple[int, bool], Literal] = {}
        return tuple(
            value if hole.subject is None else first.setdefault((hole.subject, hole.numeric), value)
            for hole, value in zip(self.holes, row, strict=True)
        )

    @rule(data=st.data())
    def add_some(self, data: st.DataObject) -> None:
        for literals in data.draw(st.lists(self.row, max_size=12)):
            before = len(self.members)
            member = self.members.add(literals)
            assert (len(self.members) > before) == (member not in self.known)
            assert self.members.add(list(literals)) is member
            if member not in self.known:
                self.known.append(member)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 8))):
            if self.known:
                at = data.draw(st.integers(0, len(self.known) - 1))
                self.members.remove(self.known.pop(at))

    @precondition(lambda self: self.known)
    @rule()
    def remove_everyone(self) -> None:
        for member in self.known:
            self.members.remove(member)
        self.known.clear()

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        check(self.members, self.holes, data.draw(st.lists(self.document, max_size=4)))

    @rule(data=st.data())
    def look_up_what_is_there(self, data: st.DataObject) -> None:
        rows = [self.same_value_for_a_subject(member.literals) for member in self.known[:5]]
        check(self.members, self.holes, rows)

    @rule(data=st.data())
    def use_bitmaps(self, data: st.DataObject) -> None:
        check_bits(self.members, self.holes, data.draw(self.row))

    @invariant()
    def has_just_the_known_ones(self) -> None:
        if hasattr(self, "members"):
            assert len(self.members) == len(self.known)
            assert set(self.members) == set(self.known)


def test_answers_are_those_of_comparing_every_member() -> None:
    run_state_machine_as_test(Index, settings=settings(max_examples=60, deadline=None))


@pytest.fixture
def small_sheets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sheets of eight, so that a few members part sheets, move between them and give them up."""
    monkeypatch.setattr(sheet, "SHEET_SIZE", 8)
    monkeypatch.setattr(table, "SHEET_SIZE", 8)
    monkeypatch.setattr(table, "_SHEET", 255)
    monkeypatch.setattr(table, "_SHEET_BYTES", 1)
    monkeypatch.setattr(table, "_PARTED", 6)
    monkeypatch.setattr(table, "_GIVEN_UP", 2)
    yield


@pytest.mark.usefixtures("small_sheets")
def test_answers_are_right_while_members_move_between_sheets() -> None:
    run_state_machine_as_test(
        Index, settings=settings(max_examples=100, stateful_step_count=30, deadline=None)
    )


def test_answers_are_right_while_windows_become_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "MAX_STRETCHES", 3)
    monkeypatch.setattr(intervals, "MAX_LISTED", 3)
    monkeypatch.setattr(intervals, "_CROWDED", 1)
    run_state_machine_as_test(
        Index, settings=settings(max_examples=100, stateful_step_count=30, deadline=None)
    )


def test_one_wide_window_does_not_list_itself_in_every_stretch_that_comes() -> None:
    holes = {0: Hole(Operator.GREATER, 0), 1: Hole(Operator.LESS, 0)}
    wide = [Member((-1.0, 10_000.0 + at)) for at in range(40)]
    narrow = [Member((float(at), at + 0.5)) for at in range(4_000)]
    index = intervals.Intervals(holes, [*wide, *narrow])
    listed = sum(map(len, index._stretches))
    assert listed < 40 * len(index.members())
    found = [member for _, those in index.find_rows([[0.25], [0.25]], 1) for member in those]
    same(found, {*wide, narrow[0]})


Maker = Callable[[random.Random], tuple[Literal, ...]]


def window(rng: random.Random) -> tuple[Literal, ...]:
    low = rng.uniform(0, 1000)
    return (low, low + 20)


def box(rng: random.Random) -> tuple[Literal, ...]:
    return (*window(rng), *window(rng))


def code(rng: random.Random) -> bytes:
    return b"%03d" % rng.randrange(1000)


TEMPLATES: dict[str, tuple[list[Operator], Maker, Maker]] = {
    "equality": (
        [Operator.EQUAL],
        lambda rng: (b"%06d" % rng.randrange(10**6),),
        lambda rng: (b"%06d" % rng.randrange(10**6),),
    ),
    "prefix": (
        [Operator.STARTS_WITH],
        lambda rng: ((b"%06d" % rng.randrange(10**6))[: rng.choice((4, 5, 6))],),
        lambda rng: (b"%08d" % rng.randrange(10**8),),
    ),
    "window": (
        [Operator.GREATER, Operator.LESS],
        window,
        lambda rng: (value := rng.uniform(0, 1000), value),
    ),
    "closed window": (
        [Operator.GREATER_EQUAL, Operator.LESS_EQUAL],
        lambda rng: (float(low := rng.randrange(3000)), float(low + rng.randrange(9))),
        lambda rng: (value := float(rng.randrange(3000)), value),
    ),
    "box": (
        [Operator.GREATER, Operator.LESS] * 2,
        box,
        lambda rng: (x := rng.uniform(0, 1000), x, y := rng.uniform(0, 1000), y),
    ),
    "status and altitude": (
        [Operator.EQUAL, Operator.GREATER],
        lambda rng: (rng.choice((b"a", b"b", b"c", b"d")), rng.uniform(0, 1000)),
        lambda rng: (rng.choice((b"a", b"b", b"e")), rng.uniform(0, 60)),
    ),
    "prefix and altitude": (
        [Operator.LESS, Operator.STARTS_WITH],
        lambda rng: (rng.uniform(0, 1000), rng.choice((b"", b"x", b"xy"))),
        lambda rng: (rng.uniform(900, 1000), rng.choice((b"", b"x", b"xyz"))),
    ),
    "texts without order": (
        [Operator.NOT_EQUAL, Operator.CONTAINS],
        lambda rng: (code(rng), code(rng)),
        lambda rng: (code(rng), code(rng) + code(rng)),
    ),
    "contains and altitude": (
        [Operator.CONTAINS, Operator.GREATER],
        lambda rng: (code(rng), rng.uniform(0, 1000)),
        lambda rng: (code(rng) * 2, rng.uniform(0, 1000)),
    ),
    "one bound for all": (
        [Operator.GREATER, Operator.NUMBER_NOT_EQUAL],
        lambda rng: (1.0, float(rng.randrange(10**6))),
        lambda rng: (rng.choice((0.0, 1.0, 2.0)), float(rng.randrange(10**6))),
    ),
}


def with_subjects(operators: Sequence[Operator]) -> list[Hole]:
    """Each two neighbours compare the same thing."""
    return [Hole(operator, at // 2) for at, operator in enumerate(operators)]


WINDOWS = ("window", "closed window", "box")


@pytest.mark.parametrize(
    ("name", "subjects"),
    [*((each, False) for each in TEMPLATES), *((each, True) for each in WINDOWS)],
)
def test_thousands_of_members_come_and_go(name: str, subjects: bool) -> None:
    operators, literals, values = TEMPLATES[name]
    holes = with_subjects(operators) if subjects else [Hole(operator) for operator in operators]
    rng = random.Random(name)
    members = Indexed(holes)
    known: list[Member] = []
    for size in (2500, 4000, 900, 3000, 40, 0, 300):
        while len(known) < size:
            before = len(members)
            member = members.add(literals(rng))
            if len(members) > before:
                known.append(member)
        rng.shuffle(known)
        while len(known) > size:
            members.remove(known.pop())
        check(members, holes, [values(rng) for _ in range(12)])
        if size in (900, 3000, 300):
            check_bits(members, holes, values(rng))


@pytest.mark.parametrize("step", [1.0, -1.0])
def test_bounds_may_come_in_order(step: float) -> None:
    holes = [Hole(Operator.GREATER), Hole(Operator.LESS_EQUAL)]
    members = Indexed(holes)
    for count in range(3000):
        members.add((count * step, count * step + 4))
    rows = [(value, value) for value in (-2999.5, -1500.0, 0.0, 2.5, 1500.0, 2999.5, 9e9)]
    check(members, holes, rows)
    for member in list(members)[::-1][:2900]:
        members.remove(member)
    check(members, holes, rows)


def test_a_template_without_holes_has_one_member_that_always_matches() -> None:
    indexed = Indexed([])
    assert not find(indexed, ())
    member = indexed.add(())
    assert indexed.add(()) is member
    assert find(indexed, ()) == [member]
    assert indexed.find_rows([], 2) == [(0, [member]), (1, [member])]
    assert indexed.members.members_of(indexed.members.everyone) == [member]
    indexed.remove(member)
    assert not indexed.find_rows([], 2) and indexed.members.everyone == 0


def test_nan_and_signed_zero_make_one_member_each() -> None:
    members = Indexed([Hole(Operator.NUMBER_NOT_EQUAL)])
    nan = members.add((math.nan,))
    assert members.add((float("nan"),)) is nan
    assert members.add((0.0,)) is members.add((-0.0,))
    assert list(find(members, (-0.0,))) == [nan]
    assert set(find(members, (math.nan,))) == set(members)


@pytest.mark.parametrize("operator", [each for each in Operator if Hole(each).numeric])
def test_the_same_nan_object_is_not_equal_to_itself(operator: Operator) -> None:
    holes = [Hole(operator), Hole(operator)]
    members = Indexed(holes)
    for literals in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan), (1.0, 1.0)):
        members.add(literals)
    check(members, holes, [(math.nan, math.nan), (1.0, math.nan), (1.0, 1.0)])
    check_bits(members, holes, (math.nan, 1.0))
    for member in list(members):
        members.remove(member)
    check(members, holes, [(math.nan, 1.0), (1.0, 1.0)])


def test_a_member_of_elsewhere_can_not_be_removed() -> None:
    members, others = Members([Hole(Operator.EQUAL)]), Members([Hole(Operator.EQUAL)])
    member = members.add((b"a",))
    with pytest.raises(KeyError):
        others.remove(member)
    others.add((b"a",))
    with pytest.raises(KeyError):
        others.remove(member)
    members.remove(member)
    with pytest.raises(KeyError):
        members.remove(member)


def test_a_member_has_a_literal_for_each_hole() -> None:
    members = Members([Hole(Operator.EQUAL)])
    with pytest.raises(ValueError, match="2 literals for 1 holes"):
        members.add((b"a", b"b"))
    assert len(members) == 0


@pytest.mark.parametrize("count", [3, 1500])
def test_a_value_may_be_a_megabyte(count: int) -> None:
    hay = b"x" * 500_000
    value = b"needle 1." + hay + b"needle 2." + hay
    literals = [b"needle %d." % at for at in range(count)]
    literals += [hay, hay + b"x", b"", b"needle 1." + hay]
    for operator, wanted in (
        (Operator.CONTAINS, {b"needle 1.", b"needle 2.", hay, b"", b"needle 1." + hay}),
        (Operator.STARTS_WITH, {b"needle 1.", b"", b"needle 1." + hay}),
    ):
        members = Indexed([Hole(operator), Hole(Operator.NOT_EQUAL)])
        for literal in literals:
            members.add((literal, b"y"))
        assert {member.literals[0] for member in find(members, (value, b"z"))} == wanted
        assert not find(members, (value, b"y"))
        assert {
            member.literals[0]
            for member in members.members.members_of(members.members.bits(0, value))
        } == (wanted)
