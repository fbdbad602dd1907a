from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.traffic.frame import MAX_DESTINATIONS, Frame, decode_frame
from broker.cluster.traffic.frame_content import ZSTD_ALL
from broker.cluster.traffic.frame_merge import merge_frames
from broker.cluster.traffic.frame_range import Range
from tests.cluster.traffic.frames import frame, node, unit

#: By event: its level, and the destinations among three.
EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.frozensets(st.integers(0, 2), min_size=1)), max_size=8
)


def whole(events: list[tuple[int, frozenset[int]]]) -> Frame:
    destinations = [unit("b"), node("n1"), node("n2")]
    return frame(
        [Range(each, (1, 0), (1, len(events))) for each in destinations],
        [((1, i), b"event %d" % i, level) for i, (level, _) in enumerate(events, 1)],
        [(1, tuple(sorted(recipients))) for _, recipients in events],
    )


def events_by_destination(frame: Frame) -> dict[object, list[object]]:
    return {
        each.destination: list(frame.events_at(frame.event_indices_for(index)))
        for index, each in enumerate(frame.ranges)
    }


@given(EVENTS, st.booleans(), st.booleans())
def test_each_destination_keeps_its_events(
    events: list[tuple[int, frozenset[int]]], compressed: bool, swapped: bool
) -> None:
    made = whole(events)
    parts = [made.restricted_to({0: 2}), made.restricted_to({1: 2, 2: 1})]
    if compressed:
        parts[0] = parts[0].compressed()
    one, other = reversed(parts) if swapped else parts
    merged = merge_frames(one, other)
    assert merged is not None
    assert events_by_destination(merged) == events_by_destination(one) | events_by_destination(
        other
    )
    marks = merged.marks()
    assert marks == sorted(set(one.marks()) | set(other.marks()))
    assert events_by_destination(decode_frame(merged.encode())) == events_by_destination(merged)


def test_a_body_with_all_events_is_not_compressed_again() -> None:
    made = frame(
        [Range(unit("b"), (1, 0), (1, 2)), Range(node("n1"), (1, 0), (1, 2))],
        [((1, 1), b"x" * 900, 0), ((1, 2), b"y" * 900, 0)],
        [(1, (0,)), (1, (0, 1))],
    ).compressed()
    assert made.encoding == ZSTD_ALL
    merged = merge_frames(made.restricted_to({0: 2}), made.restricted_to({1: 2}))
    assert merged is not None
    assert merged.encoding == ZSTD_ALL and merged.body is made.body


def test_the_merged_frame_has_the_lower_hop_limit() -> None:
    one, other = whole([]), whole([])
    one.hops, other.hops = 7, 30
    for merged in (merge_frames(one, other), merge_frames(other, one)):
        assert merged is not None and merged.hops == 7


def test_too_many_destinations_stay_two_frames() -> None:
    half = [Range(node(f"n{i}"), (1, 0), (1, 1)) for i in range(MAX_DESTINATIONS // 2)]
    assert merge_frames(frame(half), frame(half)) is not None
    assert merge_frames(frame(half), frame([*half, half[0]])) is None
