"""History and signed statement of ranges, which the origin node adds to its frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.range_claim import claims_nothing, hash_claim, number_claims
from broker.cluster.traffic.version import PROOF_VERSION
from broker.event.origin import origin_has_key
from broker.event.place import NamedHistory
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.range_statement import ClaimHash, RangeSigner


class OwnLog(Protocol):
    @property
    def current_history(self) -> NamedHistory: ...
    @property
    def origin(self) -> str: ...
    @property
    def signing_key(self) -> SigningKey | None: ...


class VersionedLink(Protocol):
    @property
    def up(self) -> bool: ...
    @property
    def version(self) -> int: ...


class OwnFrames:
    def __init__(self, log: OwnLog, links: Iterable[VersionedLink]) -> None:
        """Without a link that can carry statements, nothing is signed."""
        self._log = log
        self._links = links
        key = log.signing_key
        has_key = key is not None and origin_has_key(log.origin, key.public.raw)
        self._signer = RangeSigner(key) if key is not None and has_key else None

    def complete(self, frame: Frame) -> None:
        """Add all to a frame that only the origin node can add."""
        frame.history = self._log.current_history
        if self._signer is not None and any(
            each.up and each.version >= PROOF_VERSION for each in self._links
        ):
            sign_ranges(frame, self._signer)


def sign_ranges(frame: Frame, signer: RangeSigner) -> None:
    """Sign the ranges of a frame that claim something, if there are any."""
    events = frame.events_by_range()
    hashes: dict[int, ClaimHash] = {}
    for index, span in enumerate(frame.ranges):
        found = events.of_range(index)
        if _may_lose_levels(frame, span) or not claims_nothing(span, found.marks):
            hashes[index] = hash_claim(span, found)
    if hashes:
        frame.statement = signer.sign(frame.origin, list(hashes.values()))
        frame.ranges = number_claims(frame.ranges, list(hashes))


def _may_lose_levels(frame: Frame, span: Range) -> bool:
    """Return True if a far link may not be cleared for all events: then any range claims that no
    others were there. In the own cluster the clearance of all links is known."""
    return frame.highest_rank > 0 and span.destination.unit != frame.origin_node.unit
