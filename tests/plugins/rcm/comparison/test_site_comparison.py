"""Sites that compare variants on the same messages."""

from __future__ import annotations

from random import Random

import pytest

from broker.transport.order import VARIANTS
from broker.transport.order.sequencer.packet import Numbers
from plugins.rcm.comparison.packet import Batch, Offer, Packet, decode_packet, encode_packet
from plugins.rcm.comparison.peer import MOST_BUFFERED, Peer
from plugins.rcm.comparison.variant_record import VariantRecord
from tests.plugins.rcm.comparison.group import ALL, DELAY, Group


def talk(group: Group, rounds: int, *, names: str = "", seconds: float = 0.1) -> None:
    for number in range(rounds):
        for name in names or group.names:
            group.publish(name, 1 + number % 3)
            group.run(seconds / len(group.names))


def started(**options: object) -> Group:
    group = Group(**options)  # type: ignore[arg-type]
    group.connect()
    # No block that begins earlier is compared.
    group.run(8.0)
    return group


def check_kept(group: Group, *, equal: bool = True) -> None:
    for name in group.names:
        for variant in ALL:
            row = group.row(name, variant)
            assert row["kept"], f"{name}: {variant}: {row['verdict']}"
            if equal:
                for site in row["sites"]:
                    assert site["equal"] > 0, f"{name}: {variant}: {row}"


@pytest.mark.parametrize("order", ["logical", "sequencer", "hybrid"])
def test_all_variants_are_measured_and_have_equal_orders_at_all_sites(order: str) -> None:
    group = started(order=order)
    talk(group, 40)
    group.run(4.0)
    check_kept(group)
    for name in "abc":
        rows = {variant: group.row(name, variant) for variant in ALL}
        assert [each for each, row in rows.items() if row["delivers"]] == [order]
        for row in rows.values():
            assert row["messages"] == 3 * (13 * 6 + 1) and row["late"] == 0
            assert row["extra_bytes"] > 0
        # An answer of the middle of a bucket is right within 5%.
        assert rows["real-time"]["own_median"] == pytest.approx(0.25, rel=0.05)
        assert rows["real-time"]["others_p99"] == pytest.approx(0.25, rel=0.05)
        assert rows["sequencer"]["others_p99"] == pytest.approx(
            DELAY if name == "a" else 2 * DELAY, rel=0.1
        )
        assert rows["logical"]["others_median"] == rows["hybrid"]["others_median"]
    assert group.row("a", "sequencer")["own_p99"] <= 0.001
    assert group.row("b", "sequencer")["own_p99"] == pytest.approx(2 * DELAY, rel=0.05)


def test_delays_of_other_sites_do_not_contain_the_difference_of_the_clocks() -> None:
    group = started(skew=0.5, order="logical")
    talk(group, 20)
    group.run(3.0)
    assert group.row("c", "sequencer")["others_median"] == pytest.approx(DELAY, rel=0.1)
    assert group.row("c", "logical")["others_p99"] < 0.2


def test_the_order_is_the_same_with_and_without_a_comparison() -> None:
    delivered = []
    for compared in (ALL, ()):
        group = started(compare=lambda _, names=compared: names)
        talk(group, 30)
        group.cut("c")
        talk(group, 5)
        group.connect()
        group.run(5.0)
        delivered.append({name: site.delivered for name, site in group.sites.items()})
    assert delivered[0] == delivered[1]


def test_sites_compare_the_variants_that_they_share() -> None:
    compared = {"a": ALL, "b": ALL, "c": ("real-time",)}
    group = started(compare=lambda name: compared[name], order="logical")
    talk(group, 40)
    group.run(4.0)
    assert group.row("a", "sequencer")["verdict"] == "in order, equal with b"
    assert group.row("a", "real-time")["verdict"] == "in order, equal with b, c"
    assert group.row("c", "real-time")["verdict"] == "in order, equal with a, b"
    # The deliveries of messages of c are not all in the view of it.
    assert group.row("a", "sequencer")["messages"] == 2 * 79
    assert group.row("c", "logical")["verdict"] == "in order, equal with a, b"


def test_a_site_without_a_comparison_gets_no_packets_but_offers() -> None:
    group = Group(compare=lambda name: () if name == "c" else ALL)
    sent: list[Packet] = []

    def record(_: str, other: str, data: bytes) -> bytes:
        if other == "c":
            sent.append(decode_packet(data))
        return data

    group.change = record
    group.connect()
    group.run(8.0)
    talk(group, 40)
    group.run(4.0)
    assert sent and all(isinstance(each, Offer) for each in sent)
    assert len(group.sites["c"].delivered) == 3 * 79
    assert group.row("a", "real-time")["verdict"] == "in order, equal with b"
    # What the delivering variant promises depends on what c sees.
    assert group.row("a", "logical")["verdict"] == "in order at this site"


def test_an_idle_group_sends_nothing() -> None:
    group = started()
    talk(group, 10)
    group.run(10.0)
    sent: list[bytes] = []
    group.change = lambda one, other, data: sent.append(data)
    group.run(60.0)
    assert sent == []
    for site in group.sites.values():
        assert site.comparison is not None and site.comparison.next_timeout() is None


def test_after_an_outage_and_a_restart_late_messages_are_counted_and_orders_are_equal() -> None:
    group = started(order="hybrid")
    talk(group, 10)
    group.cut("c")
    talk(group, 10)
    group.run(3.0)
    group.connect()
    group.run(8.0)
    talk(group, 40)
    group.restart("b")
    talk(group, 5, names="ac")
    group.connect()
    group.run(8.0)
    before = {each: group.row("a", each)["sites"][0]["equal"] for each in ALL}
    talk(group, 40)
    group.run(4.0)
    check_kept(group)
    for variant in ALL:
        assert group.row("a", variant)["sites"][0]["equal"] > before[variant]


def test_messages_that_come_after_an_outage_are_late_in_all_variants() -> None:
    group = started(order="hybrid")
    talk(group, 3)
    held: list[tuple[str, str, bytes]] = []

    def hold(one: str, other: str, data: bytes) -> bytes | None:
        if one == "c":
            held.append((one, other, data))
            return None
        return data

    group.change = hold
    # The links of c hold what it sends, in the comparison.
    talk(group, 3, names="c")
    talk(group, 20, names="ab")
    group.run(8.0)
    group.change = lambda one, other, data: data
    for each in held:
        group.receive(*each)
    group.run(10.0)
    for variant in ("real-time", "logical"):
        row = group.row("a", variant)
        assert row["late"] == 1 + 2 + 3, row
        assert row["suspicions"] > 0
    talk(group, 30)
    group.run(8.0)
    talk(group, 40)
    group.run(5.0)
    check_kept(group)


def test_a_lost_packet_is_no_difference() -> None:
    group = started()
    random = Random(3)
    lost = 0

    def lose(_: str, __: str, data: bytes) -> bytes | None:
        nonlocal lost
        is_lost = isinstance(decode_packet(data), Batch) and random.random() < 0.05
        lost += is_lost
        return None if is_lost else data

    group.change = lose
    talk(group, 60)
    group.run(8.0)
    group.change = lambda one, other, data: data
    talk(group, 60)
    group.run(8.0)
    assert lost > 10
    check_kept(group, equal=False)


def test_an_order_that_differs_is_named_with_its_first_message() -> None:
    group = started(order="logical")
    codec = VARIANTS["sequencer"].create_codec(("a", "b", "c"))
    held: list[Numbers] = []

    def swap(one: str, other: str, data: bytes) -> bytes | None:
        """Let a give the numbers of two messages in the wrong order, to c only."""
        packet = decode_packet(data)
        if (one, other) != ("a", "c") or not isinstance(packet, Batch) or len(held) == 2:
            return data
        for variant, part in packet.parts:
            (found,) = codec.decode("a", part)[:1]
            if variant == "sequencer" and isinstance(found, Numbers):
                held.append(found)
                if len(held) == 1:
                    return None
                first, second = held
                parts = tuple(
                    ("sequencer", codec.encode([Numbers(first.epoch, number, headers)]))
                    for number, headers in (
                        (first.first, second.headers),
                        (second.first, first.headers),
                    )
                )
                return encode_packet(Batch(packet.incarnation, 0, 0, 0, 0, parts))
        return data

    group.change = swap
    for _ in range(5):
        group.publish("b")
        group.publish("c")
        group.run(0.1)
    group.run(6.0)
    assert len(held) == 2
    row = group.row("a", "sequencer")
    assert not row["kept"]
    assert row["verdict"].startswith("differs from c: block ")
    assert row["verdict"].endswith("/1/1 there")
    assert group.row("c", "sequencer")["verdict"].startswith("differs from a: block ")
    assert group.row("a", "logical")["kept"]


def test_a_wrong_delivery_at_one_site_is_a_violation() -> None:
    group = started()
    talk(group, 5)
    comparison = group.sites["a"].comparison
    assert comparison is not None
    record: VariantRecord = comparison._records["real-time"]
    deliver = record.deliver
    record.deliver = lambda found, clock, now: deliver([*found] * 2, clock, now)  # type: ignore[method-assign,assignment]
    talk(group, 1)
    group.run(2.0)
    row = group.row("a", "real-time")
    assert row["violations"] > 0
    assert row["verdict"].startswith("violated: c/1/"), row
    assert "came behind" in row["verdict"]


def batch(variant: str, part: bytes) -> bytes:
    return encode_packet(Batch(1, 1, 1, 1, 1, ((variant, part),)))


HOSTILE = {
    "empty": b"v",
    "no array": b"v\xff",
    "too long": b"v" + bytes(2 << 20),
    "malformed part": batch("hybrid", b"\xff"),
    "stamp too far ahead": batch("hybrid", bytes.fromhex("9601010907 91cf7fffffffffffff00 91c400")),
    "number of no sequencer": batch("sequencer", bytes.fromhex("9416920701 00 9195 0001010107")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_wrong_packet_ends_the_part_of_its_site_until_that_restarts(kind: str) -> None:
    group = started()
    talk(group, 5)
    group.receive("c", "a", HOSTILE[kind])
    comparison = group.sites["a"].comparison
    assert comparison is not None
    described = comparison.describe_site("c", group.now)
    assert described["comparison_error"]
    talk(group, 30)
    group.run(10.0)
    assert group.links == {(one, other) for one in "abc" for other in "abc" if one != other}
    assert all(len(site.delivered) == 3 * (9 + 60) for site in group.sites.values())
    # For b, which goes on, c is connected.
    assert group.row("a", "real-time")["verdict"] == "in order at this site"
    check_kept(group, equal=False)
    group.restart("c")
    group.connect()
    group.run(8.0)
    talk(group, 30)
    group.run(4.0)
    assert comparison.describe_site("c", group.now)["comparison_error"] == ""
    assert group.row("a", "real-time")["verdict"] == "in order, equal with b, c"
    assert comparison.snapshot()["comparison"]["rejected"] == 1  # type: ignore[index]


def test_arbitrary_packets_raise_nothing_and_do_not_touch_the_order() -> None:
    group = started()
    random = Random(5)
    seen: list[bytes] = []

    def record(_: str, __: str, data: bytes) -> bytes:
        seen.append(data)
        return data

    group.change = record
    talk(group, 20)
    group.run(4.0)
    for _ in range(1_000):
        data = bytearray(random.choice(seen))
        for _ in range(random.choice((1, 2, 5))):
            data[random.randrange(1, len(data))] = random.randrange(256)
        peer = group.sites["a"].comparison._peers["c"]  # type: ignore[union-attr]
        peer.error = ""
        group.receive("c", "a", bytes(data))
    group.run(1.0)
    count = len(group.sites["a"].delivered)
    talk(group, 10, names="ab")
    group.run(4.0)
    assert len(group.sites["a"].delivered) == count + 2 * 19


def test_what_is_buffered_for_a_site_that_is_not_connected_is_bounded() -> None:
    peer = Peer("c")
    sizes = [1_000 for _ in range(1_000) if peer.has_room(1_000)]
    assert sum(sizes) <= MOST_BUFFERED and peer.dropped == 1_000 - len(sizes)
    peer.link(is_linked=True)
    assert all(peer.has_room(1_000) for _ in range(1_000))


def test_a_node_that_is_no_site_any_more_compares_nothing() -> None:
    group = Group("ab", compare=lambda _: ALL)
    group.names = "bc"
    assert group._make("a", 2).comparison is None
