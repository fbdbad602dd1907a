"""Effects of failures on a mesh."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cli.mesh_failure import Failure, UnknownElement, check_failure, count_paths
from broker.cli.mesh_picture import Picture, read_picture
from tests.cli.mesh_answer import answer, link, row


def picture(**rows: dict[str, Any]) -> Picture:
    return read_picture(answer(**rows))


def test_paths_are_those_that_the_nodes_derive_themselves() -> None:
    assert count_paths(picture()) == dict.fromkeys(("a1", "a2", "b1", "b2", "b3", "c1", "c2"), 2)
    one_root = read_picture({"nodes": [row("a1", 0), row("b1", 1, "a1"), row("c1", 2, "b1")]})
    assert count_paths(one_root) == {"a1": 1, "b1": 1, "c1": 1}


def test_a_node_that_fails_takes_resilience_from_its_children() -> None:
    assert check_failure(picture(), ["b2"]) == Failure(
        gone=["b2"],
        cut_off=[],
        weakened={"c1": (1, 0), "c2": (1, 0)},
        shared={"uplink=isp-a": ["c1"], "uplink=isp-b": ["c2"]},
    )


def test_a_root_that_fails_takes_it_from_all() -> None:
    failure = check_failure(picture(), ["a1"])
    assert set(failure.weakened) == {"a2", "b1", "b2", "b3", "c1", "c2"}
    assert failure.cut_off == []


def test_a_diversity_key_and_several_nodes_fail_together() -> None:
    by_key = check_failure(picture(), ["uplink=isp-b"])
    assert (by_key.gone, by_key.cut_off) == (["b2", "b3"], ["c2"])
    assert by_key.weakened == {"c1": (1, 0)}
    assert check_failure(picture(), ["b2", "b3"]).cut_off == ["c2"]
    assert check_failure(picture(), ["a1", "a2"]).cut_off == ["b1", "b2", "b3", "c1", "c2"]


def test_shared_failures_are_there_without_a_failure_too() -> None:
    assert check_failure(picture(), ["c1"]).shared == {"uplink=isp-b": ["c2"]}


def test_a_parent_that_is_leaving_does_not_count() -> None:
    leaving = row("c1", 2, parents=[link("b1"), link("b2", leaving=True)])
    assert check_failure(picture(c1=leaving), ["b1"]).cut_off == ["c1"]


def test_of_a_node_without_an_answer_its_children_know_the_shared_paths() -> None:
    shared = ["node x", "node y", "uplink isp-z"]
    mesh = picture(c1=row("c1", 2, parents=[link("x", shared=shared, paths=1), link("b1")]))
    assert mesh.unanswered == ["x"]
    assert count_paths(mesh)["c1"] == 1
    for element in ("x", "y", "uplink=isp-z"):
        failure = check_failure(mesh, [element, "b1"])
        assert "c1" in failure.cut_off
    assert check_failure(mesh, ["y"]).gone == []
    assert check_failure(mesh, ["y"]).cut_off == ["x"]


def test_a_circle_between_old_answers_is_served_by_no_root() -> None:
    circle = picture(b1=row("b1", 1, "c1"), c1=row("c1", 2, "b1"))
    assert {"b1", "c1"}.isdisjoint(count_paths(circle))


@pytest.mark.parametrize("name", ["b9", "uplink=isp-c", "uplink", ""])
def test_an_unknown_element_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownElement, match=r"a1, a2, b1, b2, b3, c1, c2.*isp-a, uplink=isp-b"):
        check_failure(picture(), [name])
