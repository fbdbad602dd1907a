"""Explanations of plans for simulated logs and archives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.delivery.recovery_contract import MarkRange
from broker.event.place import Mark
from broker.recovery.plan_explanation import PlanContext, explain_plan
from broker.recovery.planner import AvailableSources, plan_steps


def told(
    wanted: Mapping[str, MarkRange],
    *,
    recovered: Mapping[str, MarkRange] | None = None,
    former: str = "",
    logs: tuple[str, ...] = (),
    archive: bool = True,
    covered: Mapping[str, list[tuple[Mark, Mark]]] | None = None,
    since: int = 0,
    all_origins: bool = False,
    alone: bool = False,
) -> dict[str, Any]:
    recovered = wanted if recovered is None else recovered
    sources = AvailableSources(former, logs, archive, is_alone=alone)
    known = PlanContext(
        *("own", {"own": (1, since)}, sources, lambda origin: [f"alps/{origin}"]),
        *(covered or {}, covered is not None),
    )
    steps = (
        plan_steps(recovered, sources, all_origins=all_origins) if recovered or all_origins else []
    )
    return explain_plan(wanted, recovered, steps, known, all_origins=all_origins)


def parts(origin: Mapping[str, Any]) -> list[tuple[str, int, int | None]]:
    return [
        (part["source"], part["after"][1], part["upto"] and part["upto"][1])
        for part in origin["parts"]
    ]


def test_the_own_part_is_not_recovered() -> None:
    answer = told({"own": ((1, 5), (1, 30))}, recovered={})
    (origin,) = answer["origins"]
    assert answer["steps"] == []
    assert parts(origin) == [("log", 5, 30)]
    assert (origin["own"], origin["places"], origin["gaps"]) == (True, 25, [])


def test_the_archive_covers_removed_events_and_the_log_the_rest() -> None:
    answer = told(
        {"own": ((1, 0), (1, 30))},
        recovered={"own": ((1, 0), (1, 10))},
        covered={"own": [((1, 0), (1, 10))]},
        since=10,
    )
    (origin,) = answer["origins"]
    assert parts(origin) == [("archive", 0, 10), ("log", 10, 30)]
    assert origin["gaps"] == []


def test_a_range_without_a_source_is_a_gap_with_a_reason() -> None:
    answer = told(
        {"own": ((1, 0), (1, 30))}, covered={"own": [((1, 4), (1, 9))]}, logs=("own",), since=10
    )
    (origin,) = answer["origins"]
    assert parts(origin) == [("archive", 4, 9), ("log", 10, 30)]
    assert [(gap["after"][1], gap["upto"][1]) for gap in origin["gaps"]] == [(0, 4), (9, 10)]
    assert origin["gaps"][0]["why"].startswith("retention removed it from this node's log")
    silent = told({"own": ((1, 0), (1, 9))}, since=10)["origins"][0]["gaps"][0]
    assert "coverage is unknown at the moment" in silent["why"]
    alone = told({"b": ((1, 0), (1, 9))}, archive=False, logs=("a",), alone=True)
    assert alone["origins"][0]["parts"][0]["source"] == "log"
    unreached = told({"b": ((1, 0), (1, 9))}, archive=False, logs=("a",))["origins"][0]
    assert unreached["parts"] == []
    assert unreached["gaps"][0]["why"].startswith("no node that has this log can be reached")
    both = {"a": ((1, 0), (1, 9)), "b": ((1, 0), (1, 9))}
    lost = told(both, archive=False, logs=("a",))["origins"][1]
    assert lost["gaps"][0]["why"].startswith("no node that has this log can be reached, and there")


def test_parts_name_the_nodes_that_are_asked() -> None:
    answer = told({"b": ((1, 2), (1, 9))}, logs=("b",))
    (part,) = answer["origins"][0]["parts"]
    assert (part["source"], part["whom"]) == ("logs", ["alps/b"])
    answer = told({"b": ((1, 2), (1, 9))}, logs=("b",), former="alps/x")
    (part,) = answer["origins"][0]["parts"]
    assert (part["source"], part["whom"]) == ("former", ["alps/x"])
    assert [step["source"] for step in answer["steps"]][:2] == ["former", "logs"]


def test_a_range_without_an_end_has_no_gap() -> None:
    answer = told({"x": ((1, 2), None)}, covered={"x": [((1, 2), (1, 9))]})
    (origin,) = answer["origins"]
    assert parts(origin) == [("archive", 2, 9)]
    assert origin["gaps"] == [] and origin["places"] is None and answer["places"] is None


marks = st.integers(0, 40).map(lambda offset: (1, offset))
ranges = st.tuples(marks, marks).map(sorted).filter(lambda each: each[0] < each[1]).map(tuple)


@given(
    wanted=st.dictionaries(st.sampled_from(["own", "a", "b"]), ranges, min_size=1),
    covered=st.dictionaries(st.sampled_from(["own", "a", "b"]), st.lists(ranges, max_size=3)),
    logs=st.sets(st.sampled_from(["own", "a"])),
    archive=st.booleans(),
    former=st.sampled_from(["", "alps/x"]),
    since=st.integers(0, 40),
    all_origins=st.booleans(),
)
def test_each_place_is_explained_once(
    wanted: dict[str, Any],
    covered: dict[str, Any],
    logs: set[str],
    archive: bool,
    former: str,
    since: int,
    all_origins: bool,
) -> None:
    answer = told(
        wanted,
        covered=covered,
        logs=tuple(logs),
        archive=archive,
        former=former,
        since=since,
        all_origins=all_origins,
    )
    for origin in answer["origins"]:
        after, upto = wanted[origin["origin"]]
        pieces = [*origin["parts"], *origin["gaps"]]
        places = sorted(
            n for each in pieces for n in range(each["after"][1] + 1, each["upto"][1] + 1)
        )
        assert places == list(range(after[1] + 1, upto[1] + 1))
