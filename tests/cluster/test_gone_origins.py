from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from broker.cluster import gone_origins
from broker.cluster.address import Address
from broker.cluster.gone_origins import KIND, MEMBERSHIP, MOST_CHECKS, MOST_VOTES, VOTE, GoneOrigins
from broker.cluster.known_peers import PEER_EXPIRY
from broker.cluster.messages import decode, encode
from broker.cluster.signed_members import SIGN_INTERVAL, SignedMembers
from broker.cluster.tables.table import TableKey
from broker.cluster.traffic.messages import LogLost, PageRequest
from broker.cluster.traffic.version import PROOF_VERSION
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.gone_certificate import (
    MOST_MEMBERS,
    GoneCertificate,
    Membership,
    sign_membership,
    sign_vote,
)

NOW_MS = 1_700_000_000_000
DAY = PEER_EXPIRY
UNIT = ("c",)
OWN = Address(UNIT, "own")


@attrs.define(eq=False)
class Peer:
    name: str
    key: SigningKey = attrs.field(factory=SigningKey.generate)

    @property
    def origin(self) -> str:
        return new_origin(NOW_MS, self.key.public.raw)


PEERS = {name: Peer(name) for name in ("a", "b", "m", "own")}


def members(*names: str) -> list[tuple[str, bytes]]:
    return [(name, PEERS[name].key.public.raw) for name in names]


def membership(*names: str, time: int = 100) -> Membership:
    return sign_membership(PEERS["a"].key, PEERS["a"].origin, time, members(*names))


class Site:
    """The node `own` of a cluster with `a`, `b` and `m`."""

    def __init__(self, stored: dict[tuple[bytes, str], bytes] | None = None) -> None:
        self.stored = {} if stored is None else stored
        self.tables: dict[str, dict[str, Any]] = {}
        self.present = set(PEERS)
        self.rejected: list[str] = []
        self.now = 0.0
        self.gone = GoneOrigins(
            *(PEERS["own"].origin, PEERS["own"].key, self.stored, self.put),
            lambda: NOW_MS + int(self.now * 1000),
            lambda name, _: self.rejected.append(name),
        )

    def put(self, kind: bytes, origin: str, value: bytes | None) -> None:
        if value is None:
            self.stored.pop((kind, origin), None)
        else:
            self.stored[kind, origin] = value

    def tick(self, seconds: float = 1.0) -> dict[str, Any]:
        self.now += seconds
        tables = [(TableKey(KIND, name, name), table) for name, table in self.tables.items()]
        peers = {name: PEERS[name] for name in self.present}
        reachable = {each.origin for each in peers.values()}
        state = SimpleNamespace(
            address=OWN,
            tables=SimpleNamespace(items=lambda kind: tables),
            map=SimpleNamespace(
                keys=lambda: {name: each.key.public.raw for name, each in peers.items()},
                members=lambda: peers,
            ),
            is_origin_in_cluster=lambda origin: origin in reachable,
        )
        return self.gone.tick(cast(Any, state), self.now)

    def vote(self, name: str, time: int = NOW_MS, *, signer: str = "") -> None:
        vote = sign_vote(PEERS[signer or name].key, PEERS["a"].origin, time)
        value = (membership("a", "b", "m", "own").encode(), vote.encode())
        self.tables[name] = {VOTE + PEERS["a"].origin: value}

    @property
    def is_gone(self) -> bool:
        return self.gone.is_gone(PEERS["a"].origin)


def test_own_membership_is_signed_once_and_again_when_members_change() -> None:
    site = Site()
    first = site.tick()[MEMBERSHIP]
    assert site.tick() == {}
    site.present.discard("m")
    assert site.tick(60.0) == {}, "it may be away for a while"
    assert site.tick(DAY)[MEMBERSHIP] != first
    again = Site(site.stored)
    assert MEMBERSHIP in again.tick(), "it has come back"


def test_members_are_bounded_and_the_signed_ones_stay() -> None:
    key = PEERS["own"].key
    signed = SignedMembers(PEERS["own"].origin, key, None)
    present = {f"n{n:03}": bytes(32) for n in range(100)}
    first = signed.sign(present, "own", 0.0, 1)
    assert first is not None and len(first.members) == MOST_MEMBERS
    assert "own" in dict(first.members)
    assert signed.sign({**present, "early": bytes(32)}, "own", SIGN_INTERVAL, 2) is None
    lone = SignedMembers(PEERS["own"].origin, key, None)
    assert lone.sign({}, "own", 0.0, 1) is None, "no majority is possible"
    other = SignedMembers(PEERS["b"].origin, key, None)
    assert other.sign(present, "own", 0.0, 1) is None, "the log belongs to another key"


def test_a_day_without_an_origin_is_a_vote_and_a_majority_a_certificate() -> None:
    site = Site()
    site.tables["a"] = {MEMBERSHIP: membership("a", "b", "m", "own").encode()}
    site.tick()
    site.present.discard("a")
    del site.tables["a"]
    site.tick()
    assert VOTE + PEERS["a"].origin in site.tick(DAY) and not site.is_gone
    site.vote("b", NOW_MS + 1)
    site.tick()
    assert not site.is_gone, "two of four"
    site.vote("m", NOW_MS + 2)
    site.tick()
    assert site.is_gone and not site.rejected
    assert site.gone.snapshot()[PEERS["a"].origin]["signed_by"] == ["b", "m", "own"]
    assert Site(site.stored).is_gone, "it is stored"
    site.present.add("a")
    site.tables["a"] = {
        MEMBERSHIP: membership("a", "b", time=NOW_MS + 10 * int(DAY * 1000)).encode()
    }
    changes = site.tick()
    assert not site.is_gone and changes[VOTE + PEERS["a"].origin] is None


@pytest.mark.parametrize(("time", "signer"), [(100, "b"), (NOW_MS * 2, "b"), (NOW_MS, "m")])
def test_false_votes_do_not_count(time: int, signer: str) -> None:
    """They are older than the membership, of the future, or of one node in two tables."""
    site = Site()
    site.gone.give_up(PEERS["a"].origin)
    site.vote("m")
    site.vote("b", time, signer=signer)
    site.tick()
    site.tick()
    assert not site.gone.certificates


@pytest.mark.parametrize("value", [7, b"", (), (b"", b""), (1, 2, 3), "text", None])
def test_malformed_entries_are_rejected_with_their_author(value: Any) -> None:
    site = Site()
    site.tables["m"] = {VOTE + PEERS["a"].origin: value, MEMBERSHIP: value}
    site.tick()
    assert site.rejected == ["m", "m"]
    site.tick()
    assert len(site.rejected) == 2, "each is checked once"


def test_membership_in_the_table_of_another_node_is_rejected() -> None:
    site = Site()
    site.tables["m"] = {MEMBERSHIP: membership("a", "m").encode()}
    site.tick()
    assert site.rejected == ["m"] and PEERS["a"].origin not in site.gone.memberships


def test_checks_in_a_second_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.tables["m"] = {f"{VOTE}{n}": b"" for n in range(100)}
    site.tick()
    assert len(site.rejected) == MOST_CHECKS


def test_votes_of_a_node_are_bounded() -> None:
    site = Site()
    site.tables["m"] = {f"{VOTE}{n}": b"" for n in range(MOST_VOTES + 10)}
    for _ in range(2 * MOST_VOTES // MOST_CHECKS):
        site.tick()
    assert len(site.rejected) == MOST_VOTES


def test_memberships_are_bounded_and_votes_replace_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone_origins, "MOST_ORIGINS", 2)
    site = Site()
    site.tables["b"] = {
        MEMBERSHIP: sign_membership(PEERS["b"].key, PEERS["b"].origin, 5, members("b")).encode()
    }
    site.tick()
    site.vote("m")
    site.tick()
    assert set(site.gone.memberships) == {PEERS["own"].origin, PEERS["b"].origin}
    site.tables["a"] = {MEMBERSHIP: membership("a", "b").encode()}
    site.tick()
    assert set(site.gone.memberships) == {PEERS["own"].origin, PEERS["a"].origin}
    assert {origin for _, origin in site.stored} == set(site.gone.memberships)


def report(certificate: bytes = b"", origin: str = PEERS["a"].origin) -> LogLost:
    return LogLost(OWN, Address(UNIT, "a"), 9, origin, None, certificate)


def test_reports_need_a_certificate_if_the_log_has_a_key() -> None:
    site = Site()
    origin = PEERS["a"].origin
    three = GoneCertificate(
        membership("a", "b", "m", "own"),
        tuple(sign_vote(PEERS[name].key, origin, 200) for name in ("b", "m", "own")),
    )
    own = GoneCertificate(None, (sign_vote(PEERS["a"].key, origin, 200),))
    forged = GoneCertificate(three.membership, three.votes[:2])
    accepts = site.gone.accepts
    assert accepts(report(three.encode()), OWN, "b") and accepts(report(own.encode()), OWN, "b")
    for certificate in (b"", b"forged", forged.encode()):
        assert not accepts(report(certificate), OWN, "m")
    assert not accepts(report(three.encode(), PEERS["b"].origin), OWN, "m")
    assert site.rejected == ["m"] * 4
    assert accepts(report(), Address(UNIT, "b"), "m"), "it is for another node"
    assert accepts(PageRequest(OWN, OWN, 9, origin, (1, 1)), OWN, "m")
    assert accepts(report(origin="f" * 16), OWN, "m"), "the log is of an earlier version"


def test_a_node_reports_an_earlier_log_of_its_own_key() -> None:
    site = Site()
    earlier = new_origin(NOW_MS - 60_000, PEERS["own"].key.public.raw)
    assert site.gone.accepts(report(site.gone.certificate_of(earlier), earlier), OWN, "b")
    assert site.gone.certificate_of(PEERS["own"].origin) == b""
    assert site.gone.certificate_of(PEERS["a"].origin) == b""


def test_links_of_earlier_versions_carry_no_certificate() -> None:
    message = report(b"certificate")
    assert decode(encode(message.at_version(PROOF_VERSION))) == message
    assert encode(message.at_version(PROOF_VERSION - 1)) == encode(report())
    assert decode(encode(report())) == report()
