"""Single promises of a merger, shown one by one."""

from __future__ import annotations

import pytest

from broker.event.envelope import EventLinkage
from broker.event.merging import bundles, core, sources, vocabulary
from broker.event.merging.core import Merger
from broker.event.merging.held import Given, Missing, UnknownWord
from broker.event.merging.settings import Merging
from tests.event.merging.schedules import Run, event, linked

PAIR = linked("within 250ms", "time", "fp", "tz")
FP, TZ = "fp", "tz"


def run(wait: float = 1.0, **more: float) -> Run:
    return Run(Merger(Merging(wait=wait, **more)))  # type: ignore[arg-type]


def test_what_links_to_nothing_does_not_wait() -> None:
    assert run().receive(0.0, event(0, 100), event(1, 50, client="d")) == [0, 1]


@pytest.mark.parametrize("words", [("none", "none"), (None, "arrival"), ("within 1s", "none")])
def test_no_scheme_is_no_merge(words: tuple[str, str]) -> None:
    nothing = linked(*words, FP, TZ)
    came = (event(0, 100, FP, "a", nothing), event(1, 5, TZ, "b", nothing))
    assert run().receive(0.0, *came) == [0, 1]


def test_concurrent_events_go_in_the_declared_order_and_others_by_time() -> None:
    merge = run()
    assert merge.receive(0.0, event(0, 1000, TZ, "radar", PAIR)) == []
    # The flight plan, 200 ms later, belongs before the track.
    assert merge.receive(0.1, event(1, 1200, FP, "plans", PAIR)) == []
    assert merge.receive(0.2, event(2, 2000, TZ, "radar", PAIR)) == [1]
    assert merge.receive(0.3, event(3, 2100, FP, "plans", PAIR)) == [0]
    merge.finish(0.4)
    assert merge.items == [1, 0, 3, 2]
    assert not merge.late


def test_bundles_can_be_what_the_order_names() -> None:
    merge = run()
    for item, bundle in enumerate(("cancel", "alert", "update")):
        linkage = linked("within 1s", "time", "#alert", "#update", "#cancel", bundles=[(bundle, 1)])
        merge.receive(0.0, event(item, 10 * item, "alerts", f"c{item}", linkage))
    merge.finish(0.0)
    assert merge.items == [1, 2, 0]


def test_a_silent_stream_does_not_block() -> None:
    merge = run(wait=1.0)
    merge.receive(5.0, event(0, 1000, TZ, "radar", PAIR))
    merge.until(100.0)
    # Its wait, and what the constraint asks for.
    assert merge.given_at == {0: 6.25}
    assert merge.merger.counts.overdue == 1


def test_nobody_waits_longer_than_the_longest() -> None:
    merge = run(wait=1.0, longest=3.0)
    merge.receive(0.0, event(0, 1000, TZ, "radar", linked("within 1h", "time", FP, TZ)))
    merge.until(100.0)
    assert merge.given_at == {0: 3.0}


def test_a_stream_that_was_silent_for_long_is_not_waited_for() -> None:
    merge = run(wait=5.0, idle=10.0)
    pair = linked("none", "time", FP, TZ)
    merge.receive(0.0, event(0, 1, FP, "plans", pair), event(1, 2, TZ, "radar", pair))
    for second in range(1, 16):
        merge.receive(float(second), event(second + 1, second * 1000, TZ, "radar", pair))
    waited = {second: merge.given_at.get(second + 1, 0) - second for second in range(1, 15)}
    assert [waited[second] for second in range(1, 5)] == [5.0] * 4
    # From then on the next track alone shows that nothing comes before this one.
    assert [waited[second] for second in range(10, 15)] == [1.0] * 5


def test_an_idle_stream_lets_the_first_lane_go_at_once() -> None:
    pair = linked("none", "time", TZ, FP)
    merge = run(wait=1.0, idle=10.0)
    assert merge.receive(0.0, event(0, 1, TZ, "radar", pair)) == []
    assert merge.receive(20.0, event(1, 20_000, TZ, "radar", pair)) == [1]


def test_any_event_of_a_publisher_carries_the_time_of_all_its_streams() -> None:
    merge = run(wait=50.0)
    merge.receive(0.0, event(0, 900, FP, "plans", PAIR), event(1, 1000, TZ, "radar", PAIR))
    assert merge.receive(0.1, event(2, 2000, TZ, "radar", PAIR)) == []
    # A heartbeat of the publisher of plans, on another stream and linked to nothing.
    assert merge.receive(0.2, event(3, 1999, "beats", "plans")) == [3, 1]


def test_a_single_feed_waits_for_nobody() -> None:
    merge = run()
    linkage = linked("within 1s", "time", TZ)
    assert merge.receive(0.0, event(0, 1000, TZ, "radar", linkage)) == [0]
    assert merge.receive(0.0, event(1, 1100, TZ, "radar", linkage)) == [1]


def test_streams_that_can_not_come_are_not_waited_for() -> None:
    merge = Run(Merger(Merging(), lambda stream: stream == FP))
    assert merge.receive(0.0, event(0, 1000, FP, "plans", PAIR)) == [0]


def test_what_comes_too_late_is_given_out_at_once_and_marked() -> None:
    merge = run(wait=0.1)
    merge.receive(0.0, event(0, 5000, TZ, "radar", PAIR))
    merge.until(1.0)
    assert merge.receive(2.0, event(1, 4000, FP, "plans", PAIR)) == [1]
    # Concurrent with what is out, and before it in the declared order.
    assert merge.receive(2.1, event(2, 5100, FP, "plans", PAIR)) == [2]
    assert merge.late == {1, 2}
    assert merge.merger.counts.late == 2


def test_another_process_of_a_publisher_may_have_a_slower_clock() -> None:
    merge = run(wait=1.0)
    old = event(0, 90_000, FP, "plans", PAIR)
    new = old._replace(item=1, event_id=old.event_id._replace(timestamp=1000, incarnation=2))
    tracks = (event(2, 1500, TZ, "radar", PAIR), event(3, 95_000, TZ, "radar", PAIR))
    # Were the old time believed, the first track would go before a plan that is yet to come.
    assert merge.receive(0.0, old, new, *tracks) == [1]


def test_a_publisher_that_is_behind_is_waited_for() -> None:
    merge = run(wait=50.0)
    free = linked("none", "time")
    one, two, three = (
        event(n, time, "s", client, free)
        for n, time, client in ((0, 5, "behind"), (1, 20, "ahead"), (2, 8, "mine"))
    )
    assert merge.receive(0.0, one, two, three, event(3, 30, "s", "mine", free)) == [0]
    assert merge.receive(0.0, event(4, 7, "s", "behind", free)) == [4]


def test_the_same_time_stamp_may_come_once_more() -> None:
    merge = run(wait=50.0)
    free = linked("none", "time")
    assert merge.receive(0.0, event(0, 10, "s", "a", free), event(1, 10, "s", "b", free)) == []
    assert merge.receive(0.0, event(2, 10, "s", "a", free)) == []
    merge.receive(0.0, event(3, 11, "s", "a", free), event(4, 11, "s", "b", free))
    assert merge.items == [0, 2, 1]


# ----------------------------------------------------------------------------- bundles


def alerts(merge: Run, now: float, *numbers: int, bundle: str = "b") -> list[int]:
    """Events that are named by their numbers."""
    linkage = [linked(None, "bundle", bundles=[(bundle, number)]) for number in numbers]
    made = [
        event(number, 0, "alerts", f"c{number}", each)
        for number, each in zip(numbers, linkage, strict=True)
    ]
    return merge.receive(now, *made)


def test_a_bundle_comes_by_its_numbers() -> None:
    merge = run()
    assert alerts(merge, 0.0, 2) == []
    assert alerts(merge, 0.1, 3) == []
    assert alerts(merge, 0.2, 1) == [1, 2, 3]
    assert alerts(merge, 0.3, 4) == [4]


def test_a_hole_is_waited_for_and_told() -> None:
    merge = run(wait=1.0)
    alerts(merge, 0.0, 1)
    alerts(merge, 0.5, 5)
    alerts(merge, 0.6, 3)
    merge.until(1.4)
    assert merge.items == [1]
    merge.until(1.5)
    assert [output for _, output in merge.outputs[1:]] == [
        Missing("alerts", "b", 2, 2),
        Given(3),
        Missing("alerts", "b", 4, 4),
        Given(5),
    ]
    assert merge.merger.counts.missing == 2
    assert alerts(merge, 2.0, 2) == [2]
    assert merge.late == {2}


def test_what_follows_a_hole_goes_with_it() -> None:
    merge = run(wait=1.0)
    alerts(merge, 0.0, 1)
    alerts(merge, 0.1, 5)
    alerts(merge, 0.9, 6, 8)
    merge.until(1.1)
    assert merge.items == [1, 5, 6]


def test_what_is_over_takes_along_all_that_waits_before_it() -> None:
    merge = run(wait=1.0)
    for item, numbers in enumerate(([("a", 3)], [("a", 2), ("b", 2)], [("b", 1), ("c", 5)])):
        linkage = linked(None, "bundle", bundles=numbers)
        merge.receive(item / 10, event(item, 0, "alerts", f"c{item}", linkage))
    merge.until(1.0)
    assert (merge.items, merge.late) == ([2, 1, 0], set())


def test_who_comes_in_the_middle_of_a_bundle_lacks_nothing() -> None:
    merge = run(wait=1.0)
    assert alerts(merge, 0.0, 7) == []
    merge.until(1.0)
    assert (merge.items, merge.missing) == ([7], [])


def test_the_constraint_of_a_bundle_bounds_the_wait() -> None:
    merge = run(wait=10.0)
    for item, number in enumerate((1, 3)):
        linkage = linked("within 200ms", "bundle", bundles=[("b", number)])
        merge.receive(0.0, event(item, 0, "alerts", "c", linkage))
    merge.until(5.0)
    assert merge.given_at == {0: 0.0, 1: 0.2}


def test_what_gets_free_together_goes_in_the_declared_order() -> None:
    merge = run(wait=1.0)
    for item, bundle in enumerate("zyx"):
        linkage = linked(None, "bundle", "#x", "#y", "#z", bundles=[("all", 1), (bundle, 2)])
        merge.receive(0.0, event(item, item, "alerts", f"c{item}", linkage))
    freeing = linked(None, "bundle", bundles=[("x", 1), ("y", 1), ("z", 1)])
    assert merge.receive(0.5, event(9, 0, "alerts", "c9", freeing)) == [9, 2, 1, 0]


def test_an_event_in_several_bundles_has_its_turn_in_each() -> None:
    merge = run(wait=1.0)
    both = linked(None, "bundle", bundles=[("a", 2), ("b", 2)])
    merge.receive(0.0, event(0, 0, "alerts", "c", both))
    assert alerts(merge, 0.1, 1, bundle="a") == [1]
    assert alerts(merge, 0.2, 1, bundle="b") == [1, 0]


def test_bundles_that_contradict_each_other_end_by_time() -> None:
    merge = run(wait=1.0)
    for item, numbers in enumerate(([("a", 2), ("b", 1)], [("a", 1), ("b", 2)])):
        linkage = linked(None, "bundle", bundles=numbers)
        merge.receive(0.0, event(item, 5 - item, "alerts", f"c{item}", linkage))
    merge.until(1.0)
    assert sorted(merge.items) == [0, 1]
    assert len(merge.late) == 1


def test_a_bundle_is_of_its_stream() -> None:
    merge = run()
    for stream in ("one", "two"):
        linkage = linked(None, "bundle", bundles=[("b", 1)])
        assert merge.receive(0.0, event(0, 0, stream, "c", linkage)) == [0]


# ----------------------------------------------------------------------------- bounds


def test_when_too_much_is_held_the_oldest_goes_first() -> None:
    merge = run(wait=50.0, max_events=3)
    for item in range(5):
        merge.receive(0.0, event(item, 1000 + item, TZ, "radar", PAIR))
    assert merge.items == [0, 1]
    assert merge.merger.counts.crowded == 2
    merge = run(wait=50.0, max_bytes=100)
    for item in range(5):
        merge.receive(0.0, event(item, 1000 + item, TZ, "radar", PAIR, size=40))
    assert (merge.items, merge.merger.held_bytes) == ([0, 1, 2], 80)


def test_an_unknown_word_is_told_once_and_delays_nobody() -> None:
    merge = run()
    odd = linked("about 5 furlongs", "zip", FP, TZ)
    for item in range(3):
        assert merge.receive(0.0, event(item, 10 - item, FP, "c", odd)) == [item]
    words = [output.word for _, output in merge.outputs if isinstance(output, UnknownWord)]
    assert words == ["zip", "about 5 furlongs"]


def test_made_up_words_merges_and_bundles_take_limited_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "MOST_GROUPS", 5)
    monkeypatch.setattr(core, "MOST_UNKNOWN", 5)
    monkeypatch.setattr(bundles, "BUNDLES_REMEMBERED", 5)
    monkeypatch.setattr(sources, "PUBLISHERS_REMEMBERED", 5)
    merge = run(wait=50.0)
    for item in range(0, 60, 3):
        client = f"c{item}"
        word = linked(f"word {item}", None, FP)
        group = linked("within 1s", "time", FP, f"o{item}")
        bundle = linked(None, "bundle", bundles=[(f"b{item}", 1)])
        merge.receive(
            0.0,
            event(item, item, FP, client, word),
            event(item + 1, item, FP, client, group),
            event(item + 2, item, FP, client, bundle),
        )
    mine = merge.merger
    assert (len(mine._groups), len(mine._unknown), len(mine._bundles._bundles)) == (5, 5, 5)
    assert len(mine._sources._sources) == 5
    assert mine.held <= 10
    merge.finish(0.0)
    assert sorted(merge.items) == list(range(60))


def test_an_event_in_very_many_bundles_waits_in_the_first_of_them() -> None:
    merge = run()
    many = [(f"b{number}", 1) for number in range(vocabulary.MOST_BUNDLES)] + [("last", 9)]
    linkage = linked(None, "bundle", bundles=many)
    assert merge.receive(0.0, event(0, 0, "s", "c", linkage)) == [0]


def test_long_words_names_and_orders_are_not_remembered() -> None:
    merge = run()
    long = "x" * 1_000_000
    for item, linkage in enumerate(
        (
            linked(long, "time", FP),
            linked("within 1s", long, FP),
            linked("within 1s", "time", *(long[:1000] for _ in range(9))),
            linked(None, "bundle", bundles=[(long, 7)]),
        )
    ):
        assert merge.receive(0.0, event(item, 0, FP, "c", linkage)) == [item]
    words = [output.word for _, output in merge.outputs if isinstance(output, UnknownWord)]
    assert words == [long[: vocabulary.LONGEST_WORD], "a BundleOrder that is too long"]
    assert not merge.merger._bundles._bundles
    assert not merge.merger._groups


def test_the_subscribers_rule_counts_more_than_what_events_say() -> None:
    merge = Run(Merger(Merging.by("time within 250ms", [FP, TZ])))
    merge.receive(0.0, event(0, 1000, TZ, "radar", EventLinkage()))
    merge.receive(0.0, event(1, 1100, FP, "plans", linked(None, "bundle", bundles=[("b", 5)])))
    merge.finish(0.0)
    assert merge.items == [1, 0]
