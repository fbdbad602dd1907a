"""Exchange of certificates with the other sites of a group: sans-I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.errors import BadCertificate, ProtocolError
from broker.order_certificates.certificate import encode_certificate
from broker.order_certificates.comparison import Verdict
from broker.order_certificates.signing_key import PinnedKeys
from plugins.rcm.certificates.block_builder import BlockBuilder
from plugins.rcm.certificates.packet import (
    MOST_CERTIFICATES,
    MOST_PACKET_LEAVES,
    Certificates,
    LeafRequest,
    Leaves,
    decode_packet,
    encode_packet,
)
from plugins.rcm.certificates.peer import Peer
from plugins.rcm.certificates.token_bucket import PAGE_COST
from plugins.rcm.effects import EndLink, GroupEffect, SendPacket

#: Seconds between two packets of certificates to one site; the second one while more wait.
SEND_INTERVAL, BACKLOG_INTERVAL = 1.0, 0.25
#: Seconds between two looks at differences.
CHECK_INTERVAL = 1.0


class CertificateExchange:
    """Sends each new certificate to connected sites, and names the first difference from each.

    A false certificate is rejected and counted, and the link continues: the order does not depend
    on certificates. Malformed packets end the link. Beyond `token_bucket.RATE` packets of a site
    are dropped and counted.
    """

    def __init__(self, builder: BlockBuilder, keys: PinnedKeys, sites: Iterable[str]) -> None:
        """`sites` are the other ones."""
        self.builder = builder
        self._keys = keys
        self.peers = {site: Peer(site, keys, builder) for site in sites}
        """Also of sites that have left: what they signed proves events."""
        self._send_at: float | None = None
        self._check_at: float | None = None

    def find_peer(self, site: str) -> Peer:
        """Return a site's state, a new one if the site has joined the group."""
        if site not in self.peers:
            self.peers[site] = Peer(site, self._keys, self.builder)
        return self.peers[site]

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        self.find_peer(site).connect()
        self._plan(now)
        return []

    def disconnect(self, site: str, now: float) -> list[GroupEffect]:
        self.find_peer(site).disconnect()
        return []

    def receive(self, site: str, data: Sequence[bytes], now: float) -> list[GroupEffect]:
        """Handle packets that begin with `packet.MARK`."""
        peer = self.find_peer(site)
        effects: list[GroupEffect] = []
        try:
            for each in data:
                effects += self._receive_packet(peer, each, now)
        except ProtocolError as error:
            peer.rejected += 1
            peer.error = error.text
            effects.append(EndLink(site, error))
        self._plan(now)
        return effects

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        for signed in self.builder.handle_timeout(now):
            self._publish(signed.certificate.block, now)
        effects: list[GroupEffect] = []
        if self._send_at is None or now >= self._send_at:
            self._send_at = None
            effects += self._send_certificates()
            if effects:
                has_more = any(each.is_connected and each.unsent for each in self.peers.values())
                self._send_at = now + (BACKLOG_INTERVAL if has_more else SEND_INTERVAL)
        if self._check_at is not None and now >= self._check_at:
            self._check_at = None
            for peer in self.peers.values():
                effects += _request(peer, peer.inquire(now))
        self._plan(now)
        return effects

    def next_timeout(self) -> float | None:
        times = (self.builder.next_timeout(), self._send_at, self._check_at)
        return min((time for time in times if time is not None), default=None)

    def sign_block(self, block: int, now: float) -> None:
        """Sign a block at once if it has changed."""
        if self.builder.sign_block(block) is not None:
            self._publish(block, now)
            self._plan(now)

    # ----------------------------------------------------------------- within

    def _publish(self, block: int, now: float) -> None:
        for peer in self.peers.values():
            if peer.is_connected:
                peer.unsent.add(block)
            peer.compare(block, now)

    def _receive_packet(self, peer: Peer, data: bytes, now: float) -> Iterable[GroupEffect]:
        """Raises `ProtocolError`."""
        match decode_packet(data):
            case Certificates(certificates):
                for each in certificates:
                    if not peer.bucket.take(1.0, now):
                        peer.flooded += 1
                        continue
                    try:
                        peer.accept(each, now)
                    except BadCertificate as error:
                        peer.rejected += 1
                        peer.error = error.text
            case LeafRequest(block, first):
                if not peer.bucket.take(PAGE_COST, now):
                    peer.flooded += 1
                    return ()
                return [SendPacket(encode_packet(self._page(block, first)), [peer.site])]
            case Leaves() as page:
                try:
                    return _request(peer, peer.add_page(page, now))
                except BadCertificate as error:
                    peer.rejected += 1
                    peer.error = error.text
                    peer.fail_inquiry()
        return ()

    def _page(self, index: int, first: int) -> Leaves:
        block = self.builder.block(index)
        if block is None:
            return Leaves(index, first, 0, ())
        leaves = block.data[first : first + MOST_PACKET_LEAVES]
        return Leaves(index, first, block.count, tuple(leaves))

    def _send_certificates(self) -> list[GroupEffect]:
        effects: list[GroupEffect] = []
        for peer in self.peers.values():
            if peer.is_connected and peer.unsent:
                signed = peer.take_unsent(MOST_CERTIFICATES)
                if signed:
                    packet = Certificates(tuple(map(encode_certificate, signed)))
                    effects.append(SendPacket(encode_packet(packet), [peer.site]))
        return effects

    def _plan(self, now: float) -> None:
        peers = self.peers.values()
        if self._send_at is None and any(each.is_connected and each.unsent for each in peers):
            self._send_at = now
        if self._check_at is None and any(each.has_differences for each in peers):
            self._check_at = now + CHECK_INTERVAL


def _request(peer: Peer, request: LeafRequest | None) -> list[GroupEffect]:
    return [] if request is None else [SendPacket(encode_packet(request), [peer.site])]


def describe_peer(peer: Peer, now: float) -> dict[str, object]:
    """Return plain values for `status`."""
    named = peer.named
    return {
        "certificates": len(peer.certificates),
        "equal": peer.count(Verdict.EQUAL),
        "missing": peer.count(Verdict.MISSING),
        "different": sum(1 for _ in peer.settled_differences(now)),
        "first_difference": "" if named is None else str(named),
        "rejected": peer.rejected,
        "flooded": peer.flooded,
        "certificate_error": peer.error,
    }
