"""The messages that a site has delivered in time, in aligned blocks of stamps.

A block is compared with those of other sites if property 4 holds for it: all that time the sites
of a set saw each other as connected. The site publishes the digest of a block when each site of
its view has told the same view, and that all its messages of the block are sent, and these have
been delivered here. So nothing of a published block is under way, and its digest is final.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

import attrs

from broker.transport.order import MessageId, Stamp

#: A message in a block: time, number of the site that breaks ties, id.
LEAF: Final = Struct(">qBBQQ")
DIGEST_BYTES: Final = 16
#: Seconds after a change of the connected sites in which no block begins that is compared.
SETTLING: Final = 5.0
#: Seconds after the last message, after which the begin of a block is published.
QUIET: Final = 2.0
#: Blocks that wait for other sites; the oldest are not compared.
MOST_WAITING: Final = 256
#: Published blocks, and bytes of their messages; the oldest are dropped first.
MOST_PUBLISHED: Final = 256
MOST_LEAF_BYTES: Final = 512 << 10


class Digest(NamedTuple):
    """A block as other sites see it. Only the begin of it, if `last` is not empty."""

    block: int
    view: int
    size: int
    last: bytes
    """The last message of the begin of a block."""
    digest: bytes


@attrs.define(eq=False)
class Block:
    index: int
    is_compared: bool
    leaves: bytearray = attrs.field(factory=bytearray)


class Progress(NamedTuple):
    """A report of a site: all its later messages have stamps above `time`."""

    view: int
    time: int
    released: int
    """Number of its last message so far."""
    incarnation: int


class BlockSequence:
    def __init__(self, site: str, numbers: Mapping[str, int], width: int) -> None:
        """`numbers` are those of all sites. `width` is that of a block."""
        self.width = width
        self.published: OrderedDict[int, Block] = OrderedDict()
        self.time: int | None = None
        """Of the last message."""
        self.changed_at: float | None = None
        """Time of the last message, if its block is not published since."""
        self._site = site
        self._numbers = numbers
        self._view = frozenset([site])
        self._known: dict[str, tuple[int, int]] = {}
        """Incarnation and number of the last message of each site."""
        self._told: dict[str, Progress] = {}
        """Reports of other sites that hold here: all messages before them are delivered."""
        self._untested: dict[str, Progress] = {}
        """Reports that wait for these messages."""
        self._open: Block | None = None
        self._waiting: deque[Block] = deque()
        self._waiting_bytes = 0
        self._settled_at = 0.0
        self._lowest = -(2**63)
        """Lower blocks are not compared."""
        self._leaf_bytes = 0
        """Of published blocks."""

    # ----------------------------------------------------------------- messages

    def add(self, id: MessageId, stamp: Stamp, now: float, *, is_recovered: bool) -> None:
        """Add a message that is delivered in time: no lower stamp follows."""
        time = self.time = stamp.time
        index = time // self.width
        block = self._open
        if block is None or block.index != index:
            block = self._begin_block(index, now)
        if not block.is_compared:
            return
        numbers = self._numbers
        tie = numbers.get(stamp.site)
        if is_recovered or tie is None or id.site not in self._view:
            block.is_compared = False
            return
        block.leaves += LEAF.pack(time, tie, numbers[id.site], id.incarnation, id.number)
        self.changed_at = now

    def pass_number(self, id: MessageId) -> None:
        """Record a delivery, in time or late. Blocks do not count if one before it is missing."""
        known = self._known.get(id.site)
        if known is not None:
            if id[1:] <= known:
                return
            if known != (id.incarnation, id.number - 1):
                self.drop_unpublished()
        self._known[id.site] = id.incarnation, id.number

    def record_released(self, site: str, incarnation: int, released: int) -> None:
        """Record that earlier messages of a site do not count as missing."""
        known = self._known.get(site)
        if known is None or known < (incarnation, released):
            self._known[site] = incarnation, released

    def suspend(self, until: float) -> None:
        """Compare no block that begins before a time."""
        self.drop_unpublished()
        self._settled_at = max(self._settled_at, until)

    # ----------------------------------------------------------------- sites

    @property
    def _view_mask(self) -> int:
        return sum(1 << self._numbers[site] for site in self._view)

    def change_view(self, connected: frozenset[str], reference: int, now: float) -> bool:
        """Handle a change of the connected sites, after which stamps are above `reference`."""
        view = connected | {self._site}
        changed = view ^ self._view
        if not changed:
            return False
        self._view = view
        for site in changed:
            self._told.pop(site, None)
            self._untested.pop(site, None)
        self.suspend(now + SETTLING)
        self._lowest = max(self._lowest, reference // self.width + 1)
        return True

    def record_progress(self, site: str, progress: Progress) -> None:
        """Take a report of a site. An earlier one that waits goes first."""
        self._test(site)
        self._untested.setdefault(site, progress)
        self._test(site)

    def own_progress(self, incarnation: int, released: int) -> Progress | None:
        """Return the report for other sites; None before the first delivery."""
        if self.time is None:
            return None
        return Progress(self._view_mask, self.time, released, incarnation)

    def _test(self, site: str) -> None:
        progress = self._untested.get(site)
        if progress is None:
            return
        if self._known.get(site, (0, 0)) >= (progress.incarnation, progress.released):
            self._told[site] = self._untested.pop(site)

    # ----------------------------------------------------------------- digests

    def publish(self, now: float) -> Iterator[Digest]:
        """Yield the digests of blocks to which no site has anything to add."""
        for site in list(self._untested):
            self._test(site)
        upto, waiting, block = self._find_end(), self._waiting, self._open
        while waiting and (waiting[0].index + 1) * self.width - 1 <= upto:
            yield self._publish(self._take_waiting(), is_whole=True)
        if block is None or self.time is None or self.changed_at is None:
            return
        is_quiet = now >= self.changed_at + QUIET
        if is_quiet and block.is_compared and block.leaves and self.time <= upto:
            self.changed_at = None
            yield self._publish(block, is_whole=False)

    @property
    def has_unpublished(self) -> bool:
        return bool(self._waiting) or self.changed_at is not None

    @property
    def next_quiet(self) -> float | None:
        """Return the time at which the begin of the open block may be published."""
        return None if self.changed_at is None else self.changed_at + QUIET

    def _find_end(self) -> int:
        """Return the time up to which nothing comes from the sites of the view any more."""
        mask, end = self._view_mask, 2**63
        for site in self._view - {self._site}:
            told = self._told.get(site)
            if told is None or told.view != mask:
                return -(2**63)
            end = min(end, told.time)
        return end

    def _publish(self, block: Block, *, is_whole: bool) -> Digest:
        published = self.published
        previous = published.pop(block.index, None)
        self._leaf_bytes -= 0 if previous is None else len(previous.leaves)
        # A block that is larger than the bound is compared, and its messages are not kept.
        copy = Block(block.index, True, block.leaves if is_whole else bytearray(block.leaves))
        published[block.index] = copy
        self._leaf_bytes += len(copy.leaves)
        while len(published) > MOST_PUBLISHED or self._leaf_bytes > MOST_LEAF_BYTES:
            self._leaf_bytes -= len(published.popitem(last=False)[1].leaves)
        leaves = copy.leaves
        digest = blake2b(leaves, digest_size=DIGEST_BYTES).digest()
        last = b"" if is_whole else bytes(leaves[-LEAF.size :])
        return Digest(block.index, self._view_mask, len(leaves) // LEAF.size, last, digest)

    # ----------------------------------------------------------------- within

    def _begin_block(self, index: int, now: float) -> Block:
        if self._open is not None and self._open.is_compared:
            self._waiting.append(self._open)
            self._waiting_bytes += len(self._open.leaves)
        while len(self._waiting) > MOST_WAITING or self._waiting_bytes > MOST_LEAF_BYTES:
            self._take_waiting()
        is_compared = index >= self._lowest and now >= self._settled_at
        self._open = Block(index, is_compared)
        return self._open

    def _take_waiting(self) -> Block:
        block = self._waiting.popleft()
        self._waiting_bytes -= len(block.leaves)
        return block

    def drop_unpublished(self) -> None:
        """Compare no block that is not published yet."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._open is not None:
            self._open.is_compared = False
            self._open.leaves = bytearray()
