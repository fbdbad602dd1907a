"""The memory of the index is limited by its members, for any values that are looked up."""

from __future__ import annotations

import gc
import math
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from broker.matching.bitmap import iterate_numbers, select_slots
from broker.matching.index.bound_block import BoundBlocks
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.shrinking_dict import ShrinkingDict
from broker.matching.index.substring_index import MEMO_BYTES, SubstringIndex
from tests.matching.index.naive import IndexedMembers, find
from tests.seeds import further_cases, some_of

LARGEST_BLOCK = 8


def windows_of(bounds: Callable[[int], float]) -> Callable[[int], tuple[Literal, ...]]:
    return lambda at: (bounds(at), at + 5.0)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("operators", "literals"),
    [
        ([Operator.EQUAL], lambda at: (b"%06d" % at,)),
        ([Operator.GREATER, Operator.LESS], windows_of(float)),
        *further_cases(
            ([Operator.STARTS_WITH], lambda at: (b"%06d" % at,)),
            ([Operator.EQUAL, Operator.GREATER], lambda at: (b"%d" % (at % 4), float(at))),
            ([Operator.GREATER, Operator.LESS], windows_of(lambda at: -float(at))),
            ([Operator.GREATER, Operator.LESS], windows_of(lambda at: 1.0)),
            (
                [Operator.GREATER, Operator.LESS] * 2,
                lambda at: (float(at), at + 9.0, at * 7919 % 10007 + 0.5, at * 7919 % 10007 + 9.5),
            ),
        ),
    ],
)
def test_a_member_takes_little_memory_and_frees_it(
    operators: list[Operator], literals: Callable[[int], tuple[Literal, ...]]
) -> None:
    count = 2500
    members = IndexedMembers([Parameter(operator) for operator in operators])
    start = tracemalloc.get_traced_memory()[0]
    for at in range(count):
        members.add(literals(at))
    gc.collect()
    weight = tracemalloc.get_traced_memory()[0] - start
    assert weight / count <= 700
    everyone = list(members)
    random.Random(1).shuffle(everyone)
    while everyone:
        members.remove(everyone.pop())
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - start < weight / 10


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("operator", some_of(list(Operator), 4))
def test_looked_up_values_are_not_stored(operator: Operator) -> None:
    parameter = Parameter(operator)
    members = IndexedMembers([parameter, Parameter(Operator.NOT_EQUAL)])
    for at in range(50):
        members.add((float(at) if parameter.is_numeric else b"literal %d" % at, b"x"))
    find(members, (1.0 if parameter.is_numeric else b"", b"x"))
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    for at in range(0, 20_000, 500):
        values: list[Literal] = [
            at + row + 0.5 if parameter.is_numeric else b"%0200d" % (at + row) for row in range(500)
        ]
        members.match_rows([values, [b"x"] * 500], 500)
    del values
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - start < 2 * MEMO_BYTES + 20_000


def test_the_substring_memo_is_bounded_and_cleared_after_changes() -> None:
    substrings = SubstringIndex()
    substrings.add(b"a")
    for at in range(3000):
        assert substrings.find_contained(b"%0100d a" % at) == (b"a",)
        assert substrings._memo_size <= MEMO_BYTES
    assert substrings.find_contained(b"b" * 2 * MEMO_BYTES) == ()
    substrings.add(b"b")
    assert set(substrings.find_contained(b"ab")) == {b"a", b"b"}
    substrings.add(b"b")
    substrings.remove(b"b")
    assert set(substrings.find_contained(b"ab")) == {b"a", b"b"}
    substrings.remove(b"b")
    assert substrings.find_contained(b"ab") == (b"a",)


def test_a_value_is_not_searched_for_thousands_of_texts() -> None:
    substrings = SubstringIndex()
    texts = [b"text number %d;" % at for at in range(20_000)]
    for text in texts:
        substrings.add(text)
    value = b"<text number 777;>"
    began = time.process_time()
    plain = [text for text in texts if text in value]
    plainly = time.process_time() - began
    began = time.process_time()
    found = substrings.find_contained(value)
    assert list(found) == plain == [texts[777]]
    assert (time.process_time() - began) * 5 < plainly


@pytest.mark.parametrize("operator", [each for each in Operator if Parameter(each).is_threshold])
@pytest.mark.parametrize("distinct", [3, 10_000, *further_cases(1, 40)])
def test_blocks_stay_small_and_few(operator: Operator, distinct: int) -> None:
    rng = random.Random(distinct)
    bounds: dict[int, float] = {}
    blocks = BoundBlocks(operator, bounds.__getitem__)
    for size in (700, 1000, 300, 900, 5, 0):
        while len(bounds) < size:
            number = next(each for each in range(1024) if each not in bounds)
            bounds[number] = rng.choice((math.inf, -math.inf, *map(float, range(distinct))))
            blocks.add(number, bounds[number])
        while len(bounds) > size:
            number = rng.choice(list(bounds))
            blocks.remove(number, bounds[number])
            del bounds[number]
        counted = range(len(blocks.marks))
        parts = [blocks.get_block(at) for at in counted]
        assert [each for part in parts for each in part] == sorted(bounds.values())
        assert len(blocks.unions) == len(parts) + 1
        for at, part in enumerate(parts):
            assert len(part) <= LARGEST_BLOCK or len(set(part)) == 1
            assert sorted(bounds[each] for each in iterate_numbers(blocks.bitmap_of(at))) == part
            assert blocks.marks[at] == part[0 if blocks.is_rising else -1]
        assert len(parts) <= max(2, size // 2, min(size, distinct + 2))
    assert blocks.unions == [0]


def test_each_number_of_a_bitmap_is_returned_once() -> None:
    rng = random.Random(3)
    slots = list(range(3000))
    for share in (0, 1, 5, 200, 1500, 2999, 3000):
        chosen = set(rng.sample(slots, share))
        bits = sum(1 << number for number in chosen)
        assert sorted(select_slots(bits, slots)) == sorted(chosen) == sorted(iterate_numbers(bits))
        assert list(iterate_numbers(bits)) == sorted(chosen, reverse=True)


@pytest.mark.usefixtures("traced")
def test_a_shrinking_dict_frees_memory() -> None:
    known = ShrinkingDict[int, int]()
    start = tracemalloc.get_traced_memory()[0]
    for number in range(50_000):
        known[number] = number
    look = known.get
    for number in range(49_990):
        del known[number]
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - start < 200_000
    assert dict(known) == {number: number for number in range(49_990, 50_000)}
    assert look(49_995) == 49_995
