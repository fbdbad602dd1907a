"""Blocks of the order at one site, from its deliveries to signed certificates.

Blocks are aligned ranges of stamps (`broker.order_certificates.certificate`), so that the sites of
a stable set divide their equal orders at the same places. A block is signed when an event of a
higher block is delivered, or `QUIET` seconds after its last event. Each later event of the block
makes the site sign it anew, after `SIGN_DELAY`, so at most twice a second.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import attrs

from broker.order_certificates.certificate import (
    NUMBER_WIDTH,
    TIME_WIDTH,
    Certificate,
    SignedCertificate,
    block_of,
    sign_certificate,
)
from broker.order_certificates.leaf import (
    Key,
    Leaf,
    decode_leaf,
    encode_identity,
    encode_leaf,
    key_of,
)
from broker.order_certificates.signing_key import SigningKey
from plugins.rcm.certificates.block import Block
from plugins.rcm.certificates.missing_ranges import MissingRanges

QUIET = 2.0
SIGN_DELAY = 0.5
#: Signatures in one turn, of some milliseconds.
MOST_SIGNATURES = 64


@attrs.frozen(kw_only=True)
class BlockBounds:
    """Bounds of the memory of a site; the lowest blocks are dropped first."""

    leaf_blocks: int = 2_048
    """Blocks with leaves. Others are only roots, and a late event makes them incomplete."""
    leaves: int = 32_768
    """In all blocks: about 12 MiB. A block that has more alone loses its leaves too."""
    blocks: int = 4_096
    """With or without leaves. A late event below them is not certified."""


class BlockBuilder:
    """Sans-I/O: the owner calls `handle_timeout` in time."""

    def __init__(
        self,
        group: str,
        site: str,
        incarnation: int,
        key: SigningKey,
        *,
        has_times: bool,
        bounds: BlockBounds | None = None,
    ) -> None:
        self.group = group
        self.site = site
        self.width = TIME_WIDTH if has_times else NUMBER_WIDTH
        self.duplicates = 0
        self.outside = 0
        """Events below all blocks, which are not certified."""
        self.signatures = 0
        self._incarnation = incarnation
        self._key = key
        self._bounds = bounds or BlockBounds()
        self._blocks: dict[int, Block] = {}
        self._indices: list[int] = []
        """Sorted."""
        self._with_leaves: list[int] = []
        """Likewise: those that have leaves."""
        self._has_dropped = False
        self._leaf_count = 0
        self._missing = MissingRanges()
        self._unsigned: set[int] = set()
        self._sign_at: float | None = None
        self._quiet_at: float | None = None

    # ----------------------------------------------------------------- events

    def add_event(self, leaf: Leaf, *, is_late: bool, now: float) -> None:
        """Add a delivered event."""
        self.add_leaf(leaf.key, encode_leaf(leaf), is_late=is_late, now=now)

    def add_leaf(self, key: Key, data: bytes, *, is_late: bool, now: float) -> None:
        """Add a delivered event by its key and its leaf as bytes."""
        stamp, _, site, incarnation, number = key
        index = stamp // self.width
        block = self._find_or_open(index, now)
        if block is None:
            self.outside += 1
            return
        if not block.has_leaves:
            # Its roots can not include the event.
            block.is_partial = True
        elif block.add(key, data, is_late=is_late):
            self._leaf_count += 1
        elif not (is_late and block.set_late(key)):
            self.duplicates += 1
            return
        beyond = self._missing.add_event(site, (incarnation, number), index)
        if beyond is not None:
            self._plan_signatures(beyond, now)
        self._plan_block(block, 1, now)

    def add_run(self, first: Key, data: Sequence[bytes], now: float) -> None:
        """Add events in time that are delivered together: their stamps and numbers follow each
        other."""
        stamp, tie, site, incarnation, number = first
        begin, count = 0, len(data)
        while begin < count:
            index = block_of(stamp + begin, self.width)
            end = min((index + 1) * self.width - stamp, count)
            key = stamp + begin, tie, site, incarnation, number + begin
            block = self._find_or_open(index, now)
            is_usual = block is not None and block.has_leaves and not self._missing.is_open
            if block is not None and is_usual and block.extend(key, data[begin:end]):
                self._leaf_count += end - begin
                self._missing.add_site(site, index)
                self._plan_block(block, end - begin, now)
            else:
                for leaf in data[begin:end]:
                    self.add_leaf(key_of(leaf), leaf, is_late=False, now=now)
            begin = end

    def _plan_block(self, block: Block, added: int, now: float) -> None:
        """Plan the signatures of a block, and of the next one, after events were added."""
        if block.index == self._indices[-1]:
            self._quiet_at = now + QUIET
        else:
            self._plan_signature(block.index, now)
            if block.count == added:
                self._plan_following(block.index, now)
        if self._leaf_count > self._bounds.leaves:
            self._drop_beyond_bounds()

    def remove_event(self, key: Key, now: float) -> None:
        """Remove an event that was not logged after all."""
        index = block_of(key[0], self.width)
        block = self._blocks.get(index)
        if block is None:
            return
        if block.remove(key):
            self._leaf_count -= 1
        else:
            block.is_partial = not block.has_leaves
        self._plan_signature(index, now)
        if not block.count:
            self._plan_following(index, now)

    def move_event(self, before: Key | None, key: Key, now: float) -> None:
        """Give a delivered event another place, as a late one; None: it had no place, nor leaf."""
        block = data = None
        if before is not None:
            block = self._blocks.get(block_of(before[0], self.width))
            data = None if block is None else block.find(before)
            self.remove_event(before, now)
        if data is not None:
            stamp, tie, *_ = key
            moved = encode_leaf(decode_leaf(data)._replace(stamp=stamp, tie=tie))
            self.add_leaf(key, moved, is_late=True, now=now)
        elif block is not None or before is None:
            # Its leaf is not known.
            index = block_of(key[0], self.width)
            self._missing.add_blocks(index, index)
            self._plan_signatures(index, now)

    def add_missing(self, site: str, incarnation: int, last: int, now: float) -> None:
        """Record that messages of a site up to this number will not come."""
        lowest = self._indices[0] if self._indices else 0
        low = self._missing.add_missing(site, (incarnation, last), lowest)
        self._plan_signatures(low, now)

    def begin_after(self, key: Key) -> None:
        """Record, before the first event, that events up to this one are not known here."""
        index = block_of(key[0], self.width)
        self._missing.add_blocks(-(2**63), index)

    # ----------------------------------------------------------------- blocks

    def certificate_of(self, index: int) -> SignedCertificate | None:
        block = self._blocks.get(index)
        return None if block is None else block.signed

    def block(self, index: int) -> Block | None:
        return self._blocks.get(index)

    @property
    def with_leaves(self) -> Sequence[int]:
        """Blocks with leaves, the lowest first."""
        return self._with_leaves

    def previous_of(self, index: int) -> int | None:
        """Return the next lower block with events; None if it is not known."""
        place = bisect_left(self._indices, index)
        while place and not self._blocks[self._indices[place - 1]].count:
            place -= 1
        return self._indices[place - 1] if place else None

    def following(self, index: int) -> int | None:
        """Return the next higher block with events."""
        place = bisect_left(self._indices, index + 1)
        return self._indices[place] if place < len(self._indices) else None

    def is_missing(self, index: int) -> bool:
        """Return True if events of a block may be missing here."""
        block = self._blocks.get(index)
        if block is None and self._has_dropped and index < self._indices[0]:
            return True
        return (block is not None and block.is_partial) or self._missing.contains(index)

    def find_event(
        self, client_id: str, incarnation: int, sequence_number: int
    ) -> tuple[Block, int] | None:
        """Return the block of an event, and its index there."""
        identity = client_id, incarnation, sequence_number
        needle = encode_identity(*identity)
        for index in reversed(self._with_leaves):
            block = self._blocks[index]
            for place, data in enumerate(block.data):
                # Other fields may contain the same bytes.
                if needle in data and identity == _identity_of(decode_leaf(data)):
                    return block, place
        return None

    def find_stamp(self, stamp: int, tie: str = "") -> tuple[Block, int] | None:
        """Return the block and index of the first event with a stamp, and this tie if given."""
        block = self._blocks.get(block_of(stamp, self.width))
        for place, leaf in enumerate(() if block is None else block.leaves()):
            if leaf.stamp == stamp and tie in ("", leaf.tie):
                assert block is not None
                return block, place
        return None

    # ----------------------------------------------------------------- time

    def handle_timeout(self, now: float) -> list[SignedCertificate]:
        """Sign the blocks that are due, the lowest first."""
        if self._quiet_at is not None and now >= self._quiet_at:
            self._quiet_at = None
            self._unsigned.add(self._indices[-1])
            self._sign_at = now
        if self._sign_at is None or now < self._sign_at:
            return []
        due = sorted(self._unsigned)[:MOST_SIGNATURES]
        self._unsigned.difference_update(due)
        self._sign_at = now + SIGN_DELAY / 10 if self._unsigned else None
        return [signed for index in due if (signed := self.sign_block(index)) is not None]

    def sign_block(self, index: int) -> SignedCertificate | None:
        """Return a new certificate; None if nothing has changed since the last one."""
        block = self._blocks.get(index)
        if block is None:
            return None
        last = block.signed
        roots = block.roots()
        certificate = Certificate(
            *(self.group, self.width, self.site, self._incarnation),
            revision=0 if last is None else last.certificate.revision,
            block=block.index,
            previous=self.previous_of(block.index),
            count_in_time=roots.events_in_time,
            root_in_time=roots.root_in_time,
            count=roots.events,
            root=roots.root,
            has_missing=self.is_missing(block.index),
        )
        if last is not None and certificate == last.certificate:
            return None
        certificate = attrs.evolve(certificate, revision=certificate.revision + 1)
        block.signed = sign_certificate(certificate, self._key)
        self.signatures += 1
        return block.signed

    def next_timeout(self) -> float | None:
        if self._quiet_at is None or self._sign_at is None:
            return self._sign_at if self._quiet_at is None else self._quiet_at
        return min(self._quiet_at, self._sign_at)

    def snapshot(self) -> dict[str, object]:
        return {
            "blocks": len(self._indices),
            "leaves": self._leaf_count,
            "newest": self._indices[-1] if self._indices else None,
            "signatures": self.signatures,
            "duplicates": self.duplicates,
            "outside": self.outside,
        }

    # ----------------------------------------------------------------- within

    def _find_or_open(self, index: int, now: float) -> Block | None:
        """Return a block, a new one if there is none; None if it is below all that fit."""
        block = self._blocks.get(index)
        if block is not None:
            return block
        indices = self._indices
        if self._has_dropped and index < indices[0]:
            return None
        self._blocks[index] = Block(index)
        if not indices or index > indices[-1]:
            if indices:
                self._plan_signature(indices[-1], now)
            indices.append(index)
        else:
            insort(indices, index)
            self._plan_following(index, now)
        insort(self._with_leaves, index)
        self._drop_beyond_bounds()
        return self._blocks.get(index)

    def _drop_beyond_bounds(self) -> None:
        bounds, with_leaves = self._bounds, self._with_leaves
        while len(with_leaves) > bounds.leaf_blocks or self._leaf_count > bounds.leaves:
            block = self._blocks[with_leaves.pop(0)]
            self._leaf_count -= block.count
            block.drop_leaves()
        while len(self._indices) > bounds.blocks:
            self._has_dropped = True
            index = self._indices.pop(0)
            block = self._blocks.pop(index)
            self._unsigned.discard(index)
            if block.has_leaves:
                with_leaves.remove(index)
                self._leaf_count -= block.count

    def _plan_signature(self, index: int, now: float) -> None:
        self._unsigned.add(index)
        if self._sign_at is None:
            self._sign_at = now + SIGN_DELAY

    def _plan_following(self, index: int, now: float) -> None:
        """Sign the next higher block anew, since its certificate names this one."""
        following = self.following(index)
        if following is not None:
            self._plan_signature(following, now)

    def _plan_signatures(self, low: int, now: float) -> None:
        """Sign blocks anew from `low` on, since one of their flags may have changed."""
        for index in self._indices[bisect_left(self._indices, low) :]:
            if self._blocks[index].signed is not None:
                self._plan_signature(index, now)


def _identity_of(leaf: Leaf) -> tuple[str, int, int]:
    client_id, _, sequence_number, incarnation = leaf.event_id
    return client_id, incarnation, sequence_number
