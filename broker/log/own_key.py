"""Key of a log: it gives the log its name, and signs its own events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import attrs

from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin, new_origin, origin_has_key
from broker.event.placeholder import digest_of
from broker.event.record import PROVED, join_record, proof_of, split_record
from broker.log.logged_event import LoggedEvent
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.leaf import EventFields
from broker.signatures.proof import VERSION


@attrs.frozen
class OwnKey:
    """Key of the node, or None: then the name of a new log is random, and nothing is signed."""

    key: SigningKey | None = None
    must_sign: bool = False
    """A log with a random name takes a new one."""
    signs_commits: bool = True
    """Own events are signed when they are committed: most go to other nodes soon."""

    def new_name(self, now_ms: int) -> str:
        return new_origin(now_ms, None if self.key is None else self.key.public.raw)

    def needs_new_name(self, origin: str) -> bool:
        """Return True if the log's name belongs to another key, or to none and must do so."""
        if self.key is None or origin_has_key(origin, self.key.public.raw):
            return False
        return self.must_sign or is_signed_origin(origin)

    def make_signer(self, origin: str) -> OwnSigner | None:
        """Return None if the name does not belong to the key."""
        if self.key is None or not origin_has_key(origin, self.key.public.raw):
            return None
        return OwnSigner(self.key, origin, signs_commits=self.signs_commits)


_VERSION: Final = bytes((VERSION,))
RANDOM_NAMES: Final = OwnKey()


class OwnSigner:
    """Puts a proof into the record of each own event, at the latest when it leaves the node."""

    def __init__(self, key: SigningKey, origin: str, *, signs_commits: bool) -> None:
        self._origin = origin
        self._signer = BatchSigner(key, origin)
        self._signs_commits = signs_commits

    def sign_commit(self, events: Iterable[LoggedEvent], ordered: Collection[str]) -> None:
        """Sign the new own events of a commit. Copies of those in `ordered` flows have proofs."""
        name = self._origin
        own = [each for each in events if each.origin == name or self._is_own(each, ordered)]
        # Events of a lost branch get new places: their proofs are not valid there.
        self._sign(own if self._signs_commits else [each for each in own if _has_proof(each)])

    def sign_unsigned(self, events: Iterable[LoggedEvent]) -> None:
        """Sign the own ones among the events that have no proof yet."""
        own = [each for each in events if not _has_proof(each)]
        self._sign([each for each in own if origin_of(each.origin) == self._origin])

    def _sign(self, events: Sequence[LoggedEvent]) -> None:
        if not events:
            return
        annotations: list[bytes] = []
        placed: list[EventFields] = []
        for event in events:
            plain, annotation, _ = split_record(event.record)
            annotations.append(annotation)
            placed.append(((event.epoch, event.offset), plain, digest_of(event.document)))
        proofs = self._signer.sign(placed)
        signed = zip(events, placed, annotations, proofs, strict=True)
        for event, (_, plain, _), annotation, proof in signed:
            event.record = join_record(plain, annotation, proof)

    def _is_own(self, event: LoggedEvent, ordered: Collection[str]) -> bool:
        """Return True for an own event of another flow than the default one."""
        flow = event.origin
        return origin_of(flow) == self._origin and (event.is_withheld or flow not in ordered)


def _has_proof(event: LoggedEvent) -> bool:
    """Return False for a proof of another version, too."""
    return event.record[:1] == PROVED and proof_of(event.record)[:1] == _VERSION
