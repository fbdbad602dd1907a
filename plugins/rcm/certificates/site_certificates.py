"""Order certificates of one site: delivered events, the exchange, and proofs for clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias

import msgspec

from broker.order_certificates.certificate import block_of, encode_certificate
from broker.order_certificates.leaf import encode_leaves, key_of
from broker.order_certificates.merkle import path_of
from broker.order_certificates.proof import (
    MOST_PAGE_LEAVES,
    BlockPage,
    EventProof,
)
from broker.order_certificates.signing_key import PinnedKeys
from broker.transport.order import MessageId, Stamp
from plugins.rcm.certificates.block import Block
from plugins.rcm.certificates.block_builder import BlockBuilder
from plugins.rcm.certificates.exchange import CertificateExchange, describe_peer
from plugins.rcm.certificates.packet import MARK
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.effects import GroupEffect
from plugins.rcm.observer import GroupObserver

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Record(msgspec.Struct, array_like=True, gc=False):
    """The begin of an event's record (`broker.log.logged_event`)."""

    client_id: str
    timestamp: _Number
    sequence_number: _Number
    incarnation: _Number


_decode_record = msgspec.msgpack.Decoder(_Record).decode


class SiteCertificates(GroupObserver):
    """Certifies the events that are delivered.

    An event without a stamp is not certified: its block is incomplete then.
    """

    mark = MARK

    def __init__(self, builder: BlockBuilder, keys: PinnedKeys, sites: Iterable[str]) -> None:
        """`sites` are the other ones."""
        self.exchange = CertificateExchange(builder, keys, sites)
        self._builder = builder

    def restore(self, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        """Add the end of the log, in its order. Events before it are not known any more."""
        leaves = [(leaf, run.is_late) for run in runs for leaf in self._leaves_of(run, now)]
        if leaves:
            # Earlier events have lower stamps than the first one in time.
            in_time = (key_of(leaf) for leaf, is_late in leaves if not is_late)
            self._builder.begin_after(next(in_time, max(key_of(leaf) for leaf, _ in leaves)))
        for leaf, is_late in leaves:
            self._builder.add_leaf(key_of(leaf), leaf, is_late=is_late, now=now)
        return []

    def deliver(self, flow: str, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        """Certify events that are delivered now."""
        for run in runs:
            leaves = self._leaves_of(run, now)
            if run.stamp is not None and not run.is_late:
                self._builder.add_run((*run.stamp, *run.id), leaves, now)
                continue
            for leaf in leaves:
                self._builder.add_leaf(key_of(leaf), leaf, is_late=True, now=now)
        return []

    def take_back(self, taken: Sequence[tuple[MessageId, Stamp]], now: float) -> list[GroupEffect]:
        """Remove events that were not logged after all. They come again."""
        for id, stamp in taken:
            self._builder.remove_event((*stamp, *id), now)
        return []

    def move(
        self, id: MessageId, before: Stamp | None, stamp: Stamp, now: float
    ) -> list[GroupEffect]:
        """Move an event to another block, or within its block."""
        earlier = None if before is None else (*before, *id)
        self._builder.move_event(earlier, (*stamp, *id), now)
        return []

    def miss(
        self, site: str, incarnation: int, first: int, last: int, now: float
    ) -> list[GroupEffect]:
        """Handle that messages of a site up to the last number will not come."""
        self._builder.add_missing(site, incarnation, last, now)
        return []

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        return self.exchange.connect(site, now)

    def disconnect(self, site: str, now: float) -> list[GroupEffect]:
        return self.exchange.disconnect(site, now)

    def receive(self, site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        return self.exchange.receive(site, packets, now)

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        return self.exchange.handle_timeout(now)

    def next_timeout(self) -> float | None:
        return self.exchange.next_timeout()

    def snapshot(self) -> dict[str, object]:
        return {f"certificate_{name}": value for name, value in self._builder.snapshot().items()}

    def describe_site(self, site: str, now: float) -> dict[str, object]:
        """Return the comparison with another site."""
        return describe_peer(self.exchange.find_peer(site), now)

    # ----------------------------------------------------------------- proofs

    def prove_event(
        self, client_id: str, incarnation: int, sequence_number: int, now: float
    ) -> EventProof | None:
        """Return the proof of an event; None if its block has no leaves or certificate here."""
        return self._prove(self._builder.find_event(client_id, incarnation, sequence_number), now)

    def prove_stamp(self, stamp: int, tie: str, now: float) -> EventProof | None:
        """Return the proof of the first event with a stamp, and this tie if not empty."""
        return self._prove(self._builder.find_stamp(stamp, tie), now)

    def show_block(self, stamp: int, first: int, now: float) -> BlockPage | None:
        """Return the block of a stamp, or the next higher one; None if there is no higher one."""
        builder = self._builder
        index = block_of(stamp, builder.width)
        block = builder.block(index)
        if block is None:
            following = builder.following(index)
            block = None if following is None else builder.block(following)
        if block is None:
            return None
        self.exchange.sign_block(block.index, now)
        return BlockPage(
            block=block.index,
            width=builder.width,
            first=first,
            count=block.count,
            leaves=tuple(block.data[first : first + MOST_PAGE_LEAVES]),
            certificates=self._certificates_of(block.index),
            following=builder.following(block.index),
        )

    def _prove(self, found: tuple[Block, int] | None, now: float) -> EventProof | None:
        if found is None:
            return None
        block, index = found
        self.exchange.sign_block(block.index, now)
        certificates = self._certificates_of(block.index)
        if not certificates:
            return None
        proof = EventProof(
            leaf=block.data[index],
            index=index,
            path=tuple(path_of(block.hashes, index)),
            certificates=certificates,
        )
        if block.is_late(index):
            return proof
        in_time = sum(not block.is_late(each) for each in range(index))
        path = tuple(path_of(block.hashes_in_time, in_time))
        return msgspec.structs.replace(proof, index_in_time=in_time, path_in_time=path)

    def _certificates_of(self, index: int) -> tuple[bytes, ...]:
        others = (each.certificates.get(index) for each in self.exchange.peers.values())
        found = (self._builder.certificate_of(index), *others)
        return tuple(encode_certificate(each) for each in found if each is not None)

    # ----------------------------------------------------------------- events

    def _leaves_of(self, run: DeliveredRun, now: float) -> list[bytes]:
        """Return the leaves of a run; none without a stamp, or with a malformed record."""
        try:
            if run.stamp is not None:
                _, records, documents, _ = zip(*run.events, strict=True)
                identities = list(map(_decode_record, records))
                return encode_leaves((*run.stamp, *run.id), identities, documents)
        except (msgspec.MsgspecError, ValueError):
            # The node does not accept such events.
            pass
        self._builder.add_missing(*run.id.after(len(run.events) - 1), now)
        return []
