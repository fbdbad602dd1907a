"""Blocks of one site, their publication, and the comparison with another site's."""

from __future__ import annotations

from broker.transport.order import MessageId, Stamp
from plugins.rcm.comparison.block_sequence import (
    LEAF,
    MOST_LEAF_BYTES,
    MOST_PUBLISHED,
    MOST_WAITING,
    QUIET,
    BlockSequence,
    Digest,
    Progress,
)
from plugins.rcm.comparison.peer_blocks import MOST_PAGE, PeerBlocks

NUMBERS = {"a": 0, "b": 1, "c": 2}
WIDTH = 10
BOTH = 0b11


def make(site: str = "a", width: int = WIDTH) -> BlockSequence:
    """Return the blocks of a site that has been connected with the other one for long."""
    blocks = BlockSequence(site, NUMBERS, width)
    blocks.change_view(frozenset("ab") - {site}, -1, -100.0)
    return blocks


def add(blocks: BlockSequence, site: str, number: int, time: int, *, now: float = 1.0) -> None:
    id = MessageId(site, 1, number)
    blocks.add(id, Stamp(time, site), now, is_recovered=False)
    blocks.pass_number(id)


def tell(blocks: BlockSequence, time: int, released: int, view: int = BOTH) -> None:
    blocks.record_progress("b", Progress(view, time, released, 1))


def published(blocks: BlockSequence, now: float = 1.0) -> list[int]:
    return [each.block for each in blocks.publish(now)]


def test_a_block_is_published_when_the_other_site_has_passed_it() -> None:
    blocks = make()
    for number, time in enumerate((1, 5, 12, 33), 1):
        add(blocks, "a", number, time)
    assert published(blocks) == []
    tell(blocks, 18, 0)
    assert published(blocks) == []
    add(blocks, "b", 1, 34)
    assert published(blocks) == [0]
    tell(blocks, 33, 1)
    assert published(blocks) == [1]


def test_a_block_waits_for_messages_that_the_other_site_has_sent_before() -> None:
    blocks = make()
    add(blocks, "b", 1, 5)
    add(blocks, "a", 1, 12)
    tell(blocks, 12, 2)
    # A later report does not replace the one that is not tested yet.
    tell(blocks, 40, 9)
    assert published(blocks) == []
    add(blocks, "b", 2, 13)
    assert published(blocks) == [0]


def test_no_block_counts_around_a_missing_message() -> None:
    blocks = make()
    add(blocks, "b", 1, 5)
    add(blocks, "a", 1, 12)
    add(blocks, "b", 3, 13)
    tell(blocks, 40, 3)
    add(blocks, "a", 2, 25)
    add(blocks, "a", 3, 35)
    assert published(blocks) == [2]


def test_no_block_counts_in_which_the_connected_sites_change_or_differ() -> None:
    blocks = make()
    add(blocks, "a", 1, 5)
    add(blocks, "a", 2, 12)
    blocks.change_view(frozenset("bc"), 25, 1.0)
    for number, time in ((3, 14), (4, 28), (5, 38), (6, 48)):
        add(blocks, "a", number, time, now=2.0)
    add(blocks, "a", 7, 58, now=100.0)
    add(blocks, "a", 8, 68, now=100.0)
    tell(blocks, 100, 0)
    blocks.record_released("c", 1, 0)
    blocks.record_progress("c", Progress(0b111, 100, 0, 1))
    assert published(blocks, 100.0) == []
    # b reports that it is connected with c too.
    blocks.record_released("b", 1, 1)
    tell(blocks, 100, 1, 0b111)
    assert published(blocks, 100.0) == [5]


def test_messages_of_sites_that_are_not_connected_do_not_count() -> None:
    blocks = make()
    blocks.record_released("b", 1, 1)
    tell(blocks, 100, 1)
    add(blocks, "a", 1, 5)
    add(blocks, "c", 1, 6)
    add(blocks, "a", 2, 12)
    blocks.add(MessageId("a", 1, 3), Stamp(13, "a"), 1.0, is_recovered=True)
    blocks.pass_number(MessageId("a", 1, 3))
    add(blocks, "a", 4, 25)
    add(blocks, "a", 5, 38)
    assert published(blocks) == [2]


def test_the_begin_of_a_block_is_published_after_some_silence() -> None:
    blocks = make()
    blocks.record_released("b", 1, 1)
    tell(blocks, 5, 1)
    add(blocks, "a", 1, 5)
    assert published(blocks, 1.0) == []
    assert published(blocks, 1.0 + QUIET) == [0]
    assert published(blocks, 9.0) == []
    add(blocks, "a", 2, 15, now=10.0)
    tell(blocks, 15, 1)
    (whole,) = blocks.publish(10.0)
    assert (whole.block, whole.size, whole.last) == (0, 1, b"")


def test_memory_is_bounded() -> None:
    blocks = make()
    for number in range(1, 10 * MOST_WAITING):
        add(blocks, "a", number, number * WIDTH)
    blocks.record_released("b", 1, 1)
    tell(blocks, 2**60, 1)
    assert len(published(blocks)) <= MOST_WAITING + 1
    assert len(blocks.published) <= MOST_PUBLISHED
    blocks = make(width=10_000)
    for number in range(1, 100_000):
        add(blocks, "a", number, number)
    tell(blocks, 2**60, 0)
    blocks.record_released("b", 1, 1)
    list(blocks.publish(1.0))
    sizes = [len(each.leaves) for each in blocks.published.values()]
    assert sum(sizes) <= MOST_LEAF_BYTES and len(sizes) > 1


def compared(*times: int, other: tuple[int, ...]) -> tuple[PeerBlocks, bytes]:
    """Return the comparison with b, whose block 0 has messages at other times, and its leaves."""
    sequences = [make(width=100_000) for _ in range(2)]
    digests: list[Digest] = []
    for blocks, found in zip(sequences, (times, other), strict=True):
        for number, time in enumerate(found, 1):
            add(blocks, "a", number, time)
        add(blocks, "a", len(found) + 1, 150_000)
        blocks.record_released("b", 1, 1)
        tell(blocks, 150_000, 1)
        digests += blocks.publish(1.0)
    own, others = digests
    ours, theirs = sequences
    peer = PeerBlocks("b", ours, ("a", "b", "c"))
    assert not peer.add_own(own)
    assert peer.add_other(others) is (times != other)
    return peer, bytes(theirs.published[0].leaves)


def test_equal_blocks_are_counted_once() -> None:
    peer, _ = compared(1, 2, 3, other=(1, 2, 3))
    assert (peer.equal, peer.different, peer.inquiry) == (1, 0, None)


def test_the_first_differing_message_is_named() -> None:
    for other, text in (
        ((1, 4, 5), "block 0: a/1/2 here, a/1/2 there"),
        ((1, 2), "block 0: a/1/3 here, nothing there"),
    ):
        peer, leaves = compared(1, 2, 3, other=other)
        assert (peer.different, peer.inquiry, peer.difference) == (1, 0, "block 0")
        while peer.inquiry is not None:
            page = leaves[peer.next_index * LEAF.size :][: MOST_PAGE * LEAF.size]
            peer.add_page(0, peer.next_index, page)
        assert peer.difference == text


def test_a_difference_behind_the_first_page_is_named() -> None:
    times = tuple(range(1, 2 * MOST_PAGE))
    peer, leaves = compared(*times, other=(*times[:-1], 9_999))
    assert peer.add_page(0, 0, leaves[: MOST_PAGE * LEAF.size])
    # Not requested.
    assert not peer.add_page(0, 3, leaves)
    assert not peer.add_page(0, MOST_PAGE, leaves[MOST_PAGE * LEAF.size :])
    last = f"a/1/{2 * MOST_PAGE - 1}"
    assert peer.difference == f"block 0: {last} here, {last} there"
