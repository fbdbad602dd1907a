from __future__ import annotations

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.forwarding import frames_by_hop, pack_contents, route_frame
from broker.cluster.traffic.frame import MAX_HOPS, Frame
from broker.cluster.traffic.frame_content import ZSTD_RECORDS
from broker.cluster.traffic.frame_range import Range
from tests.cluster.traffic.frames import frame, node, unit

ME = node("me")
TARGETS = [ME, unit("a"), node("n1"), node("n2"), unit("b"), unit("c")]


def to(*targets: Address, levels: tuple[int, ...] = (0,)) -> Frame:
    ranges = [Range(target, (1, 0), (1, 9)) for target in targets]
    events = [((1, i + 1), b"x", level) for i, level in enumerate(levels)]
    everybody = tuple(range(len(targets)))
    return frame(ranges, events, [(len(events), everybody)])


def hop(target: Address, rank: int) -> str | None:
    """Route all levels to n1, and rank 0 to the others over n1. There is no route to c."""
    if target == unit("c"):
        return None
    return "n1" if target == node("n1") or rank == 0 else None


def test_a_range_is_local_or_enters_a_unit_or_is_forwarded() -> None:
    division = route_frame(to(*TARGETS), ME, hop)
    assert division.local == (0,)
    assert division.entering == (1,)
    assert division.by_hop == {"n1": {2: 0, 3: 0, 4: 0}}
    assert division.unroutable == 1 and division.denied == 0


def test_a_frame_over_the_hop_limit_is_dropped() -> None:
    exhausted = attrs.evolve(to(node("n1")), hops=0)
    assert route_frame(exhausted, ME, hop).unroutable == 1


def test_each_part_has_one_hop_less_and_only_its_ranges() -> None:
    made = to(node("n1"), node("n2"))
    passed = frames_by_hop(made, {"n1": {0: 0}, "n2": {1: 0}})
    assert {name: [r.destination for r in part.ranges] for name, part in passed.items()} == {
        "n1": [node("n1")],
        "n2": [node("n2")],
    }
    assert {part.hops for part in passed.values()} == {MAX_HOPS - 1}


def test_events_above_the_route_clearance_are_left_out() -> None:
    made = to(node("n1"), node("n2"), levels=(0, 2, 1))
    division = route_frame(made, ME, hop)
    assert division.by_hop == {"n1": {0: 2, 1: 0}} and division.denied == 2
    part = frames_by_hop(made, division.by_hop)["n1"]
    assert [event.level for event in part.events_at(part.event_indices_for(0))] == [0, 2, 1]
    assert [event.level for event in part.events_at(part.event_indices_for(1))] == [0]


def test_the_level_of_other_events_does_not_block_a_destination() -> None:
    ranges = [Range(target, (1, 0), (1, 9)) for target in (node("n1"), node("n2"))]
    made = frame(ranges, [((1, 1), b"x", 2), ((1, 2), b"y", 0)], [(1, (0,)), (1, (1,))])
    division = route_frame(made, ME, hop)
    assert division.by_hop == {"n1": {0: 2, 1: 0}} and division.denied == 0


def test_equal_contents_are_compressed_once() -> None:
    made = to(node("n1"), node("n2"), levels=(0, 0))
    made = attrs.evolve(made, records=b"r" * 800, record_lengths=[400, 400])
    parts = frames_by_hop(made, {"n1": {0: 0}, "n2": {1: 0}})
    one, other = pack_contents(parts, documents=False).values()
    assert one.encoding == other.encoding == ZSTD_RECORDS
    assert one.records is other.records and len(one.records) < 100
    assert [each.ranges for each in (one, other)] == [each.ranges for each in parts.values()]
