"""Certificates of messages that get another place, since two sequencers have numbered them."""

from __future__ import annotations

from random import Random

import pytest

from broker.order_certificates.comparison import Verdict, compare_certificates
from broker.order_certificates.merkle import EMPTY_ROOT
from plugins.rcm.certificates.block_builder import BlockBounds
from tests.order_certificates.leaves import make_leaf
from tests.plugins.rcm.certificates.group import Group, make_builder
from tests.plugins.rcm.certificates.test_block_builder import add, run
from tests.plugins.rcm.certificates.test_exchange import AGES, make_leaves, state
from tests.seeds import seeds


def test_a_message_that_moves_is_late_in_the_block_of_its_lower_number() -> None:
    """The other site has delivered it there."""
    leaves = [make_leaf(1, 10), make_leaf(2, 20), make_leaf(3, 300), make_leaf(4, 900)]
    here, there = make_builder("a"), make_builder("b")
    add(there, *leaves)
    higher = leaves[1]._replace(stamp=600)
    add(here, leaves[0], leaves[2], higher, leaves[3])
    assert len(run(here, 5.0)) == 4
    here.move_event(higher.key, leaves[1].key, 6.0)
    run(here, 20.0)
    run(there, 20.0)
    for index in (0, 1, 3):
        ours, theirs = (each.certificate_of(index) for each in (here, there))
        assert ours is not None and theirs is not None
        assert compare_certificates(ours.certificate, theirs.certificate) is Verdict.EQUAL
        assert ours.certificate.previous == theirs.certificate.previous
        assert not ours.certificate.has_missing
    signed = here.certificate_of(0)
    assert signed is not None and signed.certificate.count_in_time == 1
    empty = here.certificate_of(2)
    assert empty is not None and empty.certificate.root == EMPTY_ROOT
    add(here, make_leaf(5, 610), is_late=True, now=21.0)
    run(here, 30.0)
    last = here.certificate_of(3)
    assert last is not None and last.certificate.previous == 2


def test_a_message_whose_leaf_is_dropped_makes_its_new_block_incomplete() -> None:
    builder = make_builder(bounds=BlockBounds(leaf_blocks=1))
    leaves = [make_leaf(1, 10), make_leaf(2, 300), make_leaf(3, 600)]
    add(builder, *leaves)
    assert not builder.is_missing(0)
    builder.move_event(leaves[1].key, leaves[1]._replace(stamp=20).key, 1.0)
    assert builder.is_missing(0) and builder.is_missing(1) and not builder.is_missing(2)


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_roots_are_equal_when_messages_of_both_sides_have_one_number(seed: int) -> None:
    random = Random(seed)
    leaves = make_leaves(random, 100)
    numbers = random.sample(range(8 * 256, 16 * 256), len(leaves))
    higher = [
        leaf._replace(stamp=number) if random.random() < 0.3 else leaf
        for leaf, number in zip(leaves, numbers, strict=True)
    ]
    group = Group()
    group.deliver("a", leaves)
    group.deliver("b", higher)
    group.run(10.0)
    group.connect()
    group.run(random.choice((0.0, 1.0, AGES)))
    for before, after in zip(higher, leaves, strict=True):
        if before is not after:
            group.sites["b"].builder.move_event(before.key, after.key, group.now)
    group.run(AGES)
    for site, other in ("ab", "ba"):
        found = state(group, site, other)
        assert (found["missing"], found["different"], found["rejected"]) == (0, 0, 0)
        assert found["first_difference"] == "" and found["equal"] == found["certificates"]
