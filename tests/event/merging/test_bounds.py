from __future__ import annotations

import pytest

from broker.event.envelope import EventLinkage
from broker.event.merging import bundles, merger, publisher_times, vocabulary
from broker.event.merging.held_event import UnknownWord
from broker.event.merging.merger import Merger
from broker.event.merging.settings import Merging
from tests.event.merging.schedules import PAIR, Run, event, linked, run

FP, TZ = "fp", "tz"


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


def test_an_unknown_word_is_reported_once_and_does_not_delay() -> None:
    merge = run()
    odd = linked("about 5 furlongs", "zip", FP, TZ)
    for item in range(3):
        assert merge.receive(0.0, event(item, 10 - item, FP, "c", odd)) == [item]
    words = [output.word for _, output in merge.outputs if isinstance(output, UnknownWord)]
    assert words == ["zip", "about 5 furlongs"]


def test_made_up_words_merges_and_bundles_take_limited_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merger, "MAX_GROUPS", 5)
    monkeypatch.setattr(merger, "MAX_UNKNOWN_WORDS", 5)
    monkeypatch.setattr(bundles, "MAX_BUNDLES", 5)
    monkeypatch.setattr(publisher_times, "MAX_PUBLISHERS", 5)
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
    assert len(mine._publisher_times._publishers) == 5
    assert mine.held <= 10
    merge.finish(0.0)
    assert sorted(merge.items) == list(range(60))


def test_an_event_in_very_many_bundles_waits_in_the_first_of_them() -> None:
    merge = run()
    many = [(f"b{number}", 1) for number in range(vocabulary.MAX_BUNDLES_PER_EVENT)] + [("last", 9)]
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
    assert words == [long[: vocabulary.MAX_WORD_LENGTH], "a BundleOrder that is too long"]
    assert not merge.merger._bundles._bundles
    assert not merge.merger._groups


def test_the_subscribers_rule_overrides_the_linkage_of_events() -> None:
    merge = Run(Merger(Merging.by("time within 250ms", [FP, TZ])))
    merge.receive(0.0, event(0, 1000, TZ, "radar", EventLinkage()))
    merge.receive(0.0, event(1, 1100, FP, "plans", linked(None, "bundle", bundles=[("b", 5)])))
    merge.finish(0.0)
    assert merge.items == [1, 0]
