"""Digests of one other site's blocks of one variant, compared with own ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from broker.transport.order import MessageId
from broker.transport.order.delivery_check import text_of
from plugins.rcm.comparison.block_sequence import LEAF, MOST_PUBLISHED, BlockSequence, Digest

#: Messages in one page.
MOST_PAGE: Final = 512


class PeerBlocks:
    """The verdict about one site: counts of blocks, and the first difference."""

    def __init__(self, site: str, blocks: BlockSequence, names: Sequence[str]) -> None:
        """`names` are all sites by number."""
        self.site = site
        self.different = 0
        self.difference = ""
        self.inquiry: int | None = None
        """The block whose messages are requested from the site."""
        self._blocks = blocks
        self._names = names
        self._digests: OrderedDict[int, Digest] = OrderedDict()
        self._own: OrderedDict[int, Digest] = OrderedDict()
        self._equal: OrderedDict[int, None] = OrderedDict()
        self._earlier = 0
        """Equal blocks that are not remembered any more."""
        self._read = 0
        """Messages of the inquiry that are equal."""

    @property
    def equal(self) -> int:
        return self._earlier + len(self._equal)

    def add_own(self, digest: Digest) -> bool:
        """Compare a block that is published. Return True for the first difference."""
        _remember(self._own, digest)
        return self._compare(digest.block)

    def add_other(self, digest: Digest) -> bool:
        """Compare a block of the site. Return True for the first difference."""
        _remember(self._digests, digest)
        return self._compare(digest.block)

    def _compare(self, index: int) -> bool:
        own, other = self._own.get(index), self._digests.get(index)
        if own is None or other is None or (own.view, own.last) != (other.view, other.last):
            return False
        if own == other:
            self._equal[index] = None
            if len(self._equal) > MOST_PUBLISHED:
                self._equal.popitem(last=False)
                self._earlier += 1
            return False
        self._equal.pop(index, None)
        self.different += 1
        if self.difference:
            return False
        self.difference = f"block {index}"
        self.inquiry, self._read = index, 0
        return True

    # ----------------------------------------------------------------- the first difference

    @property
    def next_index(self) -> int:
        """Return the index of the next message to request."""
        return self._read

    def add_page(self, index: int, first: int, page: bytes) -> bool:
        """Compare messages of the site. Return True if the next page is to be requested."""
        if index != self.inquiry or first != self._read:
            return False
        block = self._blocks.published.get(index)
        begin = first * LEAF.size
        own = b"" if block is None else bytes(block.leaves[begin : begin + MOST_PAGE * LEAF.size])
        if not own or not page:
            self._name(index, own, page)
            return False
        count = min(len(own), len(page)) // LEAF.size
        for place in range(0, count * LEAF.size, LEAF.size):
            ours, theirs = own[place : place + LEAF.size], page[place : place + LEAF.size]
            if ours != theirs:
                self._name(index, ours, theirs)
                return False
        self._read += count
        return True

    def _name(self, index: int, ours: bytes, theirs: bytes) -> None:
        self.inquiry = None
        if ours or theirs:
            here, there = self._text(ours), self._text(theirs)
            self.difference = f"block {index}: {here} here, {there} there"

    def _text(self, leaf: bytes) -> str:
        if len(leaf) < LEAF.size:
            return "nothing"
        _, _, site, incarnation, number = LEAF.unpack_from(leaf)
        name = self._names[site] if site < len(self._names) else str(site)
        return text_of(MessageId(name, incarnation, number))


def _remember(digests: OrderedDict[int, Digest], digest: Digest) -> None:
    digests.pop(digest.block, None)
    digests[digest.block] = digest
    if len(digests) > MOST_PUBLISHED:
        digests.popitem(last=False)
