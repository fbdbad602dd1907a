"""Blocks of one site: where they are divided, when they are signed, and their bounds."""

from __future__ import annotations

from random import Random

import pytest

from broker.order_certificates.certificate import Certificate
from broker.order_certificates.leaf import Leaf
from broker.order_certificates.merkle import EMPTY_ROOT
from plugins.rcm.certificates.block_builder import (
    MOST_SIGNATURES,
    QUIET,
    SIGN_DELAY,
    BlockBounds,
    BlockBuilder,
)
from tests.order_certificates.leaves import make_leaf
from tests.plugins.rcm.certificates.group import PINNED, make_builder
from tests.seeds import seeds


def run(builder: BlockBuilder, until: float) -> list[Certificate]:
    """Return the certificates up to a time."""
    found = []
    while (due := builder.next_timeout()) is not None and due <= until:
        for signed in builder.handle_timeout(due):
            signed.check(PINNED)
            found.append(signed.certificate)
        after = builder.next_timeout()
        assert after is None or after > due
    return found


def add(builder: BlockBuilder, *leaves: Leaf, is_late: bool = False, now: float = 0.0) -> None:
    for leaf in leaves:
        builder.add_event(leaf, is_late=is_late, now=now)


def test_an_event_of_a_higher_block_closes_the_one_before() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 10), make_leaf(2, 255), now=1.0)
    add(builder, make_leaf(3, 256), now=1.1)
    (certificate,) = run(builder, 1.1 + SIGN_DELAY)
    assert (certificate.block, certificate.count, certificate.revision) == (0, 2, 1)
    assert certificate.previous is None
    (last,) = run(builder, 10.0)
    assert (last.block, last.count, last.previous) == (1, 1, 0)
    assert builder.next_timeout() is None


def test_times_are_divided_at_full_seconds() -> None:
    builder = make_builder(has_times=True)
    add(builder, *[make_leaf(number, number * 400_000) for number in range(1, 6)])
    found = run(builder, 10.0)
    assert [(each.block, each.count) for each in found] == [(0, 2), (1, 2), (2, 1)]
    assert {each.width for each in found} == {1_000_000}


def test_the_newest_block_is_signed_when_nothing_comes() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 10), now=1.0)
    add(builder, make_leaf(2, 11), now=2.0)
    assert run(builder, 2.0 + QUIET - 0.01) == []
    (first,) = run(builder, 2.0 + QUIET)
    add(builder, make_leaf(3, 12), now=5.0)
    (second,) = run(builder, 10.0)
    assert (first.revision, second.revision) == (1, 2)
    assert (first.count, second.count) == (2, 3)


def test_a_late_event_changes_the_second_root_only() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 10), make_leaf(3, 12), make_leaf(4, 300))
    first, _ = run(builder, 10.0)
    assert (first.count_in_time, first.root_in_time) == (first.count, first.root)
    add(builder, make_leaf(2, 11, "b"), is_late=True, now=20.0)
    (second,) = run(builder, 20.0 + SIGN_DELAY)
    assert (second.block, second.revision) == (0, 2)
    assert (second.count_in_time, second.root_in_time) == (2, first.root_in_time)
    assert second.count == 3
    assert second.root != first.root


def test_many_late_events_are_signed_together() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 1), make_leaf(2, 300))
    run(builder, 10.0)
    for number in range(3, 103):
        add(builder, make_leaf(number, number, "b"), is_late=True, now=20.0 + number / 1000)
    (certificate,) = run(builder, 30.0)
    assert (certificate.count_in_time, certificate.count) == (1, 101)


def test_a_block_of_late_events_only_has_an_empty_first_root() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 10), make_leaf(2, 600))
    assert [each.previous for each in run(builder, 10.0)] == [None, 0]
    add(builder, make_leaf(3, 300, "b"), is_late=True, now=20.0)
    middle, last = run(builder, 30.0)
    assert (middle.block, middle.count_in_time, middle.root_in_time) == (1, 0, EMPTY_ROOT)
    assert (middle.previous, last.block, last.previous) == (0, 2, 1)


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_any_sequence_of_deliveries_gives_the_same_second_roots(seed: int) -> None:
    random = Random(seed)
    leaves = [
        make_leaf(number, random.randrange(2_000), random.choice("abc")) for number in range(1, 80)
    ]
    roots = []
    for site in "ab":
        random.shuffle(leaves)
        builder = make_builder(site)
        newest: dict[int, Certificate] = {}
        now, highest = 0.0, leaves[0].key
        for leaf in leaves:
            now += random.random()
            newest.update((each.block, each) for each in run(builder, now))
            add(builder, leaf, is_late=leaf.key < highest, now=now)
            highest = max(highest, leaf.key)
        newest.update((each.block, each) for each in run(builder, now + 10.0))
        assert sum(each.count for each in newest.values()) == len(leaves)
        roots.append({b: (each.count, each.root, each.previous) for b, each in newest.items()})
    assert roots[0] == roots[1]


def test_a_repeated_event_counts_once_and_stays_late() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 10), make_leaf(2, 11))
    (first,) = run(builder, 10.0)
    add(builder, make_leaf(1, 10), now=11.0)
    assert (builder.duplicates, builder.next_timeout()) == (1, None)
    # Its commit failed, and it comes again.
    add(builder, make_leaf(1, 10), is_late=True, now=12.0)
    (second,) = run(builder, 20.0)
    assert (second.count_in_time, second.count, second.root) == (1, 2, first.root)


# ----------------------------------------------------------------------------- missing ones


def test_missing_messages_flag_the_blocks_where_they_may_belong() -> None:
    builder = make_builder()
    add(builder, make_leaf(1, 300, "b"))
    for number in range(1, 8):
        add(builder, make_leaf(number, number * 256))
    before = run(builder, 10.0)
    assert not any(each.has_missing for each in before)
    builder.add_missing("b", 1, 4, 20.0)
    flagged = run(builder, 30.0)
    assert {each.block for each in flagged} == {1, 2, 3, 4, 5, 6, 7}
    assert all(each.has_missing for each in flagged)
    # An event that was under way does not end the range.
    add(builder, make_leaf(4, 3 * 256, "b"), is_late=True, now=35.0)
    add(builder, make_leaf(5, 5 * 256, "b"), is_late=True, now=40.0)
    after = {each.block: each.has_missing for each in run(builder, 50.0)}
    assert after == {3: True, 5: True, 6: False, 7: False}
    assert [builder.is_missing(block) for block in range(8)] == [
        *(False, True, True, True, True, True, False, False)
    ]


def test_the_beginning_is_incomplete_after_a_restart() -> None:
    builder = make_builder(incarnation=2)
    builder.begin_after(make_leaf(1, 300).key)
    add(builder, make_leaf(1, 300), make_leaf(2, 600))
    found = run(builder, 10.0)
    assert [(each.block, each.has_missing) for each in found] == [(1, True), (2, False)]


def test_missing_ranges_are_bounded() -> None:
    builder = make_builder()
    for number in range(1, 1_000, 2):
        builder.add_missing("b", 1, number, 0.0)
        add(builder, make_leaf(number + 1, number * 1_000, "b"))
    ranges = builder._missing._ranges
    assert len(ranges) == 256
    # Nothing that was flagged is forgotten.
    assert all(builder.is_missing(number * 1_000 // 256) for number in range(1, 1_000, 2))


# ----------------------------------------------------------------------------- bounds


def test_old_blocks_become_roots_and_late_events_make_them_incomplete() -> None:
    builder = make_builder(bounds=BlockBounds(leaf_blocks=3))
    for number in range(6):
        add(builder, make_leaf(number + 1, number * 256))
    first = {each.block: each for each in run(builder, 10.0)}
    assert [builder.block(index).has_leaves for index in range(6)] == [  # type: ignore[union-attr]
        *(False, False, False, True, True, True)
    ]
    add(builder, make_leaf(9, 10, "b"), is_late=True, now=20.0)
    (certificate,) = run(builder, 30.0)
    assert certificate.root == first[0].root
    assert certificate.has_missing


def test_a_huge_block_is_bounded() -> None:
    builder = make_builder(has_times=True, bounds=BlockBounds(leaves=100))
    for number in range(1, 151):
        add(builder, make_leaf(number, number))
        assert builder.snapshot()["leaves"] <= 100  # type: ignore[operator]
    (certificate,) = run(builder, 10.0)
    assert certificate.has_missing


def test_the_lowest_blocks_are_dropped_at_last() -> None:
    builder = make_builder(bounds=BlockBounds(leaf_blocks=2, blocks=4))
    for number in range(10):
        add(builder, make_leaf(number + 1, number * 256))
        run(builder, number * 10.0)
    assert builder.snapshot()["blocks"] == 4
    assert builder.is_missing(3)
    add(builder, make_leaf(99, 3, "b"), is_late=True, now=200.0)
    assert builder.outside == 1
    # A new block just above takes the place of the lowest.
    assert builder.certificate_of(6) is not None
    assert builder.certificate_of(5) is None


def test_many_signatures_are_spread_over_turns() -> None:
    builder = make_builder()
    for number in range(200):
        add(builder, make_leaf(number + 1, number * 256))
    due = builder.next_timeout()
    assert due is not None
    assert len(builder.handle_timeout(due)) == MOST_SIGNATURES
    assert len(run(builder, 10.0)) == 200 - MOST_SIGNATURES


# ----------------------------------------------------------------------------- look-up


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_each_event_is_found_by_id_and_by_stamp(seed: int) -> None:
    random = Random(seed)
    builder = make_builder()
    leaves = [make_leaf(number, random.randrange(2_000), "b") for number in range(1, 60)]
    add(builder, *leaves)
    for leaf in leaves:
        client_id, _, sequence_number, incarnation = leaf.event_id
        found = builder.find_event(client_id, incarnation, sequence_number)
        assert found is not None
        block, index = found
        assert list(block.leaves())[index] == leaf
        found = builder.find_stamp(leaf.stamp, "b")
        assert found is not None
        assert list(found[0].leaves())[found[1]].stamp == leaf.stamp
    assert builder.find_event("client-b", 7, 10_000) is None
    assert builder.find_stamp(leaves[0].stamp, "c") is None
    assert builder.find_stamp(10_000) is None
