"""The index returns the same members as naive matching, after any additions and removals."""

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

from broker.matching.index import bitmap_index, interval_index, partition
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.template_members import TemplateMembers
from tests.matching.index.naive import IndexedMembers, find, satisfies, satisfies_all
from tests.seeds import some_of

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
PARAMETERS = st.one_of(
    st.builds(Parameter, st.sampled_from(list(Operator)), st.none()),
    st.builds(
        Parameter,
        st.sampled_from([each for each in Operator if Parameter(each).is_threshold]),
        SUBJECTS,
    ),
)


def values_for(parameter: Parameter) -> st.SearchStrategy[Literal]:
    return NUMBERS if parameter.is_numeric else TEXTS


def check(
    indexed: IndexedMembers, parameters: Sequence[Parameter], rows: Sequence[Sequence[Literal]]
) -> None:
    """Compare all look-ups with the naive result. Rows have one value for each subject."""
    everyone = list(indexed)
    expected = [
        {member for member in everyone if satisfies_all(parameters, row, member.literals)}
        for row in rows
    ]
    for row, wanted in zip(rows, expected, strict=True):
        assert_same(find(indexed, row), wanted)
        for constants in (dict(enumerate(row)), dict(list(enumerate(row))[1:])):
            once = indexed.match_rows_with(constants, [[value] for value in row], 1)
            assert_same([member for _, those in once for member in those], wanted)
    found: list[list[Member]] = [[] for _ in rows]
    columns = [[row[parameter] for row in rows] for parameter in range(len(parameters))]
    for at, those in indexed.match_rows(columns, len(rows)):
        found[at] += those
    for these, wanted in zip(found, expected, strict=True):
        assert_same(these, wanted)


def check_bits(
    indexed: IndexedMembers, parameters: Sequence[Parameter], row: Sequence[Literal]
) -> None:
    members, everyone = indexed.members, list(indexed)
    assert_same(members.select_members(members.full_bitmap), set(everyone))
    assert members.full_bitmap.bit_count() == len(everyone)
    for at, parameter in enumerate(parameters):
        bits = members.match_bitmap(at, row[at])
        assert bits & ~members.full_bitmap == 0
        wanted = {
            member
            for member in everyone
            if satisfies(parameter.operator, row[at], member.literals[at])
        }
        assert_same(members.select_members(bits), wanted)
        assert_same(members.select_members(members.full_bitmap & ~bits), set(everyone) - wanted)


def assert_same(found: Sequence[Member], wanted: set[Member]) -> None:
    assert len(found) == len(wanted) and set(found) == wanted


class Index(RuleBasedStateMachine):
    """Random parameters; members are added and removed; every result is compared with the naive
    one.
    """

    @initialize(parameters=st.lists(PARAMETERS, max_size=4))
    def prepare(self, parameters: list[Parameter]) -> None:
        self.parameters = parameters
        self.members = IndexedMembers(self.parameters)
        self.known: list[Member] = []
        self.row = st.tuples(*map(values_for, self.parameters))
        self.document = st.builds(self.same_value_for_a_subject, self.row)

    def same_value_for_a_subject(self, row: tuple[Literal, ...]) -> tuple[Literal, ...]:
        first: dict[tuple[int, bool], Literal] = {}
        return tuple(
            value
            if parameter.subject is None
            else first.setdefault((parameter.subject, parameter.is_numeric), value)
            for parameter, value in zip(self.parameters, row, strict=True)
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
        check(self.members, self.parameters, data.draw(st.lists(self.document, max_size=4)))

    @rule(data=st.data())
    def look_up_present_members(self, data: st.DataObject) -> None:
        rows = [self.same_value_for_a_subject(member.literals) for member in self.known[:5]]
        check(self.members, self.parameters, rows)

    @rule(data=st.data())
    def use_bitmaps(self, data: st.DataObject) -> None:
        check_bits(self.members, self.parameters, data.draw(self.row))

    @invariant()
    def has_the_known_members(self) -> None:
        if hasattr(self, "members"):
            assert len(self.members) == len(self.known)
            assert set(self.members) == set(self.known)


def test_results_equal_naive_matching() -> None:
    run_state_machine_as_test(Index, settings=settings(max_examples=60))


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Partitions of eight members, so that few members split and dissolve them."""
    monkeypatch.setattr(partition, "PARTITION_SIZE", 8)
    monkeypatch.setattr(bitmap_index, "PARTITION_SIZE", 8)
    monkeypatch.setattr(bitmap_index, "_PARTITION_MASK", 255)
    monkeypatch.setattr(bitmap_index, "_PARTITION_BYTES", 1)
    monkeypatch.setattr(bitmap_index, "_SPLIT_SIZE", 6)
    monkeypatch.setattr(bitmap_index, "_DISSOLVE_SIZE", 2)
    yield


@pytest.mark.usefixtures("small_partitions")
def test_results_are_right_while_members_move_between_partitions() -> None:
    run_state_machine_as_test(Index, settings=settings(max_examples=100, stateful_step_count=30))


def test_results_are_right_while_windows_become_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval_index, "MAX_SEGMENTS", 3)
    monkeypatch.setattr(interval_index, "MAX_SEGMENT_MEMBERS", 3)
    monkeypatch.setattr(interval_index, "_EVICTION_SIZE", 1)
    run_state_machine_as_test(Index, settings=settings(max_examples=100, stateful_step_count=30))


def test_a_wide_window_is_not_listed_in_every_new_segment() -> None:
    parameters = {0: Parameter(Operator.GREATER, 0), 1: Parameter(Operator.LESS, 0)}
    wide = [Member((-1.0, 10_000.0 + at)) for at in range(40)]
    narrow = [Member((float(at), at + 0.5)) for at in range(4_000)]
    index = interval_index.IntervalIndex(parameters, [*wide, *narrow])
    listed = sum(map(len, index._segments))
    assert listed < 40 * len(index.list_members())
    found = [member for _, those in index.match_rows([[0.25], [0.25]], 1) for member in those]
    assert_same(found, {*wide, narrow[0]})


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


def with_subjects(operators: Sequence[Operator]) -> list[Parameter]:
    """Give each two neighbours the same subject."""
    return [Parameter(operator, at // 2) for at, operator in enumerate(operators)]


WINDOWS = ("window", "closed window", "box")


@pytest.mark.parametrize(
    ("name", "subjects"),
    some_of([*((each, False) for each in TEMPLATES), *((each, True) for each in WINDOWS)], 3),
)
def test_thousands_of_members_are_added_and_removed(name: str, subjects: bool) -> None:
    operators, literals, values = TEMPLATES[name]
    parameters = (
        with_subjects(operators) if subjects else [Parameter(operator) for operator in operators]
    )
    rng = random.Random(name)
    members = IndexedMembers(parameters)
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
        check(members, parameters, [values(rng) for _ in range(12)])
        if size in (900, 3000, 300):
            check_bits(members, parameters, values(rng))


@pytest.mark.parametrize("step", [1.0, -1.0])
def test_bounds_may_come_in_order(step: float) -> None:
    parameters = [Parameter(Operator.GREATER), Parameter(Operator.LESS_EQUAL)]
    members = IndexedMembers(parameters)
    for count in range(3000):
        members.add((count * step, count * step + 4))
    rows = [(value, value) for value in (-2999.5, -1500.0, 0.0, 2.5, 1500.0, 2999.5, 9e9)]
    check(members, parameters, rows)
    for member in list(members)[::-1][:2900]:
        members.remove(member)
    check(members, parameters, rows)


def test_a_template_without_parameters_has_one_member_that_always_matches() -> None:
    indexed = IndexedMembers([])
    assert not find(indexed, ())
    member = indexed.add(())
    assert indexed.add(()) is member
    assert find(indexed, ()) == [member]
    assert indexed.match_rows([], 2) == [(0, [member]), (1, [member])]
    assert indexed.members.select_members(indexed.members.full_bitmap) == [member]
    indexed.remove(member)
    assert not indexed.match_rows([], 2) and indexed.members.full_bitmap == 0


def test_nan_and_zero_are_one_member_each() -> None:
    members = IndexedMembers([Parameter(Operator.NUMBER_NOT_EQUAL)])
    nan = members.add((math.nan,))
    assert members.add((float("nan"),)) is nan
    assert members.add((0.0,)) is members.add((-0.0,))
    assert list(find(members, (-0.0,))) == [nan]
    assert set(find(members, (math.nan,))) == set(members)


@pytest.mark.parametrize("operator", [each for each in Operator if Parameter(each).is_numeric])
def test_the_same_nan_object_is_not_equal_to_itself(operator: Operator) -> None:
    parameters = [Parameter(operator), Parameter(operator)]
    members = IndexedMembers(parameters)
    for literals in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan), (1.0, 1.0)):
        members.add(literals)
    check(members, parameters, [(math.nan, math.nan), (1.0, math.nan), (1.0, 1.0)])
    check_bits(members, parameters, (math.nan, 1.0))
    for member in list(members):
        members.remove(member)
    check(members, parameters, [(math.nan, 1.0), (1.0, 1.0)])


def test_a_member_of_another_template_can_not_be_removed() -> None:
    members, others = (
        TemplateMembers([Parameter(Operator.EQUAL)]),
        TemplateMembers([Parameter(Operator.EQUAL)]),
    )
    member = members.add((b"a",))
    with pytest.raises(KeyError):
        others.remove(member)
    others.add((b"a",))
    with pytest.raises(KeyError):
        others.remove(member)
    members.remove(member)
    with pytest.raises(KeyError):
        members.remove(member)


def test_a_member_has_a_literal_for_each_parameter() -> None:
    members = TemplateMembers([Parameter(Operator.EQUAL)])
    with pytest.raises(ValueError, match="2 literals for 1 parameters"):
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
        members = IndexedMembers([Parameter(operator), Parameter(Operator.NOT_EQUAL)])
        for literal in literals:
            members.add((literal, b"y"))
        assert {member.literals[0] for member in find(members, (value, b"z"))} == wanted
        assert not find(members, (value, b"y"))
        assert {
            member.literals[0]
            for member in members.members.select_members(members.members.match_bitmap(0, value))
        } == (wanted)
