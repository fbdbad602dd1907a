"""Origins of the cluster whose logs do not come back (`docs/protocols/gone-origins.md`).

Each node signs the membership of its cluster, and the others keep the last one of each origin. When
an origin is away for a day, or an operator gives it up, a node publishes its vote. The votes of a
majority form a certificate, which every node can check. Without one, only the operator of a node
makes an origin gone, and for that node alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.known_peers import PEER_EXPIRY
from broker.cluster.network_state import NetworkState
from broker.cluster.signed_members import SignedMembers
from broker.cluster.traffic.messages import LogLost, RoutedMessage
from broker.errors import BadSignature, ProtocolError
from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin, origin_has_key
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.gone_certificate import (
    GoneCertificate,
    Membership,
    Vote,
    decode_certificate,
    decode_membership,
    decode_vote,
    sign_vote,
)

#: Kind of the table of a node, with its membership and its votes.
KIND: Final = "gone"
MEMBERSHIP: Final = "membership"
VOTE: Final = "vote:"
#: Kinds of stored values: memberships, certificates, and origins that the operator has given up.
STORED_MEMBERSHIP, STORED_CERTIFICATE, STORED_GIVEN_UP = STORED = (b"m", b"g", b"u")
#: Memberships, certificates, and given up origins each; the oldest membership is replaced.
MOST_ORIGINS: Final = 1_024
#: Votes that one node publishes, or whose votes are read.
MOST_VOTES: Final = 64
#: New statements of others that are checked in a second: a check can take milliseconds.
MOST_CHECKS: Final = 8

#: A vote counts if its time is at most so far ahead of this node's clock, and of the membership.
MOST_AHEAD_MS: Final = 86_400_000

#: Store a value under a kind and an origin; None deletes it.
Put = Callable[[bytes, str, bytes | None], object]


class GoneOrigins:
    log = Logger()

    def __init__(
        self,
        own_origin: str,
        key: SigningKey | None,
        stored: Mapping[tuple[bytes, str], bytes],
        put: Put,
        wall_clock: Callable[[], int],
        rejected: Callable[[str, ProtocolError], object],
        *,
        must_sign: bool = False,
    ) -> None:
        """`key` is the node's, if it signs. `stored` and `put` are for what outlives a restart.
        `rejected` gets the node that has sent a wrong statement. With `must_sign`, unsigned logs
        have no other way to be gone than the operator."""
        self._own_origin = own_origin
        self._key = key
        self._put = put
        self._wall_clock = wall_clock
        self._rejected = rejected
        self._must_sign = must_sign
        self.memberships: dict[str, Membership] = {}
        """The newest of each origin."""
        self.certificates: dict[str, GoneCertificate] = {}
        self.given_up: dict[str, int] = {}
        """By origin the time at which the operator gave it up, ms since 1970."""
        self._read_stored(stored)
        self._members = SignedMembers(own_origin, key, self.memberships.get(own_origin))
        self._votes: dict[str, Vote] = {}
        """Own ones, published."""
        self._absent_since: dict[str, float] = {}
        self._seen: dict[tuple[str, str], tuple[Any, Vote | None]] = {}
        """By author and entry: the value, and the vote in it."""
        self._turn = 0

    def _read_stored(self, stored: Mapping[tuple[bytes, str], bytes]) -> None:
        for (kind, origin), value in stored.items():
            with suppress(BadSignature):
                if kind == STORED_MEMBERSHIP:
                    self.memberships[origin] = decode_membership(value)
                elif kind == STORED_CERTIFICATE:
                    self.certificates[origin] = decode_certificate(value)
                elif kind == STORED_GIVEN_UP:
                    self.given_up[origin] = int.from_bytes(value, "big")

    # ------------------------------------------------------------------ questions

    def is_gone(self, flow: str) -> bool:
        """Return True if the origin of a flow does not come back, by a certificate or the
        operator."""
        origin = origin_of(flow)
        return origin in self.certificates or origin in self.given_up

    def certificate_of(self, flow: str) -> bytes:
        """Return the certificate for other nodes; empty without one.

        A node signs alone for an earlier log of its own key, which it does not have any more.
        """
        origin = origin_of(flow)
        if (found := self.certificates.get(origin)) is not None:
            return found.encode()
        key = self._key
        if key is None or origin == self._own_origin or not origin_has_key(origin, key.public.raw):
            return b""
        return GoneCertificate(None, (sign_vote(key, origin, self._wall_clock()),)).encode()

    def may_report(self, flow: str) -> bool:
        """Return whether other nodes accept a report without a certificate."""
        return not is_signed_origin(origin_of(flow))

    def accepts(self, message: RoutedMessage, own: Address, sender: str) -> bool:
        """Return False for a report to this node that neither the origin nor a majority has signed.
        `sender` is the neighbour that has sent the message."""
        if not isinstance(message, LogLost) or message.target != own:
            return True
        origin = origin_of(message.origin)
        if not message.certificate and not is_signed_origin(origin) and not self._must_sign:
            return True
        try:
            decode_certificate(message.certificate).check(origin, self.memberships.get(origin))
        except BadSignature as error:
            self._rejected(sender, error)
            return False
        return True

    def snapshot(self) -> dict[str, Any]:
        """Return the gone origins, with the nodes that have signed, for `status`."""
        return {
            origin: {
                "signed_by": self._signers(origin),
                "given_up": origin in self.given_up,
            }
            for origin in sorted({*self.certificates, *self.given_up})
        }

    def _signers(self, origin: str) -> list[str]:
        found = self.certificates.get(origin)
        if found is None or found.membership is None:
            return []
        names = {key: name for name, key in found.membership.members}
        return sorted({names[each.key] for each in found.votes if each.key in names})

    # ------------------------------------------------------------------ operator

    def give_up(self, origin: str, *, undo: bool = False) -> bool:
        """Record the word of this node's operator. Return False if nothing changes."""
        if undo:
            self._put(STORED_GIVEN_UP, origin, None)
            return self.given_up.pop(origin, None) is not None
        if origin in self.given_up or len(self.given_up) >= MOST_ORIGINS:
            return False
        now = self.given_up[origin] = self._vote_time(origin)
        self._put(STORED_GIVEN_UP, origin, now.to_bytes(8, "big"))
        return True

    # ------------------------------------------------------------------ tables

    def tick(self, state: NetworkState, now: float) -> dict[str, Any]:
        """Read the tables of others, and return changes of the own one. Call it each second."""
        votes = self._read_tables(state)
        changes: dict[str, Any] = {}
        against = max((each.time for each in votes.pop(self._own_origin, {}).values()), default=-1)
        signed = self._members.sign(
            state.map.keys(), state.address.node, now, self._wall_clock(), against
        )
        if signed is not None:
            self._record_membership(self._own_origin, signed)
            changes[MEMBERSHIP] = signed.encode()
        self._track_absent(state, now)
        changes |= self._vote(now)
        for origin, vote in self._votes.items():
            votes.setdefault(origin, {})[vote.key] = vote
        for origin, found in votes.items():
            self._certify(origin, found)
        return changes

    def _track_absent(self, state: NetworkState, now: float) -> None:
        for origin in self.memberships:
            if origin == self._own_origin or state.is_origin_in_cluster(origin):
                self._absent_since.pop(origin, None)
            else:
                self._absent_since.setdefault(origin, now)

    def _vote(self, now: float) -> dict[str, Any]:
        """Return changes of the own votes."""
        if self._key is None:
            return {}
        absent = (o for o, at in self._absent_since.items() if now - at >= PEER_EXPIRY)
        wanted = [o for o in dict.fromkeys((*self.given_up, *absent)) if self._may_vote(o)]
        changes: dict[str, Any] = {}
        for origin in [o for o in self._votes if o not in wanted]:
            del self._votes[origin]
            changes[VOTE + origin] = None
        for origin in wanted:
            membership, vote = self.memberships[origin], self._votes.get(origin)
            if vote is not None and vote.time > membership.time:
                continue
            if vote is None and len(self._votes) >= MOST_VOTES:
                break
            vote = self._votes[origin] = sign_vote(self._key, origin, self._vote_time(origin))
            changes[VOTE + origin] = (membership.encode(), vote.encode())
        return changes

    def _may_vote(self, origin: str) -> bool:
        membership = self.memberships.get(origin)
        if self._key is None or membership is None:
            return False
        return any(key == self._key.public.raw for _, key in membership.members)

    def _vote_time(self, origin: str) -> int:
        membership = self.memberships.get(origin)
        return max(self._wall_clock(), 0 if membership is None else membership.time + 1)

    def _read_tables(self, state: NetworkState) -> dict[str, dict[bytes, Vote]]:
        """Return the checked votes of others by origin and key."""
        tables = {key.author: table for key, table in state.tables.items(KIND)}
        tables.pop(state.address.node, None)
        entries = [
            (author, entry, table[entry])
            for author, table in sorted(tables.items())
            for entry in _read_entries(table)
        ]
        known = self._seen
        self._seen = {
            (author, entry): known[author, entry]
            for author, entry, value in entries
            if (author, entry) in known and known[author, entry][0] is value
        }
        origins = {name: node.origin for name, node in state.map.members().items()}
        new = [each for each in entries if each[:2] not in self._seen and each[0] in origins]
        # Nobody's statements wait for all those of another author.
        self._turn += 1
        start = self._turn % max(1, len(new))
        for author, entry, value in islice((*new[start:], *new[:start]), MOST_CHECKS):
            vote = self._read_entry(author, entry, value, origins[author])
            self._seen[author, entry] = value, vote
        votes: dict[str, dict[bytes, Vote]] = {}
        for (_, entry), (_, vote) in self._seen.items():
            if vote is not None:
                votes.setdefault(entry.removeprefix(VOTE), {})[vote.key] = vote
        return votes

    def _read_entry(
        self, author: str, entry: str, value: Any, origin_of_author: str
    ) -> Vote | None:
        """Check an entry of a table; return the vote in it."""
        try:
            if entry == MEMBERSHIP:
                membership = decode_membership(value)
                self._record_membership(origin_of_author, membership, may_replace=True)
                return None
            origin = entry.removeprefix(VOTE)
            membership, vote = _decode_vote(value)
            self._record_membership(origin, membership)
            if vote.time > max(self._wall_clock(), membership.time) + MOST_AHEAD_MS:
                raise BadSignature("a vote from the future")
            vote.check(origin)
        except ProtocolError as error:
            self._rejected(author, error)
            return None
        return vote

    def _record_membership(
        self, origin: str, membership: Membership, *, may_replace: bool = False
    ) -> None:
        """Keep the newest membership of an origin. Raises `BadSignature`.

        With `may_replace`, one of an unknown origin can replace the oldest.
        """
        known = self.memberships.get(origin)
        if known is not None and membership.time <= known.time:
            return
        membership.check(origin)
        if known is None and len(self.memberships) >= MOST_ORIGINS:
            oldest = min(self.memberships, key=lambda each: self.memberships[each].time)
            if not may_replace or oldest == self._own_origin:
                return
            del self.memberships[oldest]
            self._absent_since.pop(oldest, None)
            self._put(STORED_MEMBERSHIP, oldest, None)
        self.memberships[origin] = membership
        self._put(STORED_MEMBERSHIP, origin, membership.encode())
        self._revoke(origin, membership)

    def _revoke(self, origin: str, membership: Membership) -> None:
        """Forget that an origin is gone if it has signed a membership since then."""
        if self.given_up.get(origin, membership.time) < membership.time:
            self.give_up(origin, undo=True)
        certificate = self.certificates.get(origin)
        if certificate is None:
            return
        try:
            certificate.check(origin, membership)
        except BadSignature:
            del self.certificates[origin]
            self._put(STORED_CERTIFICATE, origin, None)
            self.log.info("the log {origin} has come back", origin=origin)

    def _certify(self, origin: str, votes: Mapping[bytes, Vote]) -> None:
        membership = self.memberships.get(origin)
        if membership is None or origin in self.certificates:
            return
        keys = {key for _, key in membership.members}
        valid = [v for key, v in votes.items() if key in keys and v.time > membership.time]
        if len(valid) < membership.votes_needed or len(self.certificates) >= MOST_ORIGINS:
            return
        certificate = GoneCertificate(membership, tuple(valid))
        self.certificates[origin] = certificate
        self._put(STORED_CERTIFICATE, origin, certificate.encode())
        self.log.warn(
            "the log {origin} does not come back: {names} have signed that",
            origin=origin,
            names=", ".join(self._signers(origin)),
        )


def _read_entries(table: Mapping[str, Any]) -> Iterator[str]:
    if MEMBERSHIP in table:
        yield MEMBERSHIP
    yield from sorted(each for each in table if each.startswith(VOTE))[:MOST_VOTES]


def _decode_vote(value: Any) -> tuple[Membership, Vote]:
    """Raises `BadSignature`."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise BadSignature("a malformed vote")
    return decode_membership(value[0]), decode_vote(value[1])
