"""Signed list of a cluster's members, who may vote that the signing node's log is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.cluster.known_peers import PEER_EXPIRY
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.gone_certificate import MOST_MEMBERS, Membership, sign_membership

#: Seconds between two signed memberships, so that nodes which start together cause few.
SIGN_INTERVAL: Final = 10.0


class SignedMembers:
    """A member counts for a day after it has left the map: it may be away for a while."""

    def __init__(self, origin: str, key: SigningKey | None, last: Membership | None) -> None:
        """`key` is the node's. `last` is what an earlier process of this node has signed."""
        self._origin = origin
        has_key = key is not None and origin_has_key(origin, key.public.raw)
        self._key = key if has_key else None
        self._last = last
        self._seen_at: dict[str, float] | None = None
        self._keys: dict[str, bytes] = {} if last is None else dict(last.members)
        self._signed: tuple[tuple[str, bytes], ...] = ()
        self._sign_at = float("-inf")

    def sign(
        self, present: Mapping[str, bytes], own: str, now: float, now_ms: int, against: int = -1
    ) -> Membership | None:
        """Return a new membership if the members have changed since the last one of this process,
        or others have voted since then that this node's log is gone.

        `present` are the keys of nodes in the map. `against` is the time of the last vote.
        """
        if self._key is None:
            return None
        seen = self._seen_at
        if seen is None:
            seen = self._seen_at = dict.fromkeys(self._keys, now)
        self._keys |= {**present, own: self._key.public.raw}
        seen |= dict.fromkeys((*present, own), now)
        for name in [each for each, at in seen.items() if now - at >= PEER_EXPIRY]:
            del seen[name], self._keys[name]
        members = tuple(sorted(self._choose(own)))
        last = -1 if self._last is None else self._last.time
        has_changed = members != self._signed and (len(members) > 1 or self._last is not None)
        if now < self._sign_at or not (has_changed or against >= last > -1):
            return None
        self._sign_at, self._signed = now + SIGN_INTERVAL, members
        time = max(now_ms, last + 1, against + 1)
        self._last = sign_membership(self._key, self._origin, time, members)
        return self._last

    def _choose(self, own: str) -> list[tuple[str, bytes]]:
        """Of too many members prefer those of the last membership, then the first by name."""
        signed = dict(self._signed)
        order = sorted(self._keys, key=lambda name: (name != own, name not in signed, name))
        return [(name, self._keys[name]) for name in order[:MOST_MEMBERS]]
