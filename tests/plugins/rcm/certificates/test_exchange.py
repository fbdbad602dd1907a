"""Exchange of certificates: partitions, named differences, false ones and floods."""

from __future__ import annotations

from random import Random

import attrs
import msgspec
import pytest

from broker.errors import ProtocolError
from broker.order_certificates.certificate import (
    Certificate,
    encode_certificate,
    sign_certificate,
)
from broker.order_certificates.comparison import Difference, Kind
from broker.order_certificates.leaf import Leaf, digest_of
from broker.order_certificates.signing_key import SigningKey
from plugins.rcm.certificates.block_builder import BlockBounds
from plugins.rcm.certificates.exchange import describe_peer
from plugins.rcm.certificates.leaf_inquiry import MOST_ATTEMPTS, PATIENCE
from plugins.rcm.certificates.packet import (
    Certificates,
    LeafRequest,
    Leaves,
    decode_packet,
    encode_packet,
)
from plugins.rcm.certificates.peer import MOST_CERTIFICATES, SETTLING, NamedDifference
from plugins.rcm.certificates.token_bucket import BURST, PAGE_COST, RATE
from tests.order_certificates.leaves import make_leaf
from tests.plugins.rcm.certificates.group import KEYS, Group
from tests.seeds import seeds

AGES = 60.0


def make_leaves(random: Random, count: int, blocks: int = 8) -> list[Leaf]:
    leaves = [
        make_leaf(number, random.randrange(blocks * 256), random.choice("ab"))
        for number in range(1, count + 1)
    ]
    return sorted(leaves, key=lambda leaf: leaf.key)


def state(group: Group, site: str, other: str = "b") -> dict[str, object]:
    return describe_peer(group.sites[site].peers[other], group.now)


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_after_a_partition_all_second_roots_are_equal(seed: int) -> None:
    random = Random(seed)
    leaves = make_leaves(random, random.randrange(20, 200))
    group = Group()
    # Each side delivers its own events first, and those of the other one late.
    for site in "ab":
        group.deliver(site, sorted(leaves, key=lambda leaf: leaf.site != site))
    group.run(10.0)
    assert group.packets == []
    group.connect()
    group.run(AGES)
    blocks = len({leaf.stamp // 256 for leaf in leaves})
    for site, other in ("ab", "ba"):
        found = state(group, site, other)
        assert (found["certificates"], found["equal"]) == (blocks, blocks)
        assert (found["missing"], found["different"], found["rejected"]) == (0, 0, 0)
        assert found["first_difference"] == ""


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_the_first_difference_is_named_at_both_sites(seed: int) -> None:
    random = Random(seed)
    leaves = make_leaves(random, random.randrange(20, 200))
    first, later = sorted(random.sample(range(len(leaves)), 2))
    leaf, second = leaves[first], leaves[later]
    kind = random.choice(("changed", "dropped", "doubled", "swapped"))
    other = list(leaves)
    match kind:
        case "changed":
            other[first] = leaf._replace(digest=digest_of(b"other"))
        case "dropped":
            del other[first]
        case "doubled":
            other.insert(first + 1, leaf._replace(number=10_000))
        case "swapped":
            other[first] = leaf._replace(event_id=second.event_id, digest=second.digest)
            other[later] = second._replace(event_id=leaf.event_id, digest=leaf.digest)
    group = Group()
    group.deliver("a", leaves)
    group.deliver("b", sorted(other, key=lambda each: each.key))
    group.connect()
    group.run(SETTLING / 2)
    assert state(group, "a")["first_difference"] == ""
    group.run(AGES)
    block = leaf.stamp // 256
    opposite = {"dropped": "added"}
    for site, peer in ("ab", "ba"):
        named = group.sites[site].peers[peer].named
        assert named is not None and named.difference is not None
        assert named.block == block
        found = named.difference.leaf.event_id
        assert found == leaf.event_id or (site == "b" and found == second.event_id)
        assert named.difference.kind.value == (kind if site == "a" else opposite.get(kind, kind))
    assert state(group, "a")["different"] in (1, 2, 3)


def test_a_difference_that_ends_is_not_named_any_more() -> None:
    group = Group()
    leaves = make_leaves(Random(1), 50)
    group.deliver("a", leaves)
    group.deliver("b", leaves[:20] + leaves[21:])
    group.connect()
    group.run(AGES)
    found = state(group, "a")
    block = leaves[20].stamp // 256
    assert found["first_difference"] == f"block {block}: dropped {leaves[20].event_id}"
    group.sites["b"].builder.add_event(leaves[20], is_late=True, now=group.now)
    group.run(AGES)
    for site, other in ("ab", "ba"):
        assert state(group, site, other)["first_difference"] == ""
        assert state(group, site, other)["different"] == 0


def test_events_that_are_known_to_be_missing_are_no_difference() -> None:
    group = Group()
    leaves = [make_leaf(number, number * 100, "b") for number in range(1, 20)]
    group.deliver("b", leaves)
    group.deliver("a", leaves[:5])
    group.sites["a"].builder.add_missing("b", 1, 8, group.now)
    group.deliver("a", leaves[8:])
    group.connect()
    group.run(AGES)
    # Block 2 has no event at a, and so no certificate.
    for site, other, missing in (("a", "b", 2), ("b", "a", 1)):
        found = state(group, site, other)
        assert (found["missing"], found["different"]) == (missing, 0)
        assert found["first_difference"] == ""


@pytest.mark.parametrize("lacks", ["a", "b"])
def test_a_whole_block_that_one_site_has_not_is_named(lacks: str) -> None:
    group = Group()
    leaves = [make_leaf(number, number * 256) for number in range(1, 6)]
    for site in "ab":
        group.deliver(site, [leaf for leaf in leaves if site != lacks or leaf is not leaves[2]])
    group.connect()
    group.run(AGES)
    for site, other in ("ab", "ba"):
        kind = Kind.ADDED if site == lacks else Kind.DROPPED
        named = group.sites[site].peers[other].named
        assert named == NamedDifference(3, Difference(kind, leaves[2]))


def test_large_blocks_are_compared_page_by_page() -> None:
    group = Group()
    leaves = [make_leaf(number, 5) for number in range(1, 1_001)]
    group.deliver("a", leaves)
    group.deliver("b", leaves[:-1])
    group.connect()
    group.run(AGES)
    named = group.sites["a"].peers["b"].named
    assert named == NamedDifference(0, Difference(Kind.DROPPED, leaves[-1]))
    pages = [
        found for _, _, data in group.packets if isinstance(found := decode_packet(data), Leaves)
    ]
    assert max(len(page.leaves) for page in pages) == 256


def test_a_restarted_site_gets_all_certificates_again() -> None:
    group = Group()
    leaves = make_leaves(Random(1), 50)
    for site in "ab":
        group.deliver(site, leaves)
    group.connect()
    group.run(AGES)
    group.cut()
    group.restart("b", 2)
    group.deliver("b", leaves)
    group.connect()
    group.run(AGES)
    for site, other in ("ab", "ba"):
        assert state(group, site, other)["equal"] == state(group, site, other)["certificates"] == 8


def test_three_sites_compare_in_pairs() -> None:
    group = Group("abc")
    leaves = make_leaves(Random(1), 50)
    group.deliver("a", leaves)
    group.deliver("b", leaves)
    group.deliver("c", leaves[1:])
    group.connect()
    group.run(AGES)
    assert state(group, "a", "b")["different"] == 0
    assert state(group, "a", "c")["different"] == 1
    assert state(group, "b", "c")["different"] == 1


def test_dropped_leaves_leave_the_event_unnamed() -> None:
    group = Group(bounds=BlockBounds(leaf_blocks=2))
    leaves = [make_leaf(number, number * 100) for number in range(1, 20)]
    group.deliver("a", leaves)
    group.deliver("b", leaves[1:])
    for site in "ab":
        # Also certificates of blocks without leaves.
        exchange = group.sites[site]
        for peer in exchange.peers.values():
            peer.unsent.update(range(8))
    group.connect()
    group.run(AGES)
    assert group.sites["a"].peers["b"].named == NamedDifference(0, None)


def test_a_site_that_does_not_answer_is_asked_a_few_times_only() -> None:
    group = Group()
    leaves = make_leaves(Random(1), 50)
    group.deliver("a", leaves)
    group.deliver("b", leaves[1:])
    group.change = lambda site, data: None if isinstance(decode_packet(data), Leaves) else data
    group.connect()
    group.run(20 * PATIENCE)
    requests = [
        site
        for site, _, data in group.packets
        if site == "a" and isinstance(decode_packet(data), LeafRequest)
    ]
    assert len(requests) == MOST_ATTEMPTS
    named = group.sites["a"].peers["b"].named
    assert named is not None and named.difference is None


def test_leaves_that_were_not_signed_are_rejected() -> None:
    group = Group()
    leaves = make_leaves(Random(1), 50)
    group.deliver("a", leaves)
    group.deliver("b", leaves[1:])

    def change(site: str, data: bytes) -> bytes:
        packet = decode_packet(data)
        if not isinstance(packet, Leaves) or site != "b":
            return data
        return encode_packet(msgspec.structs.replace(packet, leaves=packet.leaves[::-1]))

    group.change = change
    group.connect()
    group.run(20 * PATIENCE)
    peer = group.sites["a"].peers["b"]
    assert peer.rejected == 1
    assert "another root" in peer.error
    assert peer.named is not None and peer.named.difference is None


# ----------------------------------------------------------------------------- false certificates


def receive(group: Group, *packets: bytes, site: str = "a", sender: str = "b") -> None:
    group.apply(site, group.sites[site].receive(sender, packets, group.now))


CERTIFICATE = Certificate("g", 256, "b", 1, 1, 5, None, 0, bytes(32), 1, bytes(32), False)


def packet_of(certificate: Certificate, key: SigningKey | None = None) -> bytes:
    signed = sign_certificate(certificate, key or KEYS["b"])
    return encode_packet(Certificates((encode_certificate(signed),)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"site": "a"}, "b sent a certificate of the site a"),
        ({"site": "c"}, "b sent a certificate of the site c"),
        ({"group": "other"}, "b sent a certificate of the group other"),
        ({"width": 1_000_000}, "b sent a certificate of the width 1000000"),
    ],
)
def test_certificates_about_others_are_rejected(changes: dict[str, object], reason: str) -> None:
    group = Group()
    receive(group, packet_of(attrs.evolve(CERTIFICATE, **changes)))  # type: ignore[arg-type]
    peer = group.sites["a"].peers["b"]
    assert (peer.rejected, peer.error, peer.certificates) == (1, reason, {})
    assert group.ended == []


def test_a_wrong_signature_is_rejected_and_the_link_continues() -> None:
    group = Group()
    receive(group, packet_of(CERTIFICATE, KEYS["a"]), packet_of(CERTIFICATE))
    peer = group.sites["a"].peers["b"]
    assert (peer.rejected, len(peer.certificates), group.ended) == (1, 1, [])
    assert peer.error == "certificate of b: the signature does not belong to a pinned key"


def test_a_site_without_a_pinned_key_is_rejected() -> None:
    group = Group()
    peer = group.sites["a"].peers["b"]
    peer._keys = {}
    receive(group, packet_of(CERTIFICATE))
    assert (peer.rejected, peer.error) == (1, "no key is pinned for the site b")


def test_older_certificates_do_not_replace_newer_ones() -> None:
    group = Group()
    newer = attrs.evolve(CERTIFICATE, incarnation=2, revision=2)
    receive(group, packet_of(newer))
    for change in ({"incarnation": 1, "revision": 9}, {"revision": 1}, {}):
        receive(group, packet_of(attrs.evolve(newer, **change)))  # type: ignore[arg-type]
    peer = group.sites["a"].peers["b"]
    assert (peer.stale, peer.certificates[5].certificate) == (3, newer)


@pytest.mark.parametrize(
    "data", [b"", b"c", b"c\x92\x01\x90", b"c\x92\x07\x00", b"d" + encode_packet(LeafRequest(1, 0))]
)
def test_malformed_packets_end_the_link(data: bytes) -> None:
    group = Group()
    receive(group, data)
    assert group.ended == [("a", "b")]
    assert state(group, "a")["rejected"] == 1
    malformed = encode_packet(Certificates((b"no certificate",)))
    receive(group, malformed)
    assert len(group.ended) == 2


def test_a_flood_of_false_certificates_is_bounded() -> None:
    group = Group()
    false = packet_of(CERTIFICATE, KEYS["a"])
    for _ in range(3_000):
        receive(group, false)
    peer = group.sites["a"].peers["b"]
    assert (peer.rejected, peer.flooded) == (BURST, 3_000 - BURST)
    group.run(1.0)
    for _ in range(1_000):
        receive(group, false)
    assert peer.rejected == BURST + RATE


def test_a_flood_of_requests_is_bounded() -> None:
    group = Group()
    group.deliver("a", make_leaves(Random(1), 50))
    for _ in range(200):
        receive(group, encode_packet(LeafRequest(1, 0)))
    assert len(group.packets) == BURST / PAGE_COST
    assert state(group, "a")["flooded"] == 200 - BURST / PAGE_COST


def test_true_certificates_of_one_site_are_bounded() -> None:
    group = Group()
    peer = group.sites["a"].peers["b"]
    for block in range(MOST_CERTIFICATES + 10):
        signed = sign_certificate(attrs.evolve(CERTIFICATE, block=block), KEYS["b"])
        peer.accept(encode_certificate(signed), group.now)
    assert len(peer.certificates) == MOST_CERTIFICATES
    assert min(peer.certificates) == 10
    assert len(peer._verdicts) <= MOST_CERTIFICATES


def test_unrequested_leaves_cause_nothing() -> None:
    group = Group()
    receive(group, encode_packet(Leaves(0, 0, 1, (b"x",))))
    assert (group.packets, group.ended) == ([], [])


def test_packets_have_their_documented_bytes() -> None:
    assert encode_packet(LeafRequest(5, 256)) == b"c\x93\x02\x05\xcd\x01\x00"
    assert encode_packet(Leaves(5, 0, 1, (b"x",))) == b"c\x95\x03\x05\x00\x01\x91\xc4\x01x"
    assert encode_packet(Certificates((b"y",))) == b"c\x92\x01\x91\xc4\x01y"
    with pytest.raises(ProtocolError):
        decode_packet(encode_packet(Leaves(5, 0, 1, (b"x",) * 256)) + b"\0")


def test_nothing_is_queued_for_a_site_that_is_away() -> None:
    group = Group()
    group.connect()
    group.cut()
    for number in range(1, 50):
        group.deliver("a", [make_leaf(number, number * 256)])
        group.run(5.0)
    assert group.sites["a"].peers["b"].unsent == set()
    group.connect()
    group.run(5.0)
    assert state(group, "b", "a")["certificates"] == 49


def test_a_site_that_joins_gets_the_certificates_and_compares_its_own() -> None:
    group = Group()
    leaves = make_leaves(Random(1), 50)
    group.deliver("a", leaves)
    group.run(5.0)
    newcomer = Group("abc").sites["c"]
    group.sites["c"] = newcomer
    group.deliver("c", leaves)
    for site, other in ("ac", "ca"):
        group.apply(site, group.sites[site].connect(other, group.now))
    group.run(AGES)
    blocks = len({leaf.stamp // 256 for leaf in leaves})
    for site, other in ("ac", "ca"):
        found = state(group, site, other)
        assert (found["certificates"], found["equal"], found["rejected"]) == (blocks, blocks, 0)
